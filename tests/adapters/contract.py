"""What every adapter does, whatever the framework: one suite, driven through each framework's own scripted model.

A framework's test makes an `Agent` of the framework's own kind from a script, tools and a gate, and gets every test
here, once with an agent that waits in its process and once with one that parks and is gone on with by a worker.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

import assentry
from assentry.adapters.tool_calls import ask_person
from assentry.core.request import State
from assentry.core.run import Run, RunState
from assentry.errors import GuardError, Parked, RunStopped
from tests.stage import PATIENCE, Stage, stage

POLICY = """\
version: 1
rules:
  - name: reading
    actions: [read_file, hand_on]
    gate: run
  - name: noting
    actions: [note]
    gate: watch
  - name: everything else
    gate: hard
"""


@dataclass(frozen=True)
class Turn:
    """What the scripted model says at one turn: calls of tools by their id, or the text it ends with."""

    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    text: str = ""


def turn(*calls: tuple[str, str, dict[str, Any]]) -> Turn:
    return Turn(calls)


DONE = Turn(text="all done")


@dataclass
class World:
    """What tools did, and what the model heard of it."""

    did: list[str] = field(default_factory=list)
    heard: dict[str, str] = field(default_factory=dict)
    """The last thing that the model was told for each call, by its id."""

    @property
    def tools(self) -> list[Callable[..., Any]]:
        """Plain functions, as users of every framework write them."""

        async def read_file(path: str) -> str:
            """Reads a file."""
            self.did.append(f"read {path}")
            return f"contents of {path}"

        async def note(text: str) -> str:
            """Adds a line to a list."""
            self.did.append(f"note {text}")
            return f"noted {text}"

        async def write_file(path: str, text: str) -> str:
            """Writes a file, and replaces the one that is there."""
            self.did.append(f"write {path} {text}")
            return f"wrote {path}"

        async def send_mail(to: str, subject: str) -> str:
            """Sends a mail."""
            self.did.append(f"mail {to} {subject}")
            return f"sent to {to}"

        async def delete_file(path: str) -> str:
            """Deletes a file for good."""
            self.did.append(f"delete {path}")
            return f"deleted {path}"

        async def break_down(path: str) -> str:
            """Deletes a file that is not there."""
            self.did.append(f"break {path}")
            raise OSError(f"no file {path}")

        async def sign_in(user: str, password: str, api_key: str) -> str:
            """Signs in."""
            self.did.append(f"sign in {user} {password} {api_key}")
            return f"signed in as {user}"

        return [read_file, note, write_file, send_mail, delete_file, break_down, sign_in, ask_person]


class Agent(Protocol):
    """An agent of some framework, attached to a gate."""

    async def begin(self, task: str, key: str) -> Any:
        """What it ended with, as text. Raises `Parked` where it waits elsewhere from now on."""

    async def stream(self, task: str, key: str) -> list[Any]:
        """Everything that it streamed."""


class Framework(Protocol):
    """How a test makes an agent."""

    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> Agent:
        """An agent with this script and these tools; `nested` has an agent inside it that has the tools.

        The outer one of a nested pair hands everything on to the inner one, in whatever way its framework has.
        """

    async def close(self) -> None:
        """Whatever it opened is closed."""


@dataclass
class House(Stage):
    """An agent of a framework, a desk of whoever decides, and a worker where agents park."""

    framework: Any = None
    wait: bool = False
    world: World = field(default_factory=World)

    async def opened(self) -> assentry.Gate:
        """A gate for another agent."""
        return self.another_gate(agent="tester")

    async def agent(self, *turns: Turn, nested: bool = False) -> Agent:
        gate = await self.opened()
        made = await self.framework.agent(gate, [*turns, DONE], self.world, wait=self.wait, nested=nested)
        if not self.wait:
            await self.closing.enter_async_context(gate.worker())
        return made

    @asynccontextmanager
    async def at_work(self, *turns: Turn, nested: bool = False, key: str = "k1") -> AsyncIterator[None]:
        """The agent works on these turns until it has ended, wherever it goes on."""
        agent = await self.agent(*turns, nested=nested)
        work = asyncio.create_task(self._begun(agent, key))
        try:
            yield
            async with asyncio.timeout(PATIENCE):
                await work
                await self.ended()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _begun(self, agent: Agent, key: str) -> None:
        try:
            assert "all done" in str(await agent.begin("tidy up", key))
        except Parked:
            assert not self.wait

    async def ended(self, *states: RunState) -> Run:
        while (run := await self.run()).state not in (states or (RunState.FINISHED,)):
            assert run.state is not RunState.FAILED or RunState.FAILED in states, run.error
            await asyncio.sleep(0.02)
        return run


@asynccontextmanager
async def house_of(framework: Framework, database: str, *, wait: bool) -> AsyncIterator[House]:
    async with stage(database, House, policy=POLICY, framework=framework, wait=wait) as made:
        made.closing.push_async_callback(framework.close)
        yield made


MAIL = ("c-mail", "send_mail", {"to": "everyone@example.com", "subject": "sale"})
DELETE = ("c-delete", "delete_file", {"path": "/srv/a"})
WRITE = ("c-write", "write_file", {"path": "/srv/w", "text": "new"})
READ = ("c-read", "read_file", {"path": "/srv/r"})
NOTE = ("c-note", "note", {"text": "seen"})
SECRETS = ("correct horse", "sk-live-4f9a8b7c6d5e4f3a2b1c")
SIGN_IN = ("c-sign", "sign_in", {"user": "ann", "password": SECRETS[0], "api_key": SECRETS[1]})


class Contract:
    """The suite. A subclass makes the framework."""

    one_at_a_time = False
    """The framework waits for one call before it makes the next; its own tests say what becomes of the others."""

    @pytest.fixture
    def framework(self, tmp_path: Path) -> Framework:
        raise NotImplementedError

    @pytest.fixture
    async def house(self, way: str, framework: Framework, tmp_path: Path) -> AsyncIterator[House]:
        async with house_of(framework, str(tmp_path / "assentry.db"), wait=way == "waits") as made:
            yield made

    async def test_what_may_run_runs_and_nobody_is_asked(self, house: House) -> None:
        async with house.at_work(turn(READ), turn(NOTE)):
            pass
        assert house.world.did == ["read /srv/r", "note seen"]
        assert house.world.heard == {"c-read": "contents of /srv/r", "c-note": "noted seen"}
        assert await house.requests() == []

    async def test_an_approved_call_runs_once_with_its_arguments(self, house: House) -> None:
        async with house.at_work(turn(MAIL)):
            (request,) = await house.waiting()
            assert (request.ask.agent, request.candidate.action.name) == ("tester", "send_mail")
            assert request.candidate.action.args == MAIL[2]
            assert request.candidate.action.schema is not None
            assert house.world.did == []
            await house.approve(request)
        assert house.world.did == ["mail everyone@example.com sale"]
        assert house.world.heard["c-mail"] == "sent to everyone@example.com"
        (request,) = await house.requests()
        assert request.state is State.DONE

    async def test_a_denied_call_is_not_made_and_the_model_hears_why(self, house: House) -> None:
        async with house.at_work(turn(DELETE)):
            (request,) = await house.waiting()
            await house.deny(request, "those are the backups")
        assert house.world.did == []
        told = house.world.heard["c-delete"]
        assert "those are the backups" in told
        assert "did not run" in told

    async def test_a_changed_call_runs_as_changed_and_the_model_is_told(self, house: House) -> None:
        async with house.at_work(turn(MAIL)):
            (request,) = await house.waiting()
            await house.modify(request, to="ann@example.com")
        assert house.world.did == ["mail ann@example.com sale"]
        told = house.world.heard["c-mail"]
        assert told.startswith("sent to ann@example.com")
        assert "A person changed the input" in told

    @pytest.mark.both_ways
    async def test_of_several_at_once_those_that_may_run_keep_their_results(self, house: House) -> None:
        if self.one_at_a_time:
            pytest.skip("it makes one call at a time")
        async with house.at_work(turn(READ, MAIL, NOTE, DELETE)):
            first, second = await house.waiting(2)
            assert {first.candidate.action.name, second.candidate.action.name} == {"send_mail", "delete_file"}
            for each in (first, second):
                if each.candidate.action.name == "send_mail":
                    await house.approve(each)
                else:
                    await house.deny(each, "not that one")
        assert house.world.did.count("note seen") == 1
        assert house.world.did.count("mail everyone@example.com sale") == 1
        assert "delete /srv/a" not in house.world.did
        assert house.world.heard["c-read"] == "contents of /srv/r"
        assert house.world.heard["c-note"] == "noted seen"
        assert house.world.heard["c-mail"] == "sent to everyone@example.com"
        assert "not that one" in house.world.heard["c-delete"]

    async def test_decisions_find_their_calls_by_id_whatever_the_order(self, house: House) -> None:
        if self.one_at_a_time:
            pytest.skip("it makes one call at a time")
        calls = [(f"c-{name}", "delete_file", {"path": f"/srv/{name}"}) for name in ("a", "b", "c")]
        async with house.at_work(turn(*calls)):
            found = await house.waiting(3)
            by_path = {request.candidate.action.args["path"]: request for request in found}
            await house.approve(by_path["/srv/c"])
            await house.deny(by_path["/srv/a"], "keep a")
            await house.modify(by_path["/srv/b"], path="/srv/d")
        assert sorted(house.world.did) == ["delete /srv/c", "delete /srv/d"]
        assert "keep a" in house.world.heard["c-a"]
        assert house.world.heard["c-b"].startswith("deleted /srv/d")
        assert house.world.heard["c-c"] == "deleted /srv/c"
        assert len(await house.requests()) == 3

    @pytest.mark.parametrize("calls", [(READ, MAIL, DELETE), (READ, DELETE, MAIL)], ids=["first", "last"])
    async def test_one_of_two_is_decided_and_runs_while_the_other_waits_on(
        self, house: House, calls: tuple[Any, ...]
    ) -> None:
        if self.one_at_a_time:
            pytest.skip("it makes one call at a time")
        async with house.at_work(turn(*calls)):
            by_name = {request.candidate.action.name: request for request in await house.waiting(2)}
            if not house.wait:
                await house.ended(RunState.PARKED)
            await house.approve(by_name["send_mail"])
            await house.in_state(by_name["send_mail"].id, State.DONE)
            assert sorted(set(house.world.did)) == ["mail everyone@example.com sale", "read /srv/r"]
            await house.deny(by_name["delete_file"], "no")
        assert house.world.did.count("mail everyone@example.com sale") == 1
        assert "delete /srv/a" not in house.world.did
        assert house.world.heard["c-read"] == "contents of /srv/r"
        assert house.world.heard["c-mail"] == "sent to everyone@example.com"

    async def test_a_secret_argument_runs_as_it_was_given_and_is_nowhere_in_what_is_kept(self, house: House) -> None:
        async with house.at_work(turn(SIGN_IN), turn(("c-again", *SIGN_IN[1:]))):
            (request,) = await house.waiting()
            if not house.wait:
                await house.ended(RunState.PARKED)
            await house.approve(request)
            await house.in_state(request.id, State.DONE)
            (second,) = await house.waiting()
            await house.deny(second, "not twice")
        assert house.world.did == [f"sign in ann {SECRETS[0]} {SECRETS[1]}"]
        assert house.world.heard["c-sign"] == "signed in as ann"
        assert "not twice" in house.world.heard["c-again"]
        for file in Path(house.database).parent.glob("assentry.db*"):
            assert not [each for each in SECRETS if each.encode() in file.read_bytes()], file.name

    async def test_an_id_that_is_used_again_for_another_call_runs_nothing(self, house: House) -> None:
        agent = await house.agent(turn(("c-1", "note", {"text": "one"})), turn(("c-1", "note", {"text": "two"})))
        with suppress(Exception):  # some frameworks end a run that does that
            await agent.begin("tidy up", "k1")
        assert house.world.did == ["note one"]

    async def test_begun_again_while_it_waits_it_asks_nobody_a_second_time(
        self, framework: Framework, tmp_path: Path
    ) -> None:
        async with house_of(framework, str(tmp_path / "assentry.db"), wait=False) as house:
            gate = await house.opened()
            agent = await framework.agent(gate, [turn(READ, DELETE), DONE], house.world, wait=False, nested=False)
            with pytest.raises(Parked):
                await agent.begin("tidy up", "k1")
            with pytest.raises((Parked, GuardError)):  # a thread that waits takes no other input
                await agent.begin("tidy up", "k1")
            await house.approve((await house.waiting())[0])
            async with gate.worker(), asyncio.timeout(PATIENCE):
                await house.ended()
            assert house.world.did.count("delete /srv/a") == 1
            assert len(await house.requests()) == 1

    async def test_what_an_agent_inside_another_asks_is_asked_in_the_same_run(self, house: House) -> None:
        async with house.at_work(turn(READ, DELETE), nested=True):
            (request,) = await house.waiting()
            await house.approve(request)
        assert house.world.did.count("delete /srv/a") == 1
        assert len(await house.requests()) == 1
        assert (await house.requests())[0].ask.run == (await house.run()).id

    async def test_the_answer_to_a_question_reaches_the_model(self, house: House) -> None:
        ask = ("c-ask", "ask_person", {"question": "Which folder?", "choices": ["old", "new"]})
        async with house.at_work(turn(ask)):
            (request,) = await house.waiting()
            assert request.ask.question is not None
            assert (request.ask.question.text, request.ask.question.choices) == ("Which folder?", ("old", "new"))
            await house.answer(request, "old")
        assert house.world.heard["c-ask"] == "old"

    async def test_a_tool_that_fails_is_on_record_as_failed(self, house: House) -> None:
        async with house.at_work(turn(("c-break", "break_down", {"path": "/x"}))):
            (request,) = await house.waiting()
            await house.approve(request)
        assert house.world.did == ["break /x"]
        assert "no file /x" in house.world.heard["c-break"]
        (request,) = await house.requests()
        assert (request.state, "no file /x" in request.error) == (State.FAILED, True)

    @pytest.mark.both_ways
    async def test_a_person_who_ends_the_run_ends_it(self, house: House) -> None:
        agent = await house.agent(turn(DELETE), turn(MAIL))
        work = asyncio.create_task(agent.begin("tidy up", "k1"))
        (request,) = await house.waiting()
        await house.deny(request, "stop all of it", stop=True)
        with pytest.raises((RunStopped, Parked, assentry.Denied)):
            await work
        async with asyncio.timeout(PATIENCE):
            await house.ended(RunState.STOPPED)
        assert house.world.did == []
        assert len(await house.requests()) == 1

    async def test_streaming_keeps_working(self, house: House) -> None:
        agent = await house.agent(turn(READ), turn(NOTE))
        assert await agent.stream("tidy up", "k1")
        assert house.world.did == ["read /srv/r", "note seen"]
        async with asyncio.timeout(PATIENCE):
            await house.ended()

    @pytest.mark.both_ways
    async def test_the_scenario(self, house: House) -> None:
        """Read, read, risky write, dangerous mail with a modified recipient, denied delete, clarification."""
        again = ("c-read2", "read_file", {"path": "/srv/s"})
        ask = ("c-ask", "ask_person", {"question": "Tell the team?"})
        async with house.at_work(turn(READ, again), turn(WRITE), turn(MAIL), turn(DELETE), turn(ask)):
            await house.approve((await house.waiting())[0])
            await house.modify((await house.waiting())[0], to="team@example.com")
            await house.deny((await house.waiting())[0], "keep it")
            await house.answer((await house.waiting())[0], "not today")
        assert sorted(house.world.did[:2]) == ["read /srv/r", "read /srv/s"]
        assert house.world.did[2:] == ["write /srv/w new", "mail team@example.com sale"]
        assert await trail(house) == SCENARIO

    async def test_a_parked_run_is_gone_on_with_by_a_process_that_knows_nothing(
        self, framework: Framework, database: str
    ) -> None:
        async with house_of(framework, database, wait=False) as house:
            gate = assentry.open(database, agent="tester")
            agent = await framework.agent(
                gate, [turn(READ), turn(NOTE, MAIL), DONE], house.world, wait=False, nested=False
            )
            with pytest.raises(Parked):
                await agent.begin("tidy up", "k1")
            await gate.close()
            assert (await house.run()).state is RunState.PARKED
            (request,) = await house.waiting()
            await house.modify(request, to="ann@example.com")
            later = assentry.open(database, agent="tester")
            await framework.agent(later, [turn(READ), turn(NOTE, MAIL), DONE], house.world, wait=False, nested=False)
            async with later.worker(), asyncio.timeout(PATIENCE):
                await house.ended()
            await later.close()
            # What may run beside a call that waits runs before the run parks, or after it goes on; once in any case.
            assert sorted(house.world.did) == ["mail ann@example.com sale", "note seen", "read /srv/r"]
            assert len(await house.requests()) == 1


RAN = "request.asked request.decided execution.began execution.finished"
SCENARIO = [
    ("write_file", "hard", "done", RAN),
    ("send_mail", "hard", "done", RAN),
    ("delete_file", "hard", "denied", "request.asked request.decided"),
    ("question", "ask", "answered", "request.asked request.decided"),
]
"""What is left on record of the scenario, the same whatever the framework."""


async def trail(house: House) -> list[tuple[str, ...]]:
    """Each request by its action, its gate, its end, and what the log has of it."""
    told = []
    for each in await house.requests():
        entries = await house.desk.store.entries("default", subject=each.id)
        kinds = " ".join(json.loads(logged.text)["kind"] for logged in entries)
        told.append((each.candidate.action.name, str(each.candidate.verdict.gate), str(each.state), kinds))
    return told
