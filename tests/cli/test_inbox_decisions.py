"""Deciding at the full-screen inbox with keys: what each risk asks for, and what never approves."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input, TextArea

import assentry as package
from assentry.cli.screen import dialogs
from assentry.cli.screen.dialogs import Confirm, Pick, Typed, Words
from assentry.cli.screen.edit import Form
from assentry.cli.screen.live import View
from assentry.core.request import Executor, Review, State
from assentry.engine.deadlines import settle_overdue
from tests.cli.seat import HELD, OPTIONS, Seat, policy, seated, state
from tests.cli.terminal import Agent
from tests.stage import MILD


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dwell is short, so that a test need not sleep."""
    monkeypatch.setattr(dialogs, "DWELL", 0.05)
    monkeypatch.setattr("assentry.cli.screen.inbox.DWELL", 0.05)


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
    monkeypatch.setattr("assentry.cli.screen.inbox.DWELL", 5.0)
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
        await seat.sees("must be at most")


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
    agent = Agent(str(here / "assentry.db"), lease=timedelta(milliseconds=50))
    await policy(agent, "rules:\n  - {name: r, actions: ['*'], gate: watch, because: x}\n")
    request = agent.asks("touch_file", {"file": "a"}, declared=MILD)
    assert request.ask.executor is Executor.CALLER
    execution = agent.gate._execution
    began = await execution.begin(request)
    execution.release(began)
    await asyncio.sleep(0.1)
    await settle_overdue(agent.gate._store, began)
    async with seated(here) as seat:
        await seat.sees("Unknown 1")
        seat.screen.show_view(View.UNKNOWN)
        await seat.sees("its end was never recorded")
        await seat.press("r")
        await seat.dialog(Pick)
        await seat.press("2")
        await state(agent, request, seat, State.FAILED)
    await asyncio.to_thread(agent.close)


def burst(seat: Seat, *keys: str) -> None:
    """The keys arrive at once, as over a slow line or from a paste."""
    for key in keys:
        seat.pilot.app.post_message(events.Key(key, " " if key == "space" else key if len(key) == 1 else None))


async def test_keys_that_arrive_at_once_act_in_their_order(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("d")
        await seat.dialog(Pick)
        await seat.press("tab")
        burst(seat, *"hello", "backspace", "backspace", "p", *"?me", "left", "left", "backspace", "space", "enter")
        after = await state(agent, request, seat, State.DENIED)
        assert after.reason == "help me"


async def test_words_are_sent_whole_when_enter_comes_right_behind_them(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("s")
        await seat.dialog(Words)
        burst(seat, *"morx", "backspace", *"e", "enter")
        after = await state(agent, request, seat, State.REVISED)
        assert after.reason == "more"


async def test_what_was_begun_is_there_again_after_escape(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        for key, kind in (("s", Words), ("d", Pick)):
            await seat.press(key)
            await seat.dialog(kind)
            await seat.press("tab" if kind is Pick else "w", *"ords", "escape", "escape")
            await seat.press(key)
            await seat.dialog(kind)
            field = seat.top.query_one("#words")
            assert (field.value if isinstance(field, Input) else field.text).endswith("ords")
            await seat.press("escape")
        assert agent.now(request).state is State.PENDING


async def test_what_the_program_does_not_allow_has_no_key(here: Path, agent: Agent) -> None:
    fixed = {"properties": {"path": {"const": "a"}}, "x-assentry-no-drafts": True}
    request = agent.asks("delete_file", {"path": "a"}, schema=fixed)
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.sees("Approve", "Deny")
        assert "Modify" not in seat.text
        assert "Send back" not in seat.text
        await seat.press("m")
        await seat.sees("the program that asks allows no changes")
