"""The contract, fourth part: opening and closing, many loops and processes, and hearing of what happens."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from assentry.core.request import State
from assentry.errors import StoreError
from assentry.ports import Filter, Store
from assentry.testing.store_contract_log import policy_entry
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_values import WORKSPACE, asked, grant, grants_step, identifier, inserted, moved, pending

OTHER_PROCESS = """
import asyncio
from assentry.testing.store_values import WORKSPACE, asked, grant, grants_step, identifier, inserted, moved, pending
from assentry.testing.store_contract_log import policy_entry
from assentry.core.request import State
{source}
async def main():
{body}
    await store.close()
asyncio.run(main())
"""

DAMAGE = (
    ("asks", "body", '{"id":1}'),
    ("asks", "body", ""),
    ("requests", "body", "garbage"),
    ("requests", "body", "{}"),
    ("requests", "body", '{"state":"no such state","version":1}'),
)


class Heard:
    """What a watcher was told."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.calls = 0
        self._changed = threading.Condition()

    def __call__(self, news: Mapping[str, int] | None) -> None:
        with self._changed:
            self.calls += 1
            self.versions.update(news or {})
            self._changed.notify_all()

    async def until(self, wanted: Callable[["Heard"], bool], seconds: float = 10) -> None:
        """`wanted` holds, or the test has failed."""
        for _ in range(int(seconds / 0.005)):
            if wanted(self):
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"not heard in time; heard {self.versions}")


class Use(StorePlace):
    """A store is used from anywhere, and what it acknowledged stays."""

    async def elsewhere(self, place: Any, *lines: str) -> None:
        """Another process has run these lines with the same store."""
        body = "\n".join(f"    {line}" for line in lines)
        program = OTHER_PROCESS.format(source=self.source(place), body=body)
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    async def test_a_watcher_hears_of_requests_grants_and_policies(self, store: Store) -> None:
        heard = Heard()
        store.watch(heard)
        request = pending(asked(1))
        await store.transact(WORKSPACE, None, inserted(request))
        await heard.until(lambda h: h.versions.get(request.id) == 1)
        await store.transact(WORKSPACE, request.id, moved(state=State.DENIED))
        await heard.until(lambda h: h.versions.get(request.id) == 2)
        await store.transact(WORKSPACE, None, grants_step(grant(1)))
        await heard.until(lambda h: h.versions.get("grant:grant-0001") == 1)
        await store.apply_policy(WORKSPACE, "text", "alice", policy_entry)
        await heard.until(lambda h: h.versions.get("policy:1") == 1)

    async def test_a_watcher_that_stopped_or_failed_disturbs_nobody(self, store: Store) -> None:
        def failing(_: Mapping[str, int] | None) -> None:
            raise ValueError

        gone, heard = Heard(), Heard()
        store.watch(failing)
        store.watch(heard)
        stop = store.watch(gone)
        stop()
        stop()
        await asyncio.sleep(0.05)
        calls = gone.calls
        await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
        await heard.until(lambda h: identifier(1) in h.versions)
        assert gone.calls == calls

    async def test_nothing_is_told_of_what_was_not_committed(self, store: Store) -> None:
        heard = Heard()
        store.watch(heard)

        def failing(_view: Any) -> Any:
            raise ValueError

        request = pending(asked(1))
        await asyncio.gather(
            store.transact(WORKSPACE, None, failing),
            store.transact(WORKSPACE, None, inserted(request)),
            store.transact(WORKSPACE, identifier(7), lambda _: None),
            return_exceptions=True,
        )
        await heard.until(lambda h: request.id in h.versions)
        assert set(heard.versions) == {request.id}

    async def test_a_watcher_hears_of_commits_in_another_process(self, store: Store, place: Any) -> None:
        heard = Heard()
        store.watch(heard)
        await heard.until(lambda h: h.calls > 0)
        await self.elsewhere(
            place,
            "await store.transact(WORKSPACE, None, inserted(pending(asked(1))))",
            "await store.transact(WORKSPACE, identifier(1), moved(state=State.DENIED))",
            "await store.transact(WORKSPACE, None, grants_step(grant(1)))",
            "await store.apply_policy(WORKSPACE, 'text', 'alice', policy_entry)",
        )
        await heard.until(lambda h: h.versions.get(identifier(1)) == 2)
        await heard.until(lambda h: {"grant:grant-0001", "policy:1"} <= set(h.versions))
        stored = await store.request(WORKSPACE, identifier(1))
        assert stored is not None
        assert stored.state is State.DENIED

    async def test_several_processes_write_at_once_and_every_entry_is_numbered(self, store: Store, place: Any) -> None:
        await asyncio.gather(
            *(
                self.elsewhere(
                    place,
                    f"for n in range({start}, {start} + 40):",
                    "    await store.transact(WORKSPACE, None, inserted(pending(asked(n))))",
                )
                for start in (100, 200, 300)
            ),
            *(store.transact(WORKSPACE, None, inserted(pending(asked(n)))) for n in range(40)),
        )
        assert await store.sequence(WORKSPACE) == 160
        assert [line.index for line in await store.entries(WORKSPACE)] == list(range(160))

    async def test_two_processes_may_open_a_new_place_at_once(self, new_place: Any) -> None:
        await asyncio.gather(*(self.elsewhere(new_place, "await store.open()") for _ in range(4)))

    async def test_what_was_acknowledged_is_there_after_closing_and_opening(self, place: Any) -> None:
        store = self.make(place)
        request = pending(asked(1))
        await store.transact(WORKSPACE, None, inserted(request))
        store.record(lambda: policy_entry(1, request.changed_at))
        identity = await store.identity()
        await store.close()
        await store.close()
        again = self.make(place)
        assert await again.request(WORKSPACE, request.id) == request
        assert await again.sequence(WORKSPACE) == 2
        assert await again.identity() == identity
        assert len(identity) == 32
        await again.close()

    async def test_a_closed_store_says_so_and_can_be_opened_again(self, place: Any) -> None:
        store = self.make(place)
        await store.open()
        await store.open()
        await store.close()
        with pytest.raises(StoreError):
            await store.request(WORKSPACE, "x")
        with pytest.raises(StoreError):
            await store.transact(WORKSPACE, None, inserted(pending(asked(1))))
        with pytest.raises(StoreError):
            store.record(lambda: policy_entry(1, pending(asked(1)).changed_at))
        await store.open()
        assert await store.request(WORKSPACE, "x") is None
        await store.close()

    async def test_closing_answers_everyone_who_waits(self, place: Any) -> None:
        store = self.make(place)
        await store.open()
        waiting = [
            asyncio.ensure_future(store.transact(WORKSPACE, None, inserted(pending(asked(number)))))
            for number in range(50)
        ]
        await asyncio.sleep(0)
        await store.close()
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 20)
        failed = [result for result in results if isinstance(result, BaseException)]
        assert all(isinstance(result, StoreError) for result in failed)
        again = self.make(place)
        assert await again.sequence(WORKSPACE) == 50 - len(failed)
        await again.close()

    async def test_one_store_serves_several_event_loops_at_once(self, store: Store) -> None:
        def in_a_loop_of_its_own(start: int) -> None:
            async def main() -> None:
                numbers = range(start, start + 20)
                await asyncio.gather(*(store.transact(WORKSPACE, None, inserted(pending(asked(n)))) for n in numbers))
                for number in numbers:
                    assert await store.request(WORKSPACE, identifier(number)) is not None

            asyncio.run(main())

        await asyncio.gather(*(asyncio.to_thread(in_a_loop_of_its_own, start) for start in (100, 200, 300)))
        assert await store.sequence(WORKSPACE) == 60

    async def test_who_stops_waiting_disturbs_nobody(self, store: Store) -> None:
        tasks = [
            asyncio.ensure_future(store.transact(WORKSPACE, None, inserted(pending(asked(number)))))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert not any(isinstance(result, BaseException) for result in results[1::2])
        for number in range(1, 20, 2):
            assert await store.request(WORKSPACE, identifier(number)) is not None

    async def test_a_damaged_row_is_named_and_nothing_runs(self, store: Store, place: Any) -> None:
        request = pending(asked(1))
        await store.transact(WORKSPACE, None, inserted(request))
        for table, column, value in DAMAGE:
            await self.damage(place, table, column, value)
            with pytest.raises(StoreError) as caught:
                await store.request(WORKSPACE, request.id)
            assert request.id in str(caught.value)
            assert "\n" not in str(caught.value)
            with pytest.raises(StoreError):
                await store.transact(WORKSPACE, request.id, moved(state=State.APPROVED))
        await store.transact(WORKSPACE, None, inserted(pending(asked(2))))
        # It stands in nobody's way.
        page = await store.requests(WORKSPACE, Filter(states=(State.PENDING,)))
        assert [each.id for each in page.requests] == [identifier(2)]
