"""Runs and drafts on the full screen: shown beside the request, paused and continued with a key, told as a timeline."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment

from assentry.cli.screen import bar, card, dialogs
from assentry.cli.screen.card import Shown
from assentry.cli.screen.dialogs import Confirm, Pick, Sheet
from assentry.cli.screen.look import THEMES, WITHOUT_COLOUR
from assentry.cli.screen.tones import paint
from assentry.cli.sections import rows_of
from assentry.core.briefing import brief
from assentry.core.request import State
from assentry.core.run import Run, RunState
from assentry.engine.chronicle import Chronicle, Drafts
from assentry.engine.oversight import Oversight
from assentry.ports import Filter
from assentry.telling.background import Background
from assentry.telling.told import Tone
from tests.cli.running import LOOKED_IN, Crew
from tests.cli.seat import Seat, elsewhere, seated
from tests.cli.terminal import Agent
from tests.cli.test_hostile import ALL
from tests.cli.test_inbox_drawing import LOOK, NOW, text_of
from tests.stage import PATIENCE


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dwell is short, so that a test need not sleep."""
    monkeypatch.setattr(dialogs, "DWELL", 0.05)
    monkeypatch.setattr("assentry.cli.screen.inbox.DWELL", 0.05)


async def made(agent: Agent, **more: Any) -> tuple[Crew, str]:
    crew = await asyncio.to_thread(Crew, agent)
    return crew, await asyncio.to_thread(lambda: crew.looked_in(**more))


async def run_of(crew: Crew, code: str) -> Run:
    (found,) = await crew.gate._store.find_runs("default", code)
    return found


async def stands(seat: Seat, crew: Crew, code: str, state: RunState) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await run_of(crew, code)).state is not state:
            await seat.pilot.pause(0.05)


async def test_a_check_in_shows_the_run_and_what_each_key_means(here: Path, agent: Agent) -> None:
    _, code = await made(agent)
    async with seated(here, (130, 60)) as seat:
        await seat.sees(
            f"Run {code} of cleanup", "“a small cleanup”", "at most 20 files (none used)", "✓ look", "· delete"
        )
        await seat.sees(
            "Note three", "What your word means for the run", "continue:", "redirect:", "stop:", "Pause run"
        )


async def test_p_pauses_the_run_and_again_lets_it_go_on_after_y(here: Path, agent: Agent) -> None:
    crew, code = await made(agent)
    async with seated(here, (130, 60)) as seat:
        await seat.sees(f"Run {code}")
        await seat.press("p")
        await stands(seat, crew, code, RunState.PAUSED)
        await seat.sees("is paused", "Go on", "go on:", "stands still")
        assert seat.screen.current is not None
        assert seat.screen.current.state is State.PENDING, "the request stays"
        await seat.press("p")
        await seat.dialog(Confirm)
        await seat.press("escape")
        assert (await run_of(crew, code)).state is RunState.PAUSED
        await seat.press("p")
        await seat.dialog(Confirm)
        await seat.press("y")
        await stands(seat, crew, code, RunState.PARKED)
        await seat.sees("goes on", "Pause run")


async def test_p_does_what_was_shown_and_never_the_opposite(here: Path, agent: Agent) -> None:
    """Whoever wants to pause a run that somebody paused a moment ago does not let it go on."""
    crew, code = await made(agent)
    async with seated(here, (130, 60)) as seat, elsewhere(here) as other:
        await seat.sees("Pause run")
        assert seat.screen.live._stop is not None
        seat.screen.live._stop()
        await Oversight(other.store, "default").pause(other.person(), await run_of(crew, code), "mine")
        await seat.press("p")
        await seat.sees("is paused by")
        assert (await run_of(crew, code)).state is RunState.PAUSED


async def test_a_pause_made_elsewhere_shows_at_once(here: Path, agent: Agent) -> None:
    crew, code = await made(agent)
    async with seated(here, (130, 60)) as seat, elsewhere(here) as other:
        await seat.sees("Pause run")
        await Oversight(other.store, "default").pause(other.person(), await run_of(crew, code), "lunch")
        await seat.sees("lunch", "Go on")


async def test_w_tells_what_the_run_did(here: Path, agent: Agent) -> None:
    _, code = await made(agent)
    async with seated(here, (130, 60)) as seat:
        await seat.sees(f"Run {code}")
        await seat.press("w")
        await seat.dialog(Sheet)
        await seat.sees(
            "What the run did so far", "Steps, oldest first", "Note one", "ran at once, on record", "Delete 2 files"
        )
        await seat.press("w")
        await seat.until(lambda: not isinstance(seat.top, Sheet))


async def test_a_request_without_a_run_says_so(here: Path, agent: Agent) -> None:
    request = agent.asks()
    async with seated(here) as seat:
        await seat.looks_at(request)
        await seat.press("p")
        await seat.sees("belongs to no run")
        await seat.press("w")
        assert not isinstance(seat.top, Sheet)
        assert "Pause run" not in seat.text


async def test_denying_with_the_switch_ends_the_run(here: Path, agent: Agent) -> None:
    crew, code = await made(agent)
    async with seated(here, (130, 60)) as seat:
        await seat.sees(f"Run {code}")
        await seat.press("d")
        await seat.dialog(Pick)
        await seat.press("ctrl+x", "1")
        (request,) = (await crew.gate._store.requests("default", Filter(states=(State.DENIED,)))).requests
        assert request.stop


async def test_a_draft_shows_what_is_different_and_e_every_round(here: Path, agent: Agent) -> None:
    before = None
    async with elsewhere(here) as other:
        for text in ("one line", "two lines", "three lines"):
            said = {"draft_of": before.id} if before else {}
            request = agent.asks("send_mail", {"body": text}, says="Mail", **said)
            if text != "three lines":
                await other.inbox.revise(other.person(), request.id, f"not “{text}”")
            before = request
    async with seated(here, (130, 60)) as seat:
        await seat.sees("Draft 3, revises", "not “two lines”", "- two lines", "+ three lines", "e opens every round")
        await seat.press("e")
        await seat.sees("Round 1:", "Round 2:", "Round 3:", "- one line")


async def test_another_card_never_shows_the_run_of_the_one_before(here: Path, agent: Agent) -> None:
    _, code = await made(agent)
    plain = agent.asks("wipe", {"x": 1})
    async with seated(here, (130, 60)) as seat:
        for _ in range(3):
            await seat.press("j")
            await seat.looks_at(plain)
            assert f"Run {code}" not in seat.text
            await seat.press("k")
            await seat.sees(f"Run {code} of cleanup")


async def test_progress_of_runs_does_not_read_every_list_again(
    here: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew, code = await made(agent)
    async with seated(here, (130, 60)) as seat:
        await seat.sees(f"Run {code}")
        await seat.pilot.pause(0.3)
        reloads: list[int] = []

        async def counted() -> None:
            reloads.append(1)

        monkeypatch.setattr(seat.screen.live, "reload", counted)

        async def body(_: Any) -> None:
            await crew.note("another run at work")

        await asyncio.to_thread(lambda: crew.works("Another", body))
        await seat.pilot.pause(0.5)
        assert not reloads


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
async def test_runs_fit_a_small_terminal(here: Path, agent: Agent, size: tuple[int, int]) -> None:
    await made(agent)
    async with seated(here, size) as seat:
        await seat.sees("Approve", "Deny", "Pause run", "Run")
        await seat.press("w")
        await seat.dialog(Sheet)
        await seat.sees("What the run did so far")


@pytest.mark.parametrize("text", [ALL, "x" * 10_000, "wide 漢字 " * 500])
@pytest.mark.parametrize("width", [40, 110])
async def test_hostile_runs_and_drafts_are_drawn_inert_and_within_their_width(
    agent: Agent, text: str, width: int
) -> None:
    crew = await asyncio.to_thread(Crew, agent)
    await asyncio.to_thread(lambda: crew.policy(LOOKED_IN))

    async def body(run: Any) -> None:
        await run.plan([text])
        for number in range(3):
            await crew.note(f"{number} {text}")
        await crew.delete_files([text])

    code = await asyncio.to_thread(lambda: crew.works(text, body, original=text, scope={"paths": [text]}))
    run = await run_of(crew, code)
    (recent, request) = await Chronicle(crew.gate._store, "default").recent(run, limit=2)
    first = agent.asks("send_mail", {"body": text})
    asked = agent.asks("send_mail", {"body": f"{text}\n{text}!"}, draft_of=first.id)
    for found in (request, replace(request, ask=asked.ask)):
        about = Background(found, run, run, (recent,), Drafts((first,)))
        for look in (LOOK, THEMES["assentry-light"][1], WITHOUT_COLOUR):
            rows = card.body(Shown(brief(found, NOW), about=about, whole=True), NOW, width, look)
            rows += bar.bar(Shown(brief(found, NOW), about=about), None, width, look)[0]
            assert all(segment.text.isprintable() for row in rows for segment in row)
            if width > 40:
                assert all(Segment.get_line_length(row) <= width for row in rows)
            assert f"Run {code}" in text_of(rows)


def test_every_tone_has_a_style_in_every_theme() -> None:
    for look in (LOOK, THEMES["assentry-light"][1], WITHOUT_COLOUR):
        assert all(paint(look)(tone) is not None for tone in Tone)
        assert rows_of([], 80, paint(look)) == []
