"""The contract, first part: changes are made of the current state, whole or not at all."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assentry.core.change import Change
from assentry.core.grant import use
from assentry.core.request import Request, State
from assentry.errors import Conflict, DuplicateStep, GrantSpent, Parked, StaleRequest
from assentry.ports import Step, Store, View
from assentry.testing.store_values import (
    WORKSPACE,
    advanced,
    asked,
    candidate,
    everything,
    grant,
    grants_step,
    identifier,
    inserted,
    moved,
    pending,
)


class Boom(Exception):
    """Raised by a step on purpose."""


def _kept(seen: list[View]) -> Step:
    """A step that changes nothing and keeps what it saw."""
    return seen.append


def _always(change: Change) -> Step:
    return lambda _: change


class Requests:
    """Inserting, moving and colliding."""

    async def put(self, store: Store, number: int, **more: Any) -> Request:
        """Request `number` is stored, pending unless said otherwise."""
        of_ask = {name: more.pop(name) for name in ("run", "step", "shown", "executor", "agent") if name in more}
        request = pending(asked(number, **of_ask), **more)
        await store.transact(WORKSPACE, None, inserted(request))
        return request

    async def test_a_request_with_everything_set_comes_back_as_it_was(self, store: Store) -> None:
        request = everything()
        change = await store.transact(WORKSPACE, None, inserted(request))
        assert change is not None
        assert change.request == request
        assert await store.request(WORKSPACE, request.id) == request

    async def test_a_small_request_comes_back_with_its_defaults(self, store: Store) -> None:
        request = await self.put(store, 1)
        assert await store.request(WORKSPACE, request.id) == request

    async def test_the_step_sees_what_is_stored_and_the_clock_of_the_database(self, store: Store) -> None:
        request = await self.put(store, 1)
        seen: list[View] = []

        def step(view: View) -> Change | None:
            seen.append(view)
            return None

        before = await store.now()
        assert await store.transact(WORKSPACE, request.id, step) is None
        after = await store.now()
        assert seen[-1].request == request
        assert seen[-1].grants == ()
        slack = timedelta(milliseconds=50)
        assert before - slack <= seen[-1].now <= after + slack
        assert seen[-1].now.tzinfo is not None

    async def test_the_clock_of_a_new_request_is_right_to_a_fraction_of_a_second(self, store: Store) -> None:
        seen: list[datetime] = []

        def step(view: View) -> Change:
            seen.append(view.now)
            return inserted(pending(asked(1)))(view) or Change()

        before = await store.now()
        await store.transact(WORKSPACE, None, step)
        after = await store.now()
        slack = timedelta(milliseconds=100)
        assert before - slack <= seen[-1] <= after + slack

    async def test_a_step_sees_none_where_there_is_nothing(self, store: Store) -> None:
        seen: list[View] = []
        assert await store.transact(WORKSPACE, identifier(9), _kept(seen)) is None
        assert seen[0].request is None

    async def test_a_step_that_raises_changes_nothing_and_its_error_arrives(self, store: Store) -> None:
        request = await self.put(store, 1)

        def step(view: View) -> Change:
            moved(state=State.DENIED)(view)
            raise Boom

        with pytest.raises(Boom):
            await store.transact(WORKSPACE, request.id, step)
        assert await store.request(WORKSPACE, request.id) == request
        assert await store.sequence(WORKSPACE) == 1

    async def test_among_many_at_once_only_those_that_raise_are_rolled_back(self, store: Store) -> None:
        def failing(_view: View) -> Change:
            raise Boom

        def parking(_view: View) -> Change:
            raise Parked("id", "code")

        def step_of(number: int) -> Any:
            return failing if number % 5 == 0 else parking if number % 7 == 0 else inserted(pending(asked(number)))

        results = await asyncio.gather(
            *(store.transact(WORKSPACE, None, step_of(number)) for number in range(50)), return_exceptions=True
        )
        for number, result in enumerate(results):
            stored = await store.request(WORKSPACE, identifier(number))
            if number % 5 == 0:
                assert isinstance(result, Boom)
                assert stored is None
            elif number % 7 == 0:
                assert isinstance(result, Parked)
                assert stored is None
            else:
                assert isinstance(result, Change)
                assert stored == result.request
        good = [number for number in range(50) if number % 5 and number % 7]
        assert await store.sequence(WORKSPACE) == len(good)

    async def test_among_many_at_once_only_the_duplicates_are_refused(self, store: Store) -> None:
        results = await asyncio.gather(
            *(
                store.transact(WORKSPACE, None, inserted(pending(asked(n, run="run", step=f"step {n % 10}"))))
                for n in range(50)
            ),
            return_exceptions=True,
        )
        won = [result for result in results if isinstance(result, Change)]
        assert len(won) == 10
        assert all(isinstance(result, Change | DuplicateStep) for result in results)
        assert await store.sequence(WORKSPACE) == 10

    async def test_a_change_made_from_another_version_is_refused(self, store: Store) -> None:
        request = await self.put(store, 1)
        for version in (1, 3, 7):
            with pytest.raises(StaleRequest) as caught:
                await store.transact(WORKSPACE, request.id, _always(Change(replace(request, version=version))))
            assert caught.value.request_id == request.id
        with pytest.raises(StaleRequest):
            await store.transact(WORKSPACE, None, _always(Change(replace(pending(asked(2)), version=2))))
        assert await store.request(WORKSPACE, request.id) == request

    async def test_changes_of_one_request_at_once_are_made_one_after_the_other(self, store: Store) -> None:
        request = await self.put(store, 1, fence=0)
        step = advanced(lambda current, _: replace(current, fence=current.fence + 1))
        await asyncio.gather(*(store.transact(WORKSPACE, request.id, step) for _ in range(20)))
        stored = await store.request(WORKSPACE, request.id)
        assert stored is not None
        assert (stored.fence, stored.version) == (20, 21)

    async def test_a_hint_that_is_out_of_date_makes_no_difference(self, store: Store) -> None:
        request = await self.put(store, 1, fence=0)
        step = advanced(lambda current, _: replace(current, fence=current.fence + 1))
        await asyncio.gather(*(store.transact(WORKSPACE, request.id, step, hint=request) for _ in range(20)))
        stored = await store.request(WORKSPACE, request.id)
        assert stored is not None
        assert (stored.fence, stored.version) == (20, 21)
        assert [logged.index for logged in await self.logged(store, request)] == list(range(21))

    async def logged(self, store: Store, request: Request) -> Any:
        await store.sequence(WORKSPACE)
        return await store.entries(WORKSPACE, subject=request.id)

    async def test_what_a_step_refuses_because_of_an_old_hint_is_not_believed(self, store: Store) -> None:
        old = await self.put(store, 1, state=State.DENIED)
        await store.transact(WORKSPACE, old.id, moved(state=State.PENDING))

        def step(view: View) -> Change | None:
            assert view.request is not None
            if view.request.state is State.DENIED:
                raise Conflict("already decided", request_id=old.id, code=old.code, state="denied")
            return moved(state=State.APPROVED)(view)

        change = await store.transact(WORKSPACE, old.id, step, hint=old)
        assert change is not None
        assert change.request is not None
        assert change.request.version == 3

    async def test_a_deadline_that_passes_before_the_commit_is_seen_by_the_step(self, store: Store) -> None:
        due_at = await store.now() + timedelta(milliseconds=80)
        request = await self.put(store, 1, due_at=due_at)

        def step(view: View) -> Change | None:
            late = view.request is not None and view.request.due_at is not None and view.now >= view.request.due_at
            return moved(state=State.EXPIRED if late else State.APPROVED, due_at=None)(view)

        await asyncio.sleep(0.1)
        change = await store.transact(WORKSPACE, request.id, step, hint=request)
        assert change is not None
        assert change.request is not None
        assert change.request.state is State.EXPIRED

    async def test_one_step_of_a_run_has_one_request(self, store: Store) -> None:
        first = await self.put(store, 1, run="run", step="step")
        with pytest.raises(DuplicateStep) as caught:
            await self.put(store, 2, run="run", step="step")
        assert caught.value.request_id == first.id
        assert caught.value.code == first.code
        assert await store.request(WORKSPACE, identifier(2)) is None
        assert await store.by_step(WORKSPACE, "run", "step") == first
        assert await store.by_step(WORKSPACE, "run", "other") is None
        assert await store.by_step(WORKSPACE, "", "") is None

    async def test_a_request_found_by_a_known_id_may_be_inserted_there(self, store: Store) -> None:
        request = pending(asked(1, run="run", step="step"))
        await store.transact(WORKSPACE, request.id, inserted(request))
        with pytest.raises(DuplicateStep):
            await store.transact(WORKSPACE, identifier(2), inserted(pending(asked(2, run="run", step="step"))))

    async def test_without_a_run_or_a_step_nothing_is_a_duplicate(self, store: Store) -> None:
        for number, (run, step) in enumerate([("", ""), ("", ""), ("run", ""), ("run", ""), ("", "s"), ("", "s")]):
            await self.put(store, number, run=run, step=step)
        assert await store.sequence(WORKSPACE) == 6

    async def test_an_id_is_taken_once(self, store: Store) -> None:
        request = await self.put(store, 1)
        with pytest.raises(Conflict):
            await store.transact(WORKSPACE, None, inserted(replace(request, word="other")))
        assert await store.request(WORKSPACE, request.id) == request

    async def test_several_are_read_by_one_look_and_what_is_not_there_is_left_out(self, store: Store) -> None:
        made = [pending(asked(number)) for number in range(3)]
        for request in made:
            await store.transact(WORKSPACE, None, inserted(request))
        wanted = [made[2].id, "nothing", made[0].id, "\0'\ud800", made[0].id]
        assert {each.id for each in await store.those(WORKSPACE, wanted)} == {made[0].id, made[2].id}
        assert await store.those(WORKSPACE, ()) == ()
        assert await store.those("elsewhere", wanted) == ()
        [found] = await store.those(WORKSPACE, [made[1].id])
        assert found == await store.request(WORKSPACE, made[1].id)

    async def test_workspaces_see_nothing_of_each_other(self, store: Store) -> None:
        here = await self.put(store, 1, run="run", step="step")
        there = pending(asked(1, workspace="other", run="run", step="step"))
        await store.transact("other", None, inserted(there))
        await store.transact("other", there.id, moved(state=State.DENIED))
        assert await store.request(WORKSPACE, here.id) == here
        assert await store.sequence(WORKSPACE) == 1
        assert await store.sequence("other") == 2
        assert await store.find("third", "K") == ()

    async def test_a_modified_candidate_is_kept_beside_what_was_asked(self, store: Store) -> None:
        request = await self.put(store, 1)
        instead = candidate("delete_files", {"pattern": "a.tmp"}, says="Delete 1 file")
        await store.transact(WORKSPACE, request.id, moved(candidate=instead))
        stored = await store.request(WORKSPACE, request.id)
        assert stored is not None
        assert stored.candidate == instead
        assert stored.ask == request.ask

    async def test_large_and_unusual_payloads_come_back_unchanged(self, store: Store) -> None:
        strange = "ü\u2028\U0001f600\0\x1b[31m\ufffd" + "x" * 900_000
        shown = candidate("say", {"text": strange}, says=strange[:200])
        request = await self.put(store, 1, shown=shown, agent="a\0b", run="r\0", step="s\ufffd", result_text=strange)
        assert await store.request(WORKSPACE, request.id) == request
        assert await store.by_step(WORKSPACE, "r\0", "s\ufffd") == request

    async def test_a_grant_is_made_used_and_revoked(self, store: Store) -> None:
        made = grant(1, limit=5)
        await store.transact(WORKSPACE, None, grants_step(made, grant(2, expires_at=datetime(2020, 1, 1, tzinfo=UTC))))
        assert await store.grants(WORKSPACE) == (made,)
        assert len(await store.grants(WORKSPACE, live_only=False)) == 2
        gone = replace(made, version=2, revoked_at=await store.now())
        await store.transact(WORKSPACE, None, grants_step(gone, kind="grant.revoked"))
        assert await store.grants(WORKSPACE) == ()
        assert gone in await store.grants(WORKSPACE, live_only=False)
        with pytest.raises(StaleRequest):
            await store.transact(WORKSPACE, None, grants_step(replace(made, version=2)))
        with pytest.raises(StaleRequest):
            await store.transact(WORKSPACE, None, grants_step(made))

    async def test_a_grant_is_never_used_more_often_than_it_allows(self, store: Store) -> None:
        await store.transact(WORKSPACE, None, grants_step(grant(1, limit=7), grant(2)))

        def using(number: int) -> Any:
            def step(view: View) -> Change:
                (found,) = view.grants
                request = pending(asked(number), state=State.RUNNING)
                change = inserted(request)(view)
                assert change is not None
                return replace(change, grants=(use(found, None, view.now),))

            return step

        results = await asyncio.gather(
            *(store.transact(WORKSPACE, None, using(n), grants=("grant-0001",)) for n in range(20)),
            return_exceptions=True,
        )
        assert sum(isinstance(result, Change) for result in results) == 7
        assert sum(isinstance(result, GrantSpent) for result in results) == 13
        (second, first) = await store.grants(WORKSPACE)
        assert (first.used, first.version, second.used) == (7, 8, 0)
        assert await store.sequence(WORKSPACE) == 2 + 7

    async def test_named_grants_arrive_in_the_order_of_their_names(self, store: Store) -> None:
        await store.transact(WORKSPACE, None, grants_step(grant(1), grant(2)))
        seen: list[View] = []
        names = ("grant-0002", "nothing", "grant-0001")
        await store.transact(WORKSPACE, None, _kept(seen), grants=names)
        assert [found.id for found in seen[0].grants] == ["grant-0002", "grant-0001"]
