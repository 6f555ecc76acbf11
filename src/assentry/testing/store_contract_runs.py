"""The contract, fifth part: runs, what they wait for, and what wakes them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from assentry.core.change import Change
from assentry.core.request import State
from assentry.core.run import Observation, PlanStep, Run, RunState, Scope
from assentry.core.run_life import Continue, Enter, Finished, Park, Pause, Progress, RunEvent, advance_run, begun
from assentry.errors import Conflict, LeaseLost, StaleRequest
from assentry.ports import RunFilter, Step, Store, View
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import LONG_AGO, WORKSPACE, asked, identifier, inserted, moved, pending

LEASE = timedelta(minutes=5)


def a_run(number: int, **more: Any) -> Run:
    """A run nobody has begun."""
    given: dict[str, Any] = {
        "id": identifier(number),
        "code": f"R{number:05d}",
        "workspace": WORKSPACE,
        "agent": "cleanup",
        "asked_by": "alice",
        "created_at": LONG_AGO,
        "goal": "Tidy up",
    }
    return Run(**{**given, **more})


def begins(run: Run, lease: timedelta = LEASE) -> Step:
    return lambda view: begun(run, "w1", lease, view.now)


def moves(make: Callable[[Run], RunEvent], snapshot: str | None = None) -> Step:
    """The step that takes the event made of whatever run is there."""

    def step(view: View) -> Change | None:
        assert view.run is not None
        change = advance_run(view.run, make(view.run), view.now)
        return change if change is None else replace(change, snapshot=snapshot)

    return step


def _same(event: RunEvent, _: Run) -> RunEvent:
    return event


def enters(worker: str) -> Step:
    return moves(lambda _: Enter(worker, LEASE))


async def parked(store: Store, number: int, *requests: str, snapshot: str = "{}", **more: Any) -> Run:
    """A run that is parked on these requests."""
    run = a_run(number, **{"host": "loop", **more})
    await store.transact(WORKSPACE, None, begins(run))
    park = moves(lambda current: Park(current.fence, requests), snapshot)
    change = await store.transact(WORKSPACE, None, park, run=run.id, awaiting=requests)
    assert change is not None
    assert change.run is not None
    return change.run


class Runs(StorePlace):
    """A run is rows; what it waits for wakes it."""

    async def test_a_run_comes_back_as_it_was_written(self, store: Store) -> None:
        run = a_run(
            1,
            original="just a small cleanup, please",
            scope=Scope(("delete_*",), {"files": Decimal("20")}, ("@example.org",), ("/srv",)),
            host="loop",
            key="monday",
            parent=identifier(9),
            plan=(PlanStep("find", done=True), PlanStep("delete")),
            spend=Decimal("0.25"),
            used={"files": Decimal(3)},
            confidence=0.75,
            observations=(Observation("web", "hello"),),
            outcome={"files": [1, 2]},
        )
        change = await store.transact(WORKSPACE, None, begins(run))
        assert change is not None
        assert change.run is not None
        assert await store.run(WORKSPACE, run.id) == change.run
        assert await store.run_by_key(WORKSPACE, "cleanup", "monday") == change.run
        assert await store.run_by_key(WORKSPACE, "cleanup", "") is None
        assert await store.run(WORKSPACE, identifier(2)) is None
        assert await store.find_runs(WORKSPACE, "R0000") == (change.run,)
        assert await store.find_runs(WORKSPACE, run.id[:12]) == (change.run,)
        assert await store.find_runs("other", "R0000") == ()

    async def test_two_processes_cannot_hold_one_run_and_the_older_loses_its_say(self, store: Store) -> None:
        run = a_run(1)
        await store.transact(WORKSPACE, None, begins(run))
        with pytest.raises(Conflict, match="held by w1"):
            await store.transact(WORKSPACE, None, moves(lambda _: Enter("w2", LEASE)), run=run.id)
        await store.transact(WORKSPACE, None, moves(lambda current: Park(current.fence, ())), run=run.id)
        entered = await asyncio.gather(
            *(store.transact(WORKSPACE, None, enters(f"w{number}"), run=run.id) for number in range(2, 6)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Change) for each in entered) == 1
        with pytest.raises(LeaseLost):
            await store.transact(WORKSPACE, None, moves(lambda _: Progress(1, steps=1)), run=run.id)

    async def test_a_run_that_was_begun_already_or_changed_meanwhile_is_refused(self, store: Store) -> None:
        run = a_run(1)
        await store.transact(WORKSPACE, None, begins(run))
        with pytest.raises(StaleRequest):
            await store.transact(WORKSPACE, None, begins(run))
        stale = replace(run, version=7)
        with pytest.raises(StaleRequest):
            await store.transact(WORKSPACE, None, lambda _: Change(run=stale), run=run.id)

    async def test_one_key_has_one_open_run(self, store: Store) -> None:
        begun_ones = await asyncio.gather(
            *(store.transact(WORKSPACE, None, begins(a_run(number, key="k"))) for number in range(1, 9)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, Change) for each in begun_ones) == 1
        (open_one,) = await store.runs(WORKSPACE, RunFilter())
        ended = moves(lambda run: Finished(run.fence))
        await store.transact(WORKSPACE, None, ended, run=open_one.id)
        await store.transact(WORKSPACE, None, begins(a_run(20, key="k")))
        latest = await store.run_by_key(WORKSPACE, "cleanup", "k")
        assert latest is not None
        assert latest.id == identifier(20)

    async def test_progress_is_committed_with_the_request_it_belongs_to(self, store: Store) -> None:
        run = a_run(1)
        await store.transact(WORKSPACE, None, begins(run))
        request = pending(asked(5, run=run.id, step="a"))

        def step(view: View) -> Change:
            assert view.run is not None
            progress = advance_run(view.run, Progress(view.run.fence, steps=1, spend=Decimal("0.5")), view.now)
            assert progress is not None
            return replace(inserted(request)(view) or Change(), run=progress.run)

        await store.transact(WORKSPACE, None, step, run=run.id)
        found = await store.run(WORKSPACE, run.id)
        assert found is not None
        assert (found.steps, found.spend) == (1, Decimal("0.5"))
        assert await store.request(WORKSPACE, request.id) is not None
        with pytest.raises(Conflict):  # the same step again: neither is written
            await store.transact(WORKSPACE, None, step, run=run.id)
        again = await store.run(WORKSPACE, run.id)
        assert again == found

    async def test_a_decision_wakes_the_runs_that_wait_for_it_and_no_others(self, store: Store) -> None:
        for number in (1, 2, 3):
            await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
        await parked(store, 11, identifier(1), snapshot='{"at":1}')
        both = await parked(store, 12, identifier(1), identifier(2))
        await parked(store, 13, identifier(3))
        elsewhere = await parked(store, 14, identifier(2), host="another")
        assert await store.resumable(WORKSPACE, ["loop", "another"]) == ()
        await store.transact(WORKSPACE, identifier(2), moved(state=State.APPROVED))
        assert await store.resumable(WORKSPACE, ["loop"]) == (both,)
        assert await store.resumable(WORKSPACE, ["another", "loop", "loop"]) == (both, elsewhere)
        assert await store.resumable(WORKSPACE, []) == ()
        assert await store.snapshot(WORKSPACE, identifier(11)) == '{"at":1}'
        assert await store.snapshot(WORKSPACE, identifier(77)) == ""
        # Taken up, it is nobody else's.
        await store.transact(WORKSPACE, None, moves(lambda _: Enter("w2", LEASE)), run=both.id)
        assert await store.resumable(WORKSPACE, ["loop"]) == ()
        await store.transact(WORKSPACE, identifier(1), moved(state=State.DENIED))
        assert [run.id for run in await store.resumable(WORKSPACE, ["loop"])] == [identifier(11)]

    async def test_what_was_decided_before_it_parked_wakes_it_at_once(self, store: Store) -> None:
        await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
        await store.transact(WORKSPACE, identifier(1), moved(state=State.DENIED))
        run = await parked(store, 11, identifier(1))
        nothing = await parked(store, 12)
        assert await store.resumable(WORKSPACE, ["loop"]) == (run, nothing)

    async def test_a_paused_run_is_not_woken_until_it_goes_on(self, store: Store) -> None:
        await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
        run = await parked(store, 11, identifier(1))
        await store.transact(WORKSPACE, None, moves(lambda _: Pause("alice")), run=run.id)
        await store.transact(WORKSPACE, identifier(1), moved(state=State.DENIED))
        assert await store.resumable(WORKSPACE, ["loop"]) == ()
        await store.transact(WORKSPACE, None, moves(lambda _: Continue("alice")), run=run.id)
        assert [each.id for each in await store.resumable(WORKSPACE, ["loop"])] == [run.id]

    async def test_no_decision_is_lost_between_parking_and_deciding(self, store: Store) -> None:
        """Parked and decided at the same moment, many times: every one of them can be resumed afterwards."""
        for number in range(40):
            await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
            await store.transact(WORKSPACE, None, begins(a_run(100 + number, host="loop")))

        async def park(number: int) -> None:
            wait = (identifier(number),)
            step = moves(lambda current: Park(current.fence, wait))
            await store.transact(WORKSPACE, None, step, run=identifier(100 + number), awaiting=wait)

        await asyncio.gather(
            *(park(number) for number in range(40)),
            *(store.transact(WORKSPACE, identifier(number), moved(state=State.APPROVED)) for number in range(40)),
        )
        assert len(await store.resumable(WORKSPACE, ["loop"], limit=100)) == 40

    async def test_runs_are_listed_newest_first_page_by_page(self, store: Store) -> None:
        for number in range(25):
            parent = identifier(3) if number % 5 == 0 else ""
            await store.transact(WORKSPACE, None, begins(a_run(number, agent=f"a{number % 2}", parent=parent)))
            if number % 3 == 0:
                step = moves(lambda current: Park(current.fence, ()))
                await store.transact(WORKSPACE, None, step, run=identifier(number))

        async def numbers(wanted: RunFilter) -> list[int]:
            found: list[int] = []
            after = ""
            while page := await store.runs(WORKSPACE, wanted, after=after, limit=4):
                found += [int(run.id[:13].replace("-", ""), 16) for run in page]
                after = page[-1].id
            return found

        everyone = list(range(24, -1, -1))
        assert await numbers(RunFilter()) == everyone
        assert await numbers(RunFilter(states=(RunState.PARKED,))) == [n for n in everyone if n % 3 == 0]
        assert await numbers(RunFilter(states=(RunState.PARKED, RunState.RUNNING))) == everyone
        assert await numbers(RunFilter(agent="a1")) == [n for n in everyone if n % 2]
        assert await numbers(RunFilter(agent="a1", states=(RunState.PARKED,))) == [21, 15, 9, 3]
        assert await numbers(RunFilter(parent=identifier(3))) == [20, 15, 10, 5, 0]

    async def test_what_an_agent_spent_is_added_up(self, store: Store) -> None:
        now = datetime.now(UTC)
        made = [str(uuid7()) for _ in range(4)]
        for key, agent, spend in zip(made, ("a", "a", "a", "b"), ("0.1", "0.2", "7", "50"), strict=True):
            await store.transact(WORKSPACE, None, begins(replace(a_run(1, agent=agent), id=key, code=key)))
            more = Progress(1, spend=Decimal(spend))
            await store.transact(WORKSPACE, None, moves(partial(_same, more)), run=key)
        assert await store.spent(WORKSPACE, "a", now - timedelta(seconds=1), made[2]) == Decimal("0.3")
        assert await store.spent(WORKSPACE, "a", now + timedelta(hours=1)) == 0
        assert await store.spent("elsewhere", "a", now - timedelta(hours=1)) == 0

    async def test_a_process_that_does_not_show_that_it_lives_is_found(self, store: Store) -> None:
        await store.transact(WORKSPACE, None, begins(a_run(1), timedelta(seconds=-1)))
        await store.transact(WORKSPACE, None, begins(a_run(2)))
        assert [run.id for run in await store.overdue_runs(WORKSPACE)] == [identifier(1)]
        due = await store.next_due(WORKSPACE)
        assert due is not None
        assert due < datetime.now(UTC)

    async def test_a_watcher_hears_of_runs(self, store: Store) -> None:
        heard = Heard()
        store.watch(heard)
        await store.transact(WORKSPACE, None, begins(a_run(1)))
        await heard.until(lambda h: h.versions.get(f"run:{identifier(1)}") == 1)
