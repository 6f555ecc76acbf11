"""The contract, third part: the log, policies, checkpoints and what purging leaves."""

import asyncio
import hashlib
import json
import time
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.request import Request, State
from assentry.ports import Filter, Signed, Store, View
from assentry.testing.store_values import (
    LONG_AGO,
    WORKSPACE,
    asked,
    candidate,
    everything,
    inserted,
    moved,
    pending,
)


def noted(number: int, workspace: str = WORKSPACE, **body: Any) -> Entry:
    return Entry("call.ran", LONG_AGO, workspace, f"call-{number}", "cleanup", {"number": number, **body})


def purge_entry(count: int, at: datetime) -> Entry:
    return Entry("payloads.purged", at, WORKSPACE, "retention", "operator", {"count": count})


def policy_entry(version: int, at: datetime) -> Entry:
    return Entry("policy.applied", at, WORKSPACE, str(version), "alice", {"version": version})


class Log:
    """Entries are committed with what they say, and numbered without a gap."""

    async def test_entries_are_committed_with_the_change_and_hashed(self, store: Store) -> None:
        request = pending(asked(1))
        await store.transact(WORKSPACE, None, inserted(request))
        change = await store.transact(WORKSPACE, request.id, moved(state=State.DENIED))
        assert change is not None
        assert await store.sequence(WORKSPACE) == 2
        first, second = await store.entries(WORKSPACE)
        assert (first.index, second.index) == (0, 1)
        assert second.text == change.entries[0].text()
        assert second.leaf == hashlib.sha256(b"\0" + second.text.encode()).hexdigest()

    async def test_entries_are_read_from_either_end_and_by_subject(self, store: Store) -> None:
        requests = [pending(asked(number)) for number in range(3)]
        for request in requests:
            await store.transact(WORKSPACE, None, inserted(request))
        for _ in range(3):
            for request in requests:
                await store.transact(WORKSPACE, request.id, moved(state=State.PENDING))
        assert await store.sequence(WORKSPACE) == 12

        async def indexes(**how: Any) -> list[int]:
            return [logged.index for logged in await store.entries(WORKSPACE, **how)]

        subject = requests[1].id
        assert await indexes() == list(range(12))
        assert await indexes(start=5, limit=3) == [5, 6, 7]
        assert await indexes(newest_first=True, limit=3) == [11, 10, 9]
        assert await indexes(newest_first=True, start=5, limit=2) == [4, 3]
        assert await indexes(subject=subject) == [1, 4, 7, 10]
        assert await indexes(subject=subject, start=4, limit=2) == [4, 7]
        assert await indexes(subject=subject, newest_first=True) == [10, 7, 4, 1]
        assert await indexes(subject=subject, newest_first=True, start=7) == [4, 1]
        assert await indexes(subject="nothing") == []

    async def test_indexes_are_dense_and_in_order_under_many_writers(self, store: Store) -> None:
        async def life(number: int) -> None:
            request = pending(asked(number))
            await store.transact(WORKSPACE, None, inserted(request))
            for turn in range(4):
                step = _refusing if number % 7 == 3 and turn == 2 else moved(fence=turn)
                hint = request if turn == 0 else None
                await asyncio.gather(
                    store.transact(WORKSPACE, request.id, step, hint=hint),
                    store.sequence(WORKSPACE),
                    return_exceptions=True,
                )

        await asyncio.gather(*(life(number) for number in range(50)))
        total = 50 * 5 - len([number for number in range(50) if number % 7 == 3])
        assert await store.sequence(WORKSPACE) == total
        logged = await store.entries(WORKSPACE, limit=10_000)
        assert [line.index for line in logged] == list(range(total))
        versions: dict[str, list[int]] = {}
        for line in logged:
            said = json.loads(line.text)
            versions.setdefault(said["subject"], []).append(said["body"]["version"])
        assert all(found == list(range(1, len(found) + 1)) for found in versions.values())

    async def test_recorded_entries_are_durable_after_a_flush(self, store: Store) -> None:
        for number in range(1000):
            store.record(partial(noted, number))
        await store.flush()
        assert await store.sequence(WORKSPACE) == 1000
        logged = await store.entries(WORKSPACE, limit=2000)
        assert [json.loads(line.text)["body"]["number"] for line in logged] == list(range(1000))

    async def test_recorded_entries_are_written_without_a_flush(self, store: Store) -> None:
        store.record(lambda: noted(1))
        store.record(lambda: noted(2, "other"))
        for _ in range(100):
            await asyncio.sleep(0.05)
            if await store.sequence(WORKSPACE) and await store.sequence("other"):
                return
        pytest.fail("what was recorded was not written")

    async def test_an_entry_that_cannot_be_written_does_not_hold_up_the_others(self, store: Store) -> None:
        def failing() -> Entry:
            raise ValueError

        store.record(lambda: noted(1, bad=float("nan")))
        store.record(failing)
        store.record(lambda: noted(2))
        await store.flush()
        assert await store.sequence(WORKSPACE) == 2
        first, second = [json.loads(line.text) for line in await store.entries(WORKSPACE)]
        assert first["body"] == {"unwritable": True}
        assert second["body"] == {"number": 2}

    async def test_recording_costs_its_caller_next_to_nothing(self, store: Store) -> None:
        entries = [partial(noted, number) for number in range(5000)]
        started = time.perf_counter()
        for entry in entries:
            store.record(entry)
        spent = time.perf_counter() - started
        await store.flush()
        assert await store.sequence(WORKSPACE) == 5000
        # Microseconds each in quiet; the bound leaves room for a busy machine.
        assert spent / 5000 < 0.0002

    async def test_policies_are_versioned_without_a_gap_under_concurrency(self, store: Store) -> None:
        assert await store.policy(WORKSPACE) is None
        applied = await asyncio.gather(
            *(store.apply_policy(WORKSPACE, f"text ü {number}", "alice", policy_entry) for number in range(20))
        )
        assert sorted(policy.version for policy in applied) == list(range(1, 21))
        current = await store.policy(WORKSPACE)
        assert current in applied
        assert current is not None
        assert current.version == 20
        found = await store.policies(WORKSPACE, limit=100)
        assert [policy.version for policy in found] == list(range(20, 0, -1))
        assert set(found) == set(applied)
        assert len(await store.policies(WORKSPACE, limit=3)) == 3
        assert await store.policy("other") is None
        assert await store.sequence(WORKSPACE) == 20

    async def test_a_policy_whose_entry_cannot_be_made_is_not_applied(self, store: Store) -> None:
        def failing(_version: int, _at: datetime) -> Entry:
            raise ValueError

        with pytest.raises(ValueError):
            await store.apply_policy(WORKSPACE, "text", "alice", failing)
        assert await store.policy(WORKSPACE) is None

    async def test_checkpoints_come_back_smallest_first(self, store: Store) -> None:
        signed = [Signed(WORKSPACE, size, f"text {size}", "key", f"signature {size}") for size in (10, 2, 7)]
        for each in signed:
            await store.put_checkpoint(each)
        await store.put_checkpoint(signed[0])
        assert await store.checkpoints(WORKSPACE) == (signed[1], signed[2], signed[0])
        assert await store.checkpoints("other") == ()

    async def test_purging_takes_payloads_and_leaves_names_digests_and_the_log(self, store: Store) -> None:
        full = replace(everything(1), state=State.DONE, undo_until=None)
        waiting = pending(asked(2, shown=candidate("say", {"word": "SECRET"})))
        recent = pending(asked(3), state=State.DENIED, changed_at=LONG_AGO + timedelta(days=400))
        for request in (full, waiting, recent):
            await store.transact(WORKSPACE, None, inserted(request))
        before = await self._log(store)
        assert await store.purge(WORKSPACE, LONG_AGO + timedelta(days=300), purge_entry) == 1
        assert await store.purge(WORKSPACE, LONG_AGO + timedelta(days=300), purge_entry) == 0
        assert (await self._log(store))[: len(before)] == before
        assert len(await self._log(store)) == len(before) + 1
        assert await store.request(WORKSPACE, waiting.id) == waiting
        assert await store.request(WORKSPACE, recent.id) == recent
        stub = await store.request(WORKSPACE, full.id)
        assert stub is not None
        self._is_stub(stub, full)
        assert (await store.requests(WORKSPACE, Filter(text="two people"))).requests == ()

    async def test_what_can_still_be_undone_is_not_purged(self, store: Store) -> None:
        until = await store.now() + timedelta(hours=1)
        await store.transact(WORKSPACE, None, inserted(replace(everything(1), state=State.DONE, undo_until=until)))
        assert await store.purge(WORKSPACE, until + timedelta(days=1), purge_entry) == 0

    async def test_purging_goes_through_more_than_one_batch(self, store: Store) -> None:
        steps = (inserted(pending(asked(number), state=State.DENIED)) for number in range(450))
        await asyncio.gather(*(store.transact(WORKSPACE, None, step) for step in steps))
        assert await store.purge(WORKSPACE, LONG_AGO + timedelta(days=300), purge_entry) == 450

    async def _log(self, store: Store) -> list[str]:
        await store.sequence(WORKSPACE)
        return [line.text for line in await store.entries(WORKSPACE)]

    def _is_stub(self, stub: Request, full: Request) -> None:
        assert stub.purged
        assert stub.version == full.version + 1
        assert stub.state is full.state
        assert stub.ask.code == full.ask.code
        assert stub.ask.created_at == full.ask.created_at
        for left, was in ((stub.ask.candidate, full.ask.candidate), (stub.candidate, full.candidate)):
            assert (left.permit_digest, left.content_digest) == (was.permit_digest, was.content_digest)
            assert left.action.name == was.action.name
            assert left.action.args == {}
            assert left.args_text == left.says == left.action.why == ""
            assert left.assessment.facts == ()
        assert (stub.ask.options, stub.ask.claims, stub.sealed, stub.answer) == ((), {}, {}, None)
        assert stub.result_text == stub.error == stub.reason == ""
        assert [(vote.by, vote.note) for vote in stub.votes] == [("alice", "")]


def _refusing(_view: View) -> Change:
    raise ValueError
