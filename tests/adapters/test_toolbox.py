"""Turns of a loop by hand whose arguments are texts, as OpenAI's models write them, and what a snapshot makes of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import assentry
from assentry.adapters.hosted import Hosted
from assentry.adapters.toolbox import Toolbox
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.ports import Filter, RunFilter
from tests.adapters.contract import POLICY
from tests.stage import PATIENCE, Stage, stage

Call = tuple[str, str, str]


class Office(Stage):
    """A loop with one turn, a worker, and somebody who approves all of it."""

    did: list[Any]

    async def turn(self, gate: assentry.Gate, *calls: Call) -> list[str]:
        """What the model heard of each call, after the loop parked and a worker went on with it."""
        self.did = []

        async def sign_in(user: str, password: str, pin: int = 0) -> str:
            """Signs in."""
            self.did.append((user, password, pin))
            return f"signed in as {user}"

        async def place_order(account: int, password: str, update: dict[str, Any]) -> str:
            """Places an order."""
            self.did.append((account, password, update))
            return "placed"

        async def note(text: str) -> str:
            """Adds a line."""
            self.did.append(text)
            return f"noted {text}"

        tools = Toolbox(gate, [sign_in, place_order, note])
        heard: list[str] = []

        async def loop(state: Any, _: Any) -> str:
            if len(state) == 1:
                state.append([list(call) for call in calls])
                assentry.current_run().snapshot(state)
            heard[:] = [each.text() for each in await tools.all(tuple(each) for each in state[1])]
            return "done"

        agent = Hosted(gate, "loop", loop, wait=False)
        try:
            await agent.begin(["go"], goal="go", key="k")
        except assentry.Parked:
            for request in await self.waiting(len({call[2] for call in calls if call[0] != "note"})):
                await self.approve(request)
        async with gate.worker(), asyncio.timeout(PATIENCE):
            while (await self.desk.store.runs("default", RunFilter(), limit=1))[0].state is not RunState.FINISHED:
                await asyncio.sleep(0.02)
        return heard


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[tuple[Office, assentry.Gate]]:
    async with stage(str(tmp_path / "assentry.db"), Office, agent="tester", policy=POLICY) as made:
        yield made, made.gate


@pytest.mark.parametrize(
    ("account", "update"),
    [("5", '{"$set": {"a": 1}}'), ("12345678901234567890", "{}"), ("5", '{"f": {"$int": "7"}}'), ("5", '{"f": 1.50}')],
)
async def test_what_was_approved_runs_whatever_else_its_arguments_say(
    office: tuple[Office, assentry.Gate], account: str, update: str
) -> None:
    person, gate = office
    text = f'{{ "account": {account},"password": "correct horse", "update": {update} }}'
    assert await person.turn(gate, ("place_order", text, "c1")) == ["placed"]
    ((number, password, _),) = person.did
    assert (str(number), password) == (account, "correct horse")


async def test_a_secret_that_the_model_leaves_out_does_not_make_it_another_call(
    office: tuple[Office, assentry.Gate],
) -> None:
    person, gate = office
    heard = await person.turn(gate, ("sign_in", '{"user": "ann", "password": "correct horse"}', "c1"))
    assert (heard, person.did) == (["signed in as ann"], [("ann", "correct horse", 0)])


@pytest.mark.parametrize("password", ["1", "c1", "c2"])
async def test_a_secret_that_stands_in_an_id_makes_nothing_run_twice(
    office: tuple[Office, assentry.Gate], password: str
) -> None:
    person, gate = office
    sign_in = ("sign_in", f'{{"user": "ann", "password": "{password}", "pin": 4711}}', "c2")
    heard = await person.turn(gate, ("note", '{"text": "hi"}', "c1"), sign_in)
    assert (heard, person.did) == (["noted hi", "signed in as ann"], ["hi", ("ann", password, 4711)])


async def test_a_call_that_is_there_twice_is_one(office: tuple[Office, assentry.Gate]) -> None:
    person, gate = office
    call = ("sign_in", '{"user": "ann", "password": "correct horse"}', "c1")
    assert await person.turn(gate, call, call) == ["signed in as ann"] * 2
    assert len(person.did) == 1


async def test_what_a_tool_gives_is_on_record_as_done_whatever_it_is(tmp_path: Path) -> None:
    gate = assentry.open(str(tmp_path / "assentry.db"), agent="tester")

    @gate.guard(reversible=True, reach="local")
    async def write_file(path: str) -> str:
        return '{"note": {"$decimal": "n/a"}}'

    assert "n/a" in await write_file("a")
    await gate.close()
    async with stage(str(tmp_path / "assentry.db")) as person:
        (request,) = await person.found(Filter(states=tuple(State)))
    assert request.state is State.DONE
