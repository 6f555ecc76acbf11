"""The full-screen inbox, driven by keys, on a real store with requests made through a real gate."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

import assent as package
from assent.assemble import Desk, desk
from assent.cli.screen import dialogs
from assent.cli.screen.app import InboxApp
from assent.cli.screen.dialogs import Confirm, Pick, Typed, Words
from assent.cli.screen.edit import Form
from assent.cli.screen.inbox import InboxScreen
from assent.cli.screen.live import View
from assent.core.authority import Principal
from assent.core.request import Executor, Request, Review, State
from assent.engine.deadlines import settle_overdue
from assent.engine.gate import os_user
from assent.engine.policies import apply_policy
from assent.errors import StoreError
from assent.settings import Settings
from tests.cli.terminal import GONE, MILD, Agent

HELD = "rules:\n  - {name: all, actions: ['*'], gate: hard, because: everything waits here}\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dwell is short, so that a test need not sleep."""
    monkeypatch.setattr(dialogs, "DWELL", 0.05)
    monkeypatch.setattr("assent.cli.screen.inbox.DWELL", 0.05)


@dataclass
class Seat:
    """A person at the inbox."""

    pilot: Pilot[int]
    place: Path

    @property
    def screen(self) -> InboxScreen:
        found = self.pilot.app.screen_stack[0]
        assert isinstance(found, InboxScreen)
        return found

    @property
    def top(self) -> Any:
        return self.pilot.app.screen

    @property
    def text(self) -> str:
        """Everything that can be read on the screen now, dialogs included."""
        lines = self.pilot.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line) for line in lines)

    async def until(self, is_so: Callable[[], Any], seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < end, f"it did not come to that; the screen says:\n{self.text}"
            await self.pilot.pause(0.02)
        await self.pilot.pause()

    async def sees(self, *words: str) -> None:
        await self.until(lambda: all(word in self.text for word in words))

    async def press(self, *keys: str) -> None:
        await self.pilot.pause(0.08)
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def looks_at(self, request: Request) -> None:
        await self.until(lambda: self.screen.current is not None and self.screen.current.id == request.id)
        await self.pilot.pause(0.08)

    async def dialog(self, kind: type[Any]) -> None:
        await self.until(lambda: isinstance(self.top, kind))
        await self.pilot.pause(0.1)


@asynccontextmanager
async def seated(here: Path, size: tuple[int, int] = (130, 44)) -> AsyncIterator[Seat]:
    app = InboxApp(Settings(database=str(here / "assent.db")))
    async with app.run_test(size=size) as pilot:
        seat = Seat(pilot, here)
        await seat.until(lambda: seat.screen.live.is_open or seat.screen.trouble)
        await seat.pilot.pause(0.2)
        yield seat


@asynccontextmanager
async def elsewhere(here: Path) -> AsyncIterator[Desk]:
    """Somebody at another desk on the same database."""
    place = await desk(Settings(database=str(here / "assent.db")))
    try:
        yield place
    finally:
        await place.store.close()


async def policy(agent: Agent, text: str) -> None:
    text = text.replace("ME", os_user())
    await apply_policy(agent.gate.store, "default", text, Principal("root", roles=("*",), teams=("*",)), "test")
    await agent.gate._judgement.refresh()


async def state(agent: Agent, request: Request, seat: Seat, wanted: State) -> Request:
    await seat.until(lambda: agent.now(request).state is wanted)
    return agent.now(request)


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


async def test_enter_and_space_never_approve(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("enter", "enter", "space", "tab", "enter")
        await seat.press("a")
        await seat.dialog(Confirm)
        await seat.press("enter", "space", "enter")
        assert isinstance(seat.top, Confirm)
        await seat.press("escape")
        assert agent.now(request).state is State.PENDING


async def test_dangerous_is_approved_with_a_and_y_on_the_digest_that_was_shown(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("a")
        await seat.dialog(Confirm)
        await seat.press("y")
        after = await state(agent, request, seat, State.APPROVED)
        assert after.votes[0].digest == request.candidate.permit_digest
        assert after.votes[0].surface == "terminal"
        await seat.sees("approved", "nothing waits for you", "@gate.guard")


async def test_risky_is_approved_at_once(here: Path, agent: Agent) -> None:
    await policy(agent, HELD)
    request = agent.asks("touch_file", {"file": "a"}, declared=MILD)
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("a")
        await state(agent, request, seat, State.APPROVED)


async def test_a_key_that_comes_with_the_card_is_not_taken_for_a_decision(
    here: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assent.cli.screen.inbox.DWELL", 5.0)
    await policy(agent, HELD)
    request = agent.asks("touch_file", {"file": "a"}, declared=MILD)
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("a")
        await seat.sees("look at it first")
        assert agent.now(request).state is State.PENDING


async def test_critical_wants_the_phrase_typed_and_a_wait(here: Path, agent: Agent) -> None:
    request = agent.pays()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("a")
        await seat.until(lambda: isinstance(seat.top, Typed))
        await seat.sees("This is critical", "pay 12400.00")
        seat.top.query_one(Input).value = "pay 12400.0"
        await seat.press("0", "ctrl+y")
        await seat.sees("it can be confirmed in")
        await seat.pilot.pause(3.2)
        await seat.pilot.press("enter")
        assert agent.now(request).state is State.PENDING, "enter does not confirm"
        await seat.press("x", "ctrl+y")
        await seat.sees("do not match")
        await seat.press("backspace", "ctrl+y")
        await state(agent, request, seat, State.APPROVED)


async def test_denying_takes_one_of_five_reasons_or_ones_own(here: Path, agent: Agent) -> None:
    first = agent.asks(args={"files": ["a"], "root": "x"})
    async with seated(here) as seat:
        await seat.looks_at(first)
        await seat.press("d")
        await seat.dialog(Pick)
        await seat.press("3")
        assert (await state(agent, first, seat, State.DENIED)).reason == "The wrong target"
        second = agent.asks(args={"files": ["b"], "root": "x"})
        await seat.looks_at(second)
        await seat.press("d")
        await seat.dialog(Pick)
        await seat.press("tab", "enter")
        await seat.sees("a few words are needed")
        await seat.press(*"Use v2", "enter")
        assert (await state(agent, second, seat, State.DENIED)).reason == "Use v2"


async def test_sending_back_needs_instructions(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("s")
        await seat.dialog(Words)
        await seat.press("enter")
        await seat.sees("a few words are needed")
        await seat.press(*"only tmp", "enter")
        assert (await state(agent, request, seat, State.REVISED)).reason == "only tmp"


async def test_a_change_is_checked_shown_and_judged_before_it_is_sent(here: Path, agent: Agent) -> None:
    schema = {
        "type": "object",
        "properties": {
            "files": {"type": "array", "items": {"type": "string"}},
            "depth": {"type": "integer"},
            "mode": {"enum": ["soft", "hard"]},
        },
        "required": ["files"],
        "additionalProperties": False,
    }
    request = agent.asks(args={"files": ["a", "b"], "depth": 2, "mode": "soft"}, schema=schema)
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("m")
        await seat.dialog(Form)
        form = seat.top
        form.query_one("#field-1", Input).value = "two"
        await seat.press("ctrl+s")
        await seat.sees("depth is not a whole number")
        form.query_one("#field-1", Input).value = "3"
        form.query_one("#field-0", TextArea).text = "a"
        await seat.press("ctrl+s")
        await seat.dialog(Confirm)
        await seat.sees("What is changed", "- depth", "+ depth", "1 item")
        await seat.press("escape")
        await seat.dialog(Form)
        assert seat.top.query_one("#field-1", Input).value == "3", "what was typed is still there"
        await seat.press("ctrl+s")
        await seat.dialog(Confirm)
        await seat.press("y")
        after = await state(agent, request, seat, State.APPROVED)
        assert after.candidate.action.args == {"files": ["a"], "depth": 3, "mode": "soft"}
        assert after.word == "modify"


async def test_what_the_schema_refuses_is_said_in_the_form(here: Path, agent: Agent) -> None:
    schema = {"type": "object", "properties": {"count": {"type": "integer", "maximum": 5}}}
    request = agent.asks(args={"count": 2}, schema=schema)
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("m")
        await seat.dialog(Form)
        await seat.press("ctrl+s")
        await seat.sees("nothing was changed")
        seat.top.query_one("#field-0", Input).value = "9"
        await seat.press("ctrl+s")
        await seat.sees("must satisfy maximum")


OPTIONS = (
    package.option("Only the old ones", "The newer stay.", {"files": ["old"]}),
    package.option("Cancel", "Nothing changes."),
)


async def test_choosing_replaces_approving_and_shows_exactly_what_it_runs(here: Path, agent: Agent) -> None:
    request = agent.asks(options=OPTIONS)
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.sees("What you can do", "Only the old ones", "The newer stay.", "Choose", "As asked")
        await seat.press("7")
        await seat.sees("there is no option 7")
        await seat.press("1")
        await seat.dialog(Confirm)
        await seat.sees("Instead of what was asked", "old")
        await seat.press("y")
        after = await state(agent, request, seat, State.APPROVED)
        assert after.candidate.action.args["files"] == ["old"]
        assert after.chosen == 0


async def test_an_option_that_policy_forbids_cannot_be_chosen(here: Path, agent: Agent) -> None:
    rule = (
        "rules:\n  - {name: no, actions: ['delete_files'], when: 'args.root == \"/\"', gate: forbid, because: never}\n"
    )
    await policy(agent, rule)
    request = agent.asks(options=[package.option("Everything", "All of it.", {"root": "/"})])
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.sees("policy forbids it")
        await seat.press("1")
        await seat.sees("policy forbids option 1")
        assert agent.now(request).state is State.PENDING


async def test_a_question_is_answered_by_number_or_in_words(here: Path, agent: Agent) -> None:
    agent.wonders("Which file?", choices=["one.pdf", "two.pdf"], key="q1")
    async with seated(here) as seat:
        await seat.sees("? Question", "The question, as the agent put it", "two.pdf")
        chosen = seat.screen.current
        assert chosen is not None
        await seat.press("2")
        await seat.dialog(Confirm)
        await seat.press("y")
        assert (await state(agent, chosen, seat, State.ANSWERED)).answer == "two.pdf"
        agent.wonders("What name?", key="q2")
        await seat.sees("What name?")
        free = seat.screen.current
        assert free is not None
        await seat.press("a")
        await seat.dialog(Words)
        await seat.press(*"Ada", "enter")
        assert (await state(agent, free, seat, State.ANSWERED)).answer == "Ada"


async def test_nothing_is_approved_before_what_is_folded_was_opened(here: Path, agent: Agent) -> None:
    request = agent.asks(args={"files": [f"f{n}" for n in range(400)] + ["/etc/passwd"], "root": "x"})
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.sees("a is off until you have opened what is folded", "391 of 401 items", "/etc/passwd")
        await seat.press("a")
        await seat.sees("open what is folded first")
        assert not isinstance(seat.top, Confirm)
        await seat.press("e")
        await seat.sees("Approve")
        await seat.press("a")
        await seat.dialog(Confirm)
        await seat.press("y")
        await state(agent, request, seat, State.APPROVED)


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


async def test_what_ran_is_accepted_flagged_or_undone(here: Path, agent: Agent) -> None:
    await policy(agent, "rules:\n  - {name: w, actions: ['*'], gate: watch, because: look later, review: after}\n")
    undone: list[str] = []
    touch = agent.gate.guard(lambda name: name, name="touch", reversible=True, reach="local",
                             undo=lambda done: undone.append(done.args["name"]))  # fmt: skip
    await asyncio.to_thread(touch, "one")
    await asyncio.to_thread(touch, "two")
    async with seated(here) as seat, agent.gate.worker():
        seat.screen.show_view(View.RAN)
        await seat.sees("Ran 2", "look at it", "Accept", "Flag", "Undo")
        first = seat.screen.current
        assert first is not None
        await seat.press("a")
        await seat.until(lambda: agent.now(first).review is Review.ACCEPTED)
        await seat.until(lambda: seat.screen.current and seat.screen.current.review is Review.OPEN)
        second = seat.screen.current
        assert second is not None
        await seat.press("f")
        await seat.dialog(Words)
        await seat.press(*"why", "enter")
        await seat.until(lambda: agent.now(second).review is Review.FLAGGED)
        await seat.press("u")
        await seat.dialog(Confirm)
        await seat.press("y")
        await seat.until(lambda: len(undone) == 1)


async def test_an_unknown_outcome_is_settled_by_who_looked(here: Path) -> None:
    agent = Agent(str(here / "assent.db"), lease=timedelta(milliseconds=50))
    await policy(agent, "rules:\n  - {name: r, actions: ['*'], gate: watch, because: x}\n")
    request = agent.asks("touch_file", {"file": "a"}, declared=MILD)
    assert request.ask.executor is Executor.CALLER
    execution = agent.gate._execution
    began = await execution.begin(request)
    execution.release(began)
    await asyncio.sleep(0.1)
    await settle_overdue(agent.gate.store, began)
    async with seated(here) as seat:
        await seat.sees("Unknown 1")
        seat.screen.show_view(View.UNKNOWN)
        await seat.sees("its end was never recorded")
        await seat.press("r")
        await seat.dialog(Pick)
        await seat.press("2")
        await state(agent, request, seat, State.FAILED)
    await asyncio.to_thread(agent.close)


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
        await seat.sees("no database at", "@gate.guard", "assent demo")
        assert not (here / "assent.db").exists(), "looking makes nothing"
        agent = await asyncio.to_thread(Agent, str(here / "assent.db"))
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
    began = time.monotonic()
    async with seated(here) as seat:
        await seat.until(lambda: seat.screen.queue.rows)
        assert time.monotonic() - began < 5
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
