"""The full-screen inbox as a list that is live, on a real store with requests made through a real gate."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry.cli.screen import dialogs
from assentry.cli.screen.dialogs import Confirm, Pick
from assentry.cli.screen.live import View
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.errors import StoreError
from tests.cli.seat import OPTIONS, elsewhere, policy, seated, state
from tests.cli.terminal import Agent
from tests.stage import GONE


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dwell is short, so that a test need not sleep."""
    monkeypatch.setattr(dialogs, "DWELL", 0.05)
    monkeypatch.setattr("assentry.cli.screen.inbox.DWELL", 0.05)


async def test_the_most_urgent_comes_first_and_the_title_counts(here: Path, agent: Agent) -> None:
    mild, paid = agent.asks("delete_one", {"file": "a"}), agent.pays()
    async with seated(here) as seat:
        await seat.sees("2 wait for you", "Waiting for me 2", "◆ Critical", "▲ Dangerous", "● live")
        assert [request.id for request in seat.screen.queue.rows] == [paid.id, mild.id]


async def test_what_arrives_does_not_move_what_is_looked_at(here: Path, agent: Agent) -> None:
    first = agent.asks(args={"files": ["a"], "root": "x"})
    async with seated(here) as seat:
        await seat.looks_at(first)
        agent.pays()
        await seat.sees("2 wait for you")
        assert seat.screen.queue.index == 1
        await seat.looks_at(first)


async def test_a_decision_made_elsewhere_shows_on_the_open_card_and_closes_its_dialog(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat, elsewhere(here) as other:
        await seat.looks_at(request)
        await seat.press("a")
        await seat.dialog(Confirm)
        await other.inbox.deny(Principal("bob"), request.id, "no, thank you")
        await seat.until(lambda: not isinstance(seat.top, Confirm))
        await seat.sees("decided elsewhere", "bob", "no, thank you")
        await seat.looks_at(request)


async def test_who_was_faster_is_said_when_the_news_had_not_come_yet(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat, elsewhere(here) as other:
        await seat.looks_at(request)
        assert seat.screen.live._stop is not None
        seat.screen.live._stop()
        await other.inbox.deny(Principal("bob"), request.id, "too late")
        await seat.press("d")
        await seat.dialog(Pick)
        await seat.press("1")
        await seat.sees("already denied by bob")
        assert agent.now(request).decided_by == "bob"


async def test_a_change_made_elsewhere_must_be_looked_at_again(here: Path, agent: Agent) -> None:
    rule = "  - {name: two, actions: ['*'], gate: hard, because: two must agree, quorum: {count: 2}}\n"
    await policy(agent, "people: {ann: {os_users: [ME]}, bob: {}, cy: {}}\nself_review: allow\nrules:\n" + rule)
    request = agent.asks()
    async with seated(here) as seat, elsewhere(here) as other:
        await seat.looks_at(request)
        await seat.press("a")
        await seat.dialog(Confirm)
        await other.inbox.modify(Principal("bob"), request.id, {"files": ["z"], "root": "y"})
        await seat.sees("was changed by bob")
        await seat.sees("1 of 2 approvals", "What was changed since it was asked")
        await seat.press("a")
        await seat.dialog(Confirm)
        await seat.press("y")
        assert (await state(agent, request, seat, State.APPROVED)).candidate.action.args["files"] == ["z"]


async def test_who_may_not_decide_is_told_why_and_sees_it_among_all(here: Path, agent: Agent) -> None:
    rule = "  - {name: b, actions: ['*'], gate: hard, because: the boss decides, reviewers: ['role:boss']}\n"
    people = "people: {ann: {os_users: [ME]}, bob: {roles: [boss]}}\n"
    await policy(agent, people + "self_review: allow\nrules:\n" + rule)
    request = agent.asks()
    async with seated(here) as seat:
        await seat.sees("Nothing waits for you.", "1 wait for others")
        await seat.press("right_square_bracket")
        await seat.looks_at(request)
        await seat.sees("You cannot decide this", "role:boss")
        await seat.press("a")
        assert agent.now(request).state is State.PENDING
        await seat.pilot.pause(0.3)
        assert agent.now(request).seen_at is None, "only somebody who may decide it starts its window"


async def test_only_the_card_that_is_looked_at_counts_as_seen(here: Path, agent: Agent) -> None:
    paid, other = agent.pays(), agent.asks()
    async with seated(here) as seat:
        await seat.until(lambda: agent.now(paid).seen_at is not None)
        assert agent.now(other).seen_at is None
        await seat.press("j")
        await seat.until(lambda: agent.now(other).seen_at is not None)


async def test_search_finds_words_and_codes_and_escape_ends_it(here: Path, agent: Agent) -> None:
    agent.asks("wipe_disk", {"disk": "sda"}, says="Wipe disk {disk}")
    other = agent.asks("drop_table", {"table": "users"}, says="Drop table {table}")
    async with seated(here) as seat:
        await seat.press("slash", *"wipe")
        await seat.until(lambda: [r.candidate.says for r in seat.screen.queue.rows] == ["Wipe disk sda"])
        await seat.press("enter", "escape")
        await seat.until(lambda: len(seat.screen.queue.rows) == 2)
        await seat.press("slash", *other.code)
        await seat.looks_at(other)
        await seat.press(*"zz")
        await seat.sees("Nothing here contains")


async def test_without_a_database_it_teaches_and_waits_for_one(here: Path) -> None:
    async with seated(here) as seat:
        await seat.sees("no database at", "@gate.guard", "assentry demo")
        assert not (here / "assentry.db").exists(), "looking makes nothing"
        agent = await asyncio.to_thread(Agent, str(here / "assentry.db"))
        agent.asks()
        await seat.sees("1 waits for you")
        await asyncio.to_thread(agent.close)


async def test_a_store_that_fails_is_a_banner_and_not_the_end(
    here: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        with monkeypatch.context() as broken:

            async def locked(*_: Any, **__: Any) -> Any:
                raise StoreError("the database is locked by another process")

            broken.setattr(seat.screen.live.inbox, "page", locked)
            broken.setattr(seat.screen.live.inbox, "deny", locked)
            await seat.press("d")
            await seat.dialog(Pick)
            await seat.press("1")
            await seat.sees("locked by another process", "○ away")
        await seat.press("R")
        await seat.until(lambda: not seat.screen.trouble)
        assert agent.now(request).state is State.PENDING


async def test_observe_mode_is_loud(here: Path, agent: Agent) -> None:
    await policy(agent, "mode: observe\n")
    agent.asks()
    async with seated(here) as seat:
        await seat.sees("OBSERVE MODE: nothing is held")
        seat.screen.show_view(View.RAN)
        await seat.sees("OBSERVE MODE: nothing is held; this would have been hard")


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_it_works_on_a_small_terminal(here: Path, agent: Agent, size: tuple[int, int]) -> None:
    agent.asks(options=OPTIONS)
    async with seated(here, size) as seat:
        await seat.sees("▲ Dangerous", "Choose", "As asked", "Modify", "Send back", "Deny")
        await seat.press("question_mark")
        await seat.sees("Moving")


async def test_a_thousand_waiting_are_shown_at_once_and_more_are_read_on_the_way(here: Path, agent: Agent) -> None:
    async def ask(number: int) -> None:
        await agent.gate.propose("delete_file", {"path": f"/{number}"}, declared=GONE, run="r", key=str(number))

    for start in range(0, 1_000, 100):
        await asyncio.gather(*(ask(number) for number in range(start, start + 100)))
    async with seated(here) as seat:
        await seat.sees("500+ wait for you")
        await seat.press("G")
        await seat.until(lambda: len(seat.screen.queue.rows) == 1_000)
        await seat.sees("1,000 wait for you")


async def test_time_moves_on_even_if_no_worker_runs(here: Path, agent: Agent) -> None:
    await policy(agent, "rules:\n  - {name: s, actions: ['*'], gate: hard, because: x, limit: 1s, at_end: deny}\n")
    request = agent.asks()
    async with seated(here) as seat:
        await state(agent, request, seat, State.EXPIRED)
        await seat.sees("decided elsewhere")


async def test_it_is_live_on_postgresql_too(here: Path, postgres_database: str) -> None:
    agent = await asyncio.to_thread(Agent, postgres_database)
    async with seated(here, database=postgres_database) as seat:
        await seat.sees("nothing waits for you", "● live")
        request = agent.asks()
        await seat.looks_at(request)
        await seat.press("d")
        await seat.dialog(Pick)
        await seat.press("2")
        await state(agent, request, seat, State.DENIED)
    await asyncio.to_thread(agent.close)


async def test_what_was_decided_elsewhere_leaves_the_list_when_the_person_moves_on(here: Path, agent: Agent) -> None:
    first, second = agent.pays(), agent.asks()
    async with seated(here) as seat, elsewhere(here) as other:
        await seat.looks_at(first)
        await other.inbox.deny(Principal("bob"), first.id, "no")
        await seat.sees("decided elsewhere")
        assert [request.id for request in seat.screen.queue.rows] == [first.id, second.id]
        await seat.press("j")
        await seat.looks_at(second)
        await seat.until(lambda: [request.id for request in seat.screen.queue.rows] == [second.id])
