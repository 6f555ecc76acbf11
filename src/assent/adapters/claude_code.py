"""Claude Code's hooks: a tool call is proposed before it runs, and what came of it is reported after it ran.

Claude Code starts a process for each event, tells it what happens on standard input, and does what it answers. So
whatever two events share is on record with the request, or in a small file of the session. Claude Code carries the
call out itself: its approval is used up the moment the hook answers "allow".
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from assent.core.action import Json
from assent.core.canonical import canonical, restore
from assent.core.request import Request, State
from assent.engine.agent_calls import AgentCalls
from assent.engine.judgement import Context
from assent.engine.outcomes import refusal
from assent.engine.sealing import unsealed
from assent.engine.tool import tool
from assent.errors import Conflict, InvalidArguments
from assent.ports import Vault

AGENT = "claude-code"
EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
LEASE = timedelta(minutes=10)
"""How long a call may take before its outcome counts as unknown; Claude Code ends a command after as long."""

BUILT_IN = {
    "Bash": ("run_command", "Runs a command in a shell."),
    "BashOutput": ("read_output", "Reads what a command in the background has printed."),
    "Edit": ("edit_file", "Replaces text in a file."),
    "Glob": ("find_files", "Finds files by their names."),
    "Grep": ("search_files", "Searches the contents of files."),
    "KillShell": ("kill_process", "Ends a command in the background."),
    "LS": ("list_files", "Lists a directory."),
    "MultiEdit": ("edit_file", "Replaces several texts in a file."),
    "NotebookEdit": ("edit_notebook", "Changes a cell of a notebook."),
    "NotebookRead": ("read_notebook", "Reads a notebook."),
    "Read": ("read_file", "Reads a file."),
    "WebFetch": ("fetch_url", "Fetches a page from the web."),
    "WebSearch": ("search_web", "Searches the web."),
    "Write": ("write_file", "Writes a file, and replaces the one that is there."),
}
"""Claude Code's own tools, in words that the catalogue knows."""
WITHIN = frozenset(
    "Agent AskUserQuestion EnterPlanMode ExitPlanMode Skill SlashCommand Task TaskOutput TodoRead TodoWrite".split()
)
"""What stays inside of Claude Code. An agent that it starts meets the hook with each of its own calls."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as Claude Code tells of it."""

    tool: str
    args: Mapping[str, Json]
    session: str
    id: str

    @property
    def action(self) -> str:
        """What it is called on a card and in a policy."""
        if self.tool in BUILT_IN:
            return BUILT_IN[self.tool][0]
        return self.tool.rpartition("__")[2] if self.tool.startswith("mcp__") else self.tool

    @property
    def description(self) -> str:
        """What is known of the tool; of a stranger's, only where it comes from."""
        if self.tool in BUILT_IN:
            return BUILT_IN[self.tool][1]
        parts = self.tool.split("__")
        return f"A tool of the MCP server {parts[1]}." if len(parts) > 2 and parts[0] == "mcp" else ""

    @property
    def digest(self) -> str:
        """The same for the same tool with the same input."""
        return sha256(canonical({"tool": self.tool, "args": self.args}).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Told:
    """How a request stands."""

    id: str
    code: str
    state: str
    """As in `State`; `allowed` where nothing has to be waited for or reported."""
    says: str = ""
    """For the model, where it may not run."""
    args: Mapping[str, Json] | None = None
    fence: int = 0


class Office(Protocol):
    """Where calls are proposed: a database here, or a server."""

    async def propose(self, call: Call, key: str) -> Told: ...
    async def decided(self, told: Told, seconds: float) -> Told: ...
    async def begin(self, told: Told, attempt: str) -> Told: ...
    async def report(self, request_id: str, fence: int, result: Json, error: str) -> None: ...


class LocalOffice:
    """On the database of this machine."""

    def __init__(self, calls: AgentCalls, vault: Vault) -> None:
        self._calls, self._vault = calls, vault

    async def propose(self, call: Call, key: str) -> Told:
        """The call is judged and on record."""
        made = tool(call.action, description=call.description, trusted=call.tool in BUILT_IN)
        request = await self._calls.propose(made, call.args, Context(agent=self._calls.agent, key=key))
        return Told("", "", "allowed") if request is None else _told(request)

    async def decided(self, told: Told, seconds: float) -> Told:
        """The same once somebody has decided, or after so many seconds."""
        return _told(await self._calls.changed(await self._calls.request(told.id), seconds))

    async def begin(self, told: Told, attempt: str) -> Told:
        """The approval is used up; what is carried out now is exactly this."""
        request = await self._calls.begin(told.id, attempt=attempt, lease=LEASE)
        args = unsealed(self._vault, request.id, restore(request.candidate.args_text), request.sealed)
        return Told(request.id, request.code, str(request.state), "", args, request.fence)

    async def report(self, request_id: str, fence: int, result: Json, error: str) -> None:
        """What came of it is on record."""
        if error:
            await self._calls.fail(request_id, fence, error)
        else:
            await self._calls.finish(request_id, fence, result)


def _told(request: Request) -> Told:
    waits = request.state in (State.PENDING, State.APPROVED, State.RUNNING, State.DONE, State.FAILED, State.UNKNOWN)
    return Told(request.id, request.code, str(request.state), "" if waits else str(refusal(request)))


class Session:
    """What the hooks of one session remember of each other."""

    def __init__(self, folder: Path, session: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = folder / f"{sha256(session.encode()).hexdigest()[:32]}.json"

    @contextmanager
    def opened(self) -> Iterator[dict[str, Any]]:
        """`asked`: keys of requests that nobody has used yet, by digest; `begun`: what is to be reported, by call."""
        number = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(number, "r+") as file:
            flock(number, LOCK_EX)
            try:
                known = json.loads(file.read() or "{}")
            except ValueError:
                known = {}  # a process died while it wrote; whatever was asked is then asked again
            held = {"asked": dict(known.get("asked", {})), "begun": dict(known.get("begun", {}))}
            before = json.dumps(held)
            yield held
            if json.dumps(held) != before:
                file.seek(0)
                file.truncate()
                json.dump(held, file)


def call_in(event: Mapping[str, Any]) -> Call:
    """The tool call that the event is about."""
    name, args, session, call = (event.get(each) for each in ("tool_name", "tool_input", "session_id", "tool_use_id"))
    if not isinstance(name, str) or not name or not isinstance(args, Mapping) or not isinstance(session, str):
        raise InvalidArguments("this is no event of Claude Code: tool_name, tool_input or session_id is missing")
    return Call(name, restore(canonical(args)), session, str(call or ""))


async def before(office: Office, event: Mapping[str, Any], folder: Path, *, wait: float, late: str = "deny") -> Json:
    """What Claude Code is told before a call: allow, with the arguments that were approved, or why not.

    After `wait` seconds without a decision it hears `late`; the same call finds the same request again.
    """
    call = call_in(event)
    if call.tool in WITHIN:
        return {}
    session = Session(folder, call.session)
    told, key = await _proposed(office, call, session)
    if told.state == "allowed":
        return _answer("allow", "Assent: it may run.")
    if told.state == str(State.PENDING):
        told = await office.decided(told, wait)
    if told.state == str(State.PENDING):
        return _answer(late, _waiting(told))
    if told.state != str(State.APPROVED):
        _forget(session, call)
        return _answer("deny", f"Assent: {told.says}" if told.says else f"Assent: request {told.code} is {told.state}.")
    try:
        begun = await office.begin(told, call.id or key)
    except Conflict:  # the same call beside this one was faster: an approval is for one of them
        _forget(session, call)
        return await before(office, event, folder, wait=wait, late=late)
    with session.opened() as held:
        held["asked"].pop(call.digest, None)
        held["begun"][call.id] = [begun.id, begun.fence]
    changed = begun.args is not None and canonical(begun.args) != canonical(call.args)
    return _answer("allow", f"Assent: request {begun.code} was approved.", begun.args if changed else None)


async def after(office: Office, event: Mapping[str, Any], folder: Path) -> None:
    """What came of a call that was approved is on record."""
    call = call_in(event)
    with Session(folder, call.session).opened() as held:
        begun = held["begun"].pop(call.id, None)
    if begun is None:
        return
    failed = event.get("hook_event_name") == "PostToolUseFailure"
    error = str(event.get("error") or "it failed")[:20_000] if failed else ""
    result = event.get("tool_response")
    await office.report(begun[0], begun[1], restore(canonical({"response": result}))["response"], error)


def is_to_report(event: Mapping[str, Any], folder: Path) -> bool:
    """Whether anybody waits to hear what came of the call; most calls simply ran."""
    call = call_in(event)
    with Session(folder, call.session).opened() as held:
        return call.id in held["begun"]


async def _proposed(office: Office, call: Call, session: Session) -> tuple[Told, str]:
    """The request of this very call, or the one that the same call made before and nobody has used."""
    fresh = f"{call.session}:{call.id or call.digest}"
    with session.opened() as held:
        known = held["asked"].get(call.digest)
    told = await office.propose(call, known or fresh)
    key = known or fresh
    if known and known != fresh and told.state not in (str(State.PENDING), str(State.APPROVED), str(State.DENIED)):
        told, key = await office.propose(call, fresh), fresh
    if told.state == str(State.PENDING):
        with session.opened() as held:
            held["asked"][call.digest] = key
    return told, key


def _forget(session: Session, call: Call) -> None:
    with session.opened() as held:
        held["asked"].pop(call.digest, None)


def _waiting(told: Told) -> str:
    return (
        f"Assent: request {told.code} waits for a person who has not decided yet, so it did not run. Go on with what "
        "does not need it; to hear the decision, make exactly the same call again later."
    )


def _answer(decision: str, reason: str, args: Mapping[str, Json] | None = None) -> dict[str, Json]:
    said: dict[str, Json] = {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }  # fmt: skip
    if args is not None:
        said["updatedInput"] = dict(args)
        said["additionalContext"] = (
            "A person changed the input of this call before it ran. What really ran is: " + canonical(args)
        )
    return {"hookSpecificOutput": said}


# The settings file


def installed(settings: Mapping[str, Any], command: str, timeout: int) -> dict[str, Any]:
    """The settings with our hooks in them, once."""
    made = removed(settings)
    hooks = made.setdefault("hooks", {})
    for event in EVENTS:
        ours = {"matcher": "*", "hooks": [{"type": "command", "command": command, "timeout": timeout}]}
        hooks[event] = [*hooks.get(event, []), ours]
    return made


def removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without our hooks; whatever else is there stays."""
    made: dict[str, Any] = json.loads(json.dumps(settings))
    hooks = made.get("hooks")
    if not isinstance(hooks, dict):
        return made
    for event in [each for each in hooks if isinstance(hooks[each], list)]:
        groups = [_without_ours(group) for group in hooks[event]]
        hooks[event] = [group for group in groups if group is not None]
        if not hooks[event]:
            del hooks[event]
    if not hooks:
        del made["hooks"]
    return made


def _without_ours(group: Any) -> Any:
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return group
    kept = [each for each in group["hooks"] if not (isinstance(each, dict) and _is_ours(str(each.get("command", ""))))]
    return {**group, "hooks": kept} if kept else None


def _is_ours(command: str) -> bool:
    return command.split()[-2:] == ["hook", AGENT]
