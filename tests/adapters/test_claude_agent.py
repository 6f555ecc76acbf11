"""The Claude Agent SDK under Assentry, with Claude's real runtime and a model that follows a script."""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server, query, tool

import assentry
from assentry.adapters.claude_agent import AttachedClaude, Hooks, ask_person, attach, hooked, permissions
from assentry.adapters.tool_calls import ASK, ToolCalls
from assentry.core.request import Request, State
from assentry.core.run import RunState
from assentry.errors import GuardError
from assentry.ports import Filter
from tests import forked
from tests.adapters.contract import DELETE, MAIL, READ, Contract, House, Turn, World, house_of, turn
from tests.adapters.model_server import ModelServer, model_server
from tests.stage import PATIENCE

pytestmark = pytest.mark.proof


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as made:
        made.prefix = "mcp__t__"
        yield made


def options_for(server: ModelServer, world: World, folder: Path) -> ClaudeAgentOptions:
    made = []
    for function in world.tools:
        if function.__name__ == ASK:
            made.append(ask_person)
            continue

        def bound(function: Any = function) -> Any:
            async def call(args: dict[str, Any]) -> dict[str, Any]:
                return {"content": [{"type": "text", "text": await function(**args)}]}

            schema = dict.fromkeys(inspect.signature(function).parameters, str)
            return tool(function.__name__, inspect.getdoc(function) or "", schema)(call)

        made.append(bound())
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return ClaudeAgentOptions(
        mcp_servers={"t": create_sdk_mcp_server("t", tools=made)}, setting_sources=[], cwd=str(folder),
        env={
            "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none", "HOME": str(home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )  # fmt: skip


class Session:
    """Claude as the contract drives it."""

    def __init__(self, claude: AttachedClaude) -> None:
        self._claude = claude

    async def begin(self, task: str, key: str) -> Any:
        return (await self._claude.run(task, key=key)).result

    async def stream(self, task: str, key: str) -> list[Any]:
        return [message async for message in self._claude.query(task, key=key)]


class Claude:
    def __init__(self, server: ModelServer, folder: Path) -> None:
        self.server, self.folder = server, folder

    async def agent(
        self, gate: assentry.Gate, turns: Sequence[Turn], world: World, *, wait: bool, nested: bool
    ) -> Session:
        self.server.heard = world.heard
        self.server.turns = list(turns)
        if nested:
            inner = {
                "description": "inner",
                "prompt": "look inside",
                "subagent_type": "general-purpose",
                "run_in_background": False,
            }
            self.server.inner = list(turns)
            self.server.turns = [turn(("o-1", "Task", inner)), Turn(text="all done")]
        return Session(attach(gate, options_for(self.server, world, self.folder), wait=wait))

    async def close(self) -> None:
        pass


class TestClaudeAgent(Contract):
    one_at_a_time = True

    @pytest.fixture
    def framework(self, server: ModelServer, tmp_path: Path) -> Claude:
        return Claude(server, tmp_path)


@pytest.fixture
async def house(server: ModelServer, tmp_path: Path) -> AsyncIterator[House]:
    async with house_of(Claude(server, tmp_path), str(tmp_path / "assentry.db"), wait=False) as made:
        yield made
        await made.rest()


async def test_of_several_that_wait_one_is_deferred_and_the_others_are_found_when_they_are_called_again(
    house: House,
) -> None:
    again = ("c-again", *MAIL[1:])
    async with house.at_work(turn(DELETE, MAIL, READ), turn(again)):
        found = {each.candidate.action.name: each for each in await house.waiting(2)}
        await house.approve(found["send_mail"])
        await house.approve(found["delete_file"])
    assert sorted(house.world.did) == ["delete /srv/a", "mail everyone@example.com sale", "read /srv/r"]
    assert "waits for a person" in house.world.heard["c-mail"]
    assert house.world.heard["c-again"] == "sent to everyone@example.com"
    assert len(await house.requests()) == 2


async def test_options_with_our_hooks_wait_in_place(house: House, server: ModelServer, tmp_path: Path) -> None:
    gate = await house.opened()
    server.turns, server.heard = [turn(MAIL), Turn(text="all done")], house.world.heard
    options = hooked(gate, options_for(server, house.world, tmp_path))

    async def work() -> list[Any]:
        return [message async for message in query(prompt="go", options=options)]

    task = house.start(work())
    (request,) = await house.waiting()
    await house.modify(request, to="ann@example.com")
    assert (await task)[-1].result == "all done"
    assert house.world.did == ["mail ann@example.com sale"]


async def test_claudes_own_tools_are_judged_too(house: House, server: ModelServer, tmp_path: Path) -> None:
    gate = await house.opened()
    command = {"command": f"touch {tmp_path}/made", "description": "make it"}
    server.turns, server.heard = [turn(("c-1", "Bash", command)), Turn(text="all done")], house.world.heard
    options = hooked(gate, options_for(server, house.world, tmp_path))

    async def work() -> list[Any]:
        return [message async for message in query(prompt="go", options=options)]

    task = house.start(work())
    (request,) = await house.waiting()
    assert (request.candidate.action.name, request.candidate.action.args["command"]) == (
        "run_command",
        command["command"],
    )
    assert not (tmp_path / "made").exists()
    await house.deny(request, "leave it")
    assert (await task)[-1].result == "all done"
    assert "leave it" in house.world.heard["c-1"]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("word", ["modify", "deny"])
async def test_what_claudes_own_rules_leave_open_is_asked(
    house: House, server: ModelServer, tmp_path: Path, word: str
) -> None:
    gate = await house.opened()
    server.turns, server.heard = [turn(MAIL), Turn(text="all done")], house.world.heard
    options = replace(options_for(server, house.world, tmp_path), can_use_tool=permissions(gate))

    async def work() -> Any:
        async with ClaudeSDKClient(options) as client:
            await client.query("go")
            return [message async for message in client.receive_response()][-1].result

    task = house.start(work())
    (request,) = await house.waiting()
    if word == "modify":
        await house.modify(request, to="ann@example.com")
    else:
        await house.deny(request, "not to all")
    assert await task == "all done"
    assert house.world.did == (["mail ann@example.com sale"] if word == "modify" else [])
    assert word == "modify" or "not to all" in house.world.heard["c-mail"]


async def test_claude_code_itself_asks_through_the_hook_that_was_installed(
    house: House, server: ModelServer, tmp_path: Path
) -> None:
    """The real runtime, with a settings file that `assentry hook install` wrote."""
    settings = tmp_path / ".claude" / "settings.json"
    done = forked.assentry(
        "--database", house.database, "hook", "install", "--settings", str(settings), cwd=tmp_path, env=dict(os.environ)
    )
    assert done.code == 0, done.problem
    command = {"command": f"touch {tmp_path}/made", "description": "make it"}
    server.turns, server.heard = [turn(("c-1", "Bash", command)), Turn(text="all done")], house.world.heard
    options = replace(
        options_for(server, house.world, tmp_path), setting_sources=["project"], permission_mode="bypassPermissions"
    )
    environment = {
        **options.env,
        "ASSENTRY_HOME": os.environ["ASSENTRY_HOME"],
        "ASSENTRY_DATABASE": house.database,
        "IS_SANDBOX": "1",
    }
    options = replace(options, env=environment)

    async def work() -> list[Any]:
        return [message async for message in query(prompt="go", options=options)]

    task = house.start(work())
    (request,) = await house.waiting()
    assert (request.ask.agent, request.candidate.action.name) == ("claude-code", "run_command")
    assert not (tmp_path / "made").exists()
    await house.approve(request)
    assert (await task)[-1].result == "all done"
    assert (tmp_path / "made").exists()
    assert (await house.in_state(request.id, State.DONE)).state is State.DONE


def tool_named(name: str, says: str, schema: dict[str, Any], did: list[Any]) -> Any:
    @tool(name, says, schema)
    async def made(args: dict[str, Any]) -> dict[str, Any]:
        did.append(args)
        return {"content": [{"type": "text", "text": "done"}]}

    return made


async def test_another_tool_that_is_called_ask_person_is_no_question(
    house: House, server: ModelServer, tmp_path: Path
) -> None:
    gate = await house.opened()
    call = ("c-1", ASK, {"question": "Nice weather?", "disk": "/dev/sda"})
    server.turns, server.heard = [turn(call), Turn(text="all done")], house.world.heard
    did: list[Any] = []
    wipe = tool_named(ASK, "Wipes a disk.", {"question": str, "disk": str}, did)
    options = replace(
        options_for(server, house.world, tmp_path), mcp_servers={"t": create_sdk_mcp_server("t", tools=[wipe])}
    )
    task = house.start(spoken(hooked(gate, options)))
    (request,) = await house.waiting()
    assert request.ask.question is None
    assert request.candidate.action.args == call[2]
    await house.deny(request, "leave the disk")
    assert (await task)[-1].result == "all done"
    assert did == []
    assert "leave the disk" in house.world.heard["c-1"]


async def test_a_strangers_tool_that_is_called_ask_person_is_no_question(house: House) -> None:
    hooks = Hooks(ToolCalls(await house.opened()))
    task = house.start(hooks.before(event_of(f"mcp__stranger__{ASK}", {"question": "Well?", "disk": "a"}), "t-1", None))
    (request,) = await house.waiting()
    assert request.ask.question is None
    await house.deny(request, "no")
    assert (await task)["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_only_the_question_and_its_answer_reach_our_own_ask_person(house: House) -> None:
    options = ClaudeAgentOptions(mcp_servers={"people": create_sdk_mcp_server("people", tools=[ask_person])})
    (matcher,) = (hooked(await house.opened(), options).hooks or {})["PreToolUse"]
    event = event_of(f"mcp__people__{ASK}", {"question": "Well?", "choices": ["yes", "no"], "disk": "a"})
    task = house.start(matcher.hooks[0](event, "t-1", {"signal": None}))
    (request,) = await house.waiting()
    await house.answer(request, "yes")
    said = (await task)["hookSpecificOutput"]
    assert (said["permissionDecision"], said["updatedInput"]) == (
        "allow",
        {"question": "Well?", "choices": ["yes", "no"], "answer": "yes"},
    )


def event_of(name: str, args: dict[str, Any], event: str = "PreToolUse", **more: Any) -> Any:
    return {"hook_event_name": event, "session_id": "s", "tool_name": name, "tool_input": args, **more}


async def noted(house: House) -> Request:
    """The one call that there was, which nobody was asked about."""
    (request,) = (await house.inbox.page(Filter(states=tuple(State)))).requests
    return request


async def spoken(options: ClaudeAgentOptions) -> list[Any]:
    return [message async for message in query(prompt="go", options=options)]


def hook_that(**does: Any) -> Any:
    async def hook(event: Any, call_id: str | None, context: Any) -> Any:
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **does}}

    return {"PreToolUse": [HookMatcher(hooks=[hook])]}


async def test_what_another_hook_changed_after_it_was_approved_is_not_on_record_as_done(
    house: House, server: ModelServer, tmp_path: Path
) -> None:
    server.turns, server.heard = [turn(DELETE), Turn(text="all done")], house.world.heard
    theirs = hook_that(permissionDecision="allow", updatedInput={"path": "/srv/other"})
    options = replace(options_for(server, house.world, tmp_path), hooks=theirs)
    task = house.start(spoken(hooked(await house.opened(), options, others=True)))
    (request,) = await house.waiting()
    await house.approve(request)
    assert (await task)[-1].result == "all done"
    assert house.world.did == ["delete /srv/other"]
    ended = await house.in_state(request.id, State.FAILED)
    assert "another hook changed 'path'" in ended.error
    assert "what ran is not what was approved" in json.dumps(server.seen[-1]["messages"])


async def test_options_with_hooks_that_could_change_calls_are_refused(house: House) -> None:
    gate, options = await house.opened(), ClaudeAgentOptions(hooks=hook_that())
    for make in (hooked, attach):
        with pytest.raises(GuardError, match="others=True"):
            make(gate, options)
        make(gate, options, others=True)


async def test_a_call_that_another_hook_turns_away_does_not_stay_running(
    house: House, server: ModelServer, tmp_path: Path
) -> None:
    gate = assentry.open(house.database, agent="tester", lease=timedelta(seconds=1))
    house.closing.push_async_callback(gate.close)
    server.turns, server.heard = [turn(DELETE), Turn(text="all done")], house.world.heard
    theirs = hook_that(permissionDecision="deny", permissionDecisionReason="no")
    options = replace(options_for(server, house.world, tmp_path), hooks=theirs)
    task = house.start(spoken(hooked(gate, options, others=True)))
    (request,) = await house.waiting()
    await house.approve(request)
    assert (await task)[-1].result == "all done"
    assert house.world.did == []
    async with gate.worker():
        await house.in_state(request.id, State.UNKNOWN)


async def test_the_end_of_one_agent_is_not_the_end_of_the_calls_of_another(house: House) -> None:
    hooks = Hooks(ToolCalls(await house.opened()))
    event = event_of("mcp__x__note", {"text": "a"})
    await hooks.before({**event, "agent_id": "inner"}, "t-1", None)
    for other in ({}, {"agent_id": "second"}, {"session_id": "s2", "agent_id": "inner"}):
        await hooks.over({"hook_event_name": "Stop", "session_id": "s", **other}, None, None)
    await hooks.after({**event, "hook_event_name": "PostToolUse", "tool_response": "noted"}, "t-1", None)
    assert (await noted(house)).state is State.DONE


@pytest.mark.parametrize("response", ["cut \ud83d", {"price": float("nan")}, {"text": ["cut \ud83d"]}, "x" * 2_000_000])
async def test_what_came_back_is_on_record_whatever_it_is(house: House, response: Any) -> None:
    hooks = Hooks(ToolCalls(await house.opened()))
    event = event_of("mcp__x__note", {"text": "a"})
    await hooks.before(event, "t-1", None)
    assert await hooks.after({**event, "hook_event_name": "PostToolUse", "tool_response": response}, "t-1", None) == {}
    assert (await noted(house)).state is State.DONE


async def test_an_error_with_half_a_character_is_on_record(house: House) -> None:
    hooks = Hooks(ToolCalls(await house.opened()))
    event = event_of("mcp__x__note", {"text": "a"})
    await hooks.before(event, "t-1", None)
    await hooks.after({**event, "hook_event_name": "PostToolUseFailure", "error": "cut \ud83d"}, "t-1", None)
    request = await noted(house)
    assert (request.state, request.error) == (State.FAILED, "_ToolFailed: cut ?")


KILLED = """
import asyncio, datetime, os, sys
import assentry
from assentry.adapters.claude_agent import attach

async def main():
    gate = assentry.open(sys.argv[1], agent="tester", lease=datetime.timedelta(seconds=1))
    attach(gate)
    async with gate.run("go", key="k", host="claude:claude") as run:
        run.snapshot({"prompt": "go", "session": "", "deferred": False, "asked": {}})
        os._exit(9)

asyncio.run(main())
"""


async def test_a_session_whose_process_died_before_it_parked_says_what_to_do(
    house: House, server: ModelServer, tmp_path: Path
) -> None:
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, house.database)
    assert await killed.wait() == 9
    gate = await house.opened()
    attach(gate, options_for(server, house.world, tmp_path))
    async with gate.worker(), asyncio.timeout(PATIENCE):
        while (run := await house.run()).state is not RunState.FAILED:
            await asyncio.sleep(0.05)
    assert "begin it again with another key" in run.error
