"""What a terminal says of a request that nobody is waiting for any more, and what can be done with it there."""

from pathlib import Path

import pytest

from assentry.cli.screen import dialogs
from assentry.cli.screen.dialogs import Confirm
from assentry.core.request import State
from tests.cli.seat import seated, state
from tests.cli.terminal import Agent, Assentry

SAYS = "nobody is waiting for this any more"


@pytest.fixture
def gone(agent: Agent):
    """A request whose process has ended."""
    request = agent.asks()
    agent.gate.portal.run(agent.gate._callers.close())
    return request


def test_commands_say_so_refuse_to_approve_it_and_dismiss_it(assentry: Assentry, agent: Agent, gone) -> None:
    assert "nobody is waiting, dismiss it" in assentry("pending").out
    shown = assentry("show", gone.code).out
    assert SAYS in shown
    assert f"assentry deny {gone.code}" in shown
    assert "assentry approve" not in shown
    for command in (("approve",), ("modify", "--set", "path=x"), ("revise", "shorter")):
        refused = assentry(command[0], gone.code, *command[1:], code=3)
        assert SAYS in refused.err
        assert "Deny it without a reason to dismiss it" in refused.err
    found = assentry("show", gone.code, "--json").json["request"]
    assert found["abandoned_at"] is not None
    assert "dismissed; nobody was waiting for it" in assentry("deny", gone.code).out
    assert agent.now(gone).state is State.CANCELLED
    assert "dismissed by root; nobody was waiting for it any more" in assentry("log", "--request", gone.code).out


def test_the_timeline_of_its_run_says_so(assentry: Assentry, agent: Agent) -> None:
    async def work() -> str:
        async with agent.gate.run("Tidy up") as run:
            await agent.gate.propose("delete_files", {"files": ["a"]})
            return run.code

    code = agent.gate.portal.run(work())
    agent.gate.portal.run(agent.gate._callers.close())
    assentry("pending")
    assert SAYS in assentry("run", "show", code).out


async def test_the_full_screen_says_so_and_only_dismisses(
    here: Path, agent: Agent, gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogs, "DWELL", 0.05)
    monkeypatch.setattr("assentry.cli.screen.inbox.DWELL", 0.05)
    async with seated(here) as seat:
        await seat.looks_at(gone)
        await seat.sees("nobody waits", SAYS)
        await seat.press("a")
        await seat.sees("d dismisses it")
        assert agent.now(gone).state is State.PENDING
        await seat.press("d")
        await seat.dialog(Confirm)
        await seat.press("y")
        await state(agent, gone, seat, State.CANCELLED)
