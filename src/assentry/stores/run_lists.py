"""What is read of runs, switches, agents, credentials and policies that wait, the same on every database."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from assentry.core.credential import Credential, CredentialKind
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.run import Run
from assentry.core.switch import Switch
from assentry.ports import Pressure, RunFilter
from assentry.stores import rows
from assentry.stores.listing import beyond

T = TypeVar("T")
Fetch = Callable[[str, dict[str, Any]], Sequence[Any]]
"""The rows that the statement of this name finds."""

BEYOND = "~"
"""After every id."""


class RunReads:
    """The reading half of a store, as far as it is about runs and the agents behind them."""

    async def _look(self, errand: Callable[[Fetch], T]) -> T:
        """What `errand` made of what it fetched, all on one connection."""
        raise NotImplementedError

    async def run(self, workspace: str, run_id: str) -> Run | None:
        found = await self._some_runs("read_run", {"workspace": workspace, "id": rows.column(run_id)})
        return found[0] if found else None

    async def run_by_key(self, workspace: str, agent: str, key: str) -> Run | None:
        values = {"workspace": workspace, "agent": rows.column(agent), "key": rows.column(key)}
        found = await self._some_runs("run_by_key", values)
        return found[0] if found else None

    async def snapshot(self, workspace: str, run_id: str) -> str:
        values = {"workspace": workspace, "id": rows.column(run_id)}
        found = await self._look(lambda fetch: fetch("snapshot", values))
        return str(found[0][0]) if found else ""

    async def find_runs(self, workspace: str, prefix: str, limit: int = 10) -> tuple[Run, ...]:
        start = rows.column(prefix)
        values = {"workspace": workspace, "prefix": start, "beyond": beyond(start), "limit": limit}
        return await self._some_runs("find_runs", values)

    async def runs(self, workspace: str, wanted: RunFilter, *, after: str = "", limit: int = 50) -> tuple[Run, ...]:
        return await self._look(lambda fetch: runs_page(wanted, workspace, after, limit, fetch))

    async def resumable(self, workspace: str, hosts: Sequence[str], limit: int = 10) -> tuple[Run, ...]:
        def look(fetch: Fetch) -> tuple[Run, ...]:
            found: list[Run] = []
            for host in dict.fromkeys(hosts):
                found += _read(fetch("resumable", {"workspace": workspace, "host": rows.column(host), "limit": limit}))
            return _oldest_first(found)[:limit]

        return await self._look(look)

    async def switches(self, workspace: str) -> tuple[Switch, ...]:
        found = await self._look(lambda fetch: fetch("switches", {"workspace": workspace}))
        return tuple(rows.read_switch(text, key) for text, key in found)

    async def credential(self, workspace: str, kind: CredentialKind, credential_id: str) -> Credential | None:
        values = {"workspace": workspace, "kind": kind.value, "id": rows.column(credential_id)}
        found = await self._look(lambda fetch: fetch("credential", values))
        return rows.read_credential(*found[0]) if found else None

    async def credentials(
        self, workspace: str, kind: CredentialKind, *, holder: str = "", after: str = "", limit: int = 100
    ) -> tuple[Credential, ...]:
        values = {"workspace": workspace, "kind": kind.value, "after": rows.column(after), "limit": limit}
        name = "credentials_of" if holder else "credentials"
        values |= {"holder": rows.column(holder)} if holder else {}
        found = await self._look(lambda fetch: fetch(name, values))
        return tuple(rows.read_credential(text, key) for text, key in found)

    async def proposal(self, workspace: str, code: str) -> PolicyProposal | None:
        values = {"workspace": workspace, "code": rows.column(code)}
        found = await self._look(lambda fetch: fetch("proposal", values))
        return rows.read_proposal(*found[0]) if found else None

    async def proposals(self, workspace: str, limit: int = 50) -> tuple[PolicyProposal, ...]:
        found = await self._look(lambda fetch: fetch("proposals", {"workspace": workspace, "limit": limit}))
        return tuple(rows.read_proposal(text, key) for text, key in found)

    async def spent(self, workspace: str, agent: str, since: datetime, but: str = "") -> Decimal:
        values = {"workspace": workspace, "agent": rows.column(agent), "since": rows.since_id(since), "but": but}
        ((total,),) = await self._look(lambda fetch: fetch("spent", values))
        return round(Decimal(total), 9)  # some databases add up in floating point

    async def pressure(self, workspace: str, agent: str, since: datetime, most: int) -> Pressure:
        values = {"workspace": workspace, "agent": rows.column(agent), "since": rows.since_id(since), "most": most}
        return Pressure(*(await self._look(lambda fetch: fetch("pressure", values)))[0])

    async def _some_runs(self, name: str, values: dict[str, Any]) -> tuple[Run, ...]:
        return await self._look(lambda fetch: _read(fetch(name, values)))


def _read(found: Iterable[tuple[str, str]]) -> tuple[Run, ...]:
    return tuple(rows.read_run(text, key) for text, key in found)


def runs_page(
    wanted: RunFilter,
    workspace: str,
    after: str,
    limit: int,
    look: Fetch,
) -> tuple[Run, ...]:
    """Newest first: one walk of an index for each state that is wanted."""

    def fetch(name: str, values: dict[str, Any]) -> tuple[Run, ...]:
        return _read(look(name, values))

    values: dict[str, Any] = {"workspace": workspace, "after": rows.column(after) if after else BEYOND, "limit": limit}
    if wanted.parent or wanted.agent:
        name = "runs_of_parent" if wanted.parent else "runs_of_agent"
        values |= {"parent": wanted.parent, "agent": rows.column(wanted.agent)}
        return _filtered(wanted, values, limit, lambda at: fetch(name, {**values, "after": at}))
    if not wanted.states:
        return fetch("runs", values)
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


def _oldest_first(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Those parked longest first."""
    return tuple(sorted(runs, key=lambda run: (run.changed_at or run.created_at, run.id)))
