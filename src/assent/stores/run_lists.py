"""Pages of runs, the same on every database: one walk of an index for each state that is wanted."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from assent.core.run import Run
from assent.ports import RunFilter
from assent.stores import rows

BEYOND = "~"
"""After every id."""


def runs_page(
    wanted: RunFilter,
    workspace: str,
    after: str,
    limit: int,
    fetch: Callable[[str, dict[str, Any]], Sequence[Run]],
) -> tuple[Run, ...]:
    """Newest first. `fetch` runs the statement of this name."""
    values: dict[str, Any] = {"workspace": workspace, "after": rows.column(after) if after else BEYOND, "limit": limit}
    if wanted.parent or wanted.agent:
        name = "runs_of_parent" if wanted.parent else "runs_of_agent"
        values |= {"parent": wanted.parent, "agent": rows.column(wanted.agent)}
        return _filtered(wanted, values, limit, lambda at: fetch(name, {**values, "after": at}))
    if not wanted.states:
        return tuple(fetch("runs", values))
    found = [run for state in wanted.states for run in fetch("runs_in_state", {**values, "state": state.value})]
    return tuple(sorted(found, key=lambda run: run.id, reverse=True)[:limit])


def _filtered(
    wanted: RunFilter, values: dict[str, Any], limit: int, fetch: Callable[[str], Sequence[Run]]
) -> tuple[Run, ...]:
    """What fits, from as many pages as it takes."""
    found: list[Run] = []
    after = values["after"]
    while len(found) < limit and (page := fetch(after)):
        found += [run for run in page if _fits(run, wanted)]
        after = page[-1].id
        if len(page) < limit:
            break
    return tuple(found[:limit])


def _fits(run: Run, wanted: RunFilter) -> bool:
    return (not wanted.states or run.state in wanted.states) and (not wanted.agent or run.agent == wanted.agent)


def oldest_first(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Those parked longest first."""
    return tuple(sorted(runs, key=lambda run: (run.changed_at or run.created_at, run.id)))
