"""Claude Code's hooks: a tool call is proposed before it runs, and what came of it is reported after it ran.

Claude Code starts a process for each event, tells it what happens on standard input, and does what it answers.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assentry.adapters.tool_calls import kept, whole
from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.engine.errands import Errand, Errands, Notebook, begun, changed_words, forget, proposed, waits
from assentry.errors import AssentryError, InvalidArguments

AGENT = "claude-code"
REPORTED = ("PostToolUse", "PostToolUseFailure")
EVENTS = ("PreToolUse", *REPORTED)

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


OTHERWISE = "Another hook changed the input of this call after it was let go: what ran is not what was approved."


def errand_in(event: Mapping[str, Any]) -> Errand:
    """The tool call that the event is about, in words that a policy knows."""
    name, args = event.get("tool_name"), event.get("tool_input")
    if not isinstance(name, str) or not name or not isinstance(args, Mapping) or not _session(event):
        raise InvalidArguments("this is no event of Claude Code: tool_name, tool_input or session_id is missing")
    plain = restore(canonical(args))
    if name in BUILT_IN:
        action, description = BUILT_IN[name]
        return Errand(action, plain, name, description, trusted=True)
    _, server, tool = name.split("__", 2) if name.startswith("mcp__") and name.count("__") > 1 else ("", "", name)
    return Errand(tool, plain, name, f"A tool of the MCP server {server}." if server else "")


def _session(event: Mapping[str, Any]) -> str:
    session = event.get("session_id")
    return session if isinstance(session, str) else ""


def _call(event: Mapping[str, Any]) -> str:
    """Claude Code's name for the call; where it gives none, what it is about."""
    return str(event.get("tool_use_id") or errand_in(event).digest)


async def before(errands: Errands, event: Mapping[str, Any], folder: Path, *, wait: float, late: str = "deny") -> Json:
    """What Claude Code is told before a call: allow, with the arguments that were approved, or why not.

    After `wait` seconds without a decision it hears `late`; the same call finds the same request again.
    """
    errand, session, call = errand_in(event), _session(event), _call(event)
    if errand.name in WITHIN:
        return {}
    notebook = Notebook(folder, session)
    told = await proposed(errands, errand, notebook, f"{session}:{call}")
    if told.simply_runs:
        return _answer("allow", "Assentry: it may run.")
    if told.waits:
        told = await errands.decided(told, wait)
    if told.waits:
        return _answer(late, f"Assentry: {waits(told)}")
    if not told.may_begin:
        forget(notebook, errand)
        return _answer("deny", f"Assentry: {told.says.rstrip('.')}.")
    began = await begun(errands, errand, notebook, told, call)
    if began is None:
        return await before(errands, event, folder, wait=wait, late=late)
    changed = began.args is not None and canonical(began.args) != canonical(errand.args)
    return _answer("allow", f"Assentry: request {began.code} was approved.", began.args if changed else None)


async def after(errands: Errands, event: Mapping[str, Any], folder: Path) -> Json:
    """What came of a call that was approved is on record; Claude is told where that is not what was approved."""
    notebook, call = Notebook(folder, _session(event)), _call(event)
    found = notebook.look().begun.get(call)
    if found is None:
        return {}
    request_id, fence, let_go = found
    name = event.get("hook_event_name")
    error = whole(str(event.get("error") or "it failed")[:20_000]) if name == "PostToolUseFailure" else ""
    is_other = _digest(event) != let_go
    if is_other:
        error = f"{OTHERWISE} {error}".rstrip()
    await errands.report(request_id, fence, kept(event.get("tool_response")), error)
    with notebook.opened() as noted:
        noted.begun.pop(call, None)
    if not is_other:
        return {}
    told = f"Assentry: {OTHERWISE} It is on record as failed. Tell whoever you work for."
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": told}}


def _digest(event: Mapping[str, Any]) -> str:
    """Of what ran, as far as it can be read."""
    try:
        return errand_in(event).digest
    except AssentryError:
        return ""


def is_to_report(event: Mapping[str, Any], folder: Path) -> bool:
    """Whether anybody waits to hear what came of the call; most calls simply ran."""
    with Notebook(folder, _session(event)).opened() as noted:
        return _call(event) in noted.begun


def _answer(decision: str, reason: str, args: Mapping[str, Json] | None = None) -> dict[str, Json]:
    said: dict[str, Json] = {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }  # fmt: skip
    if args is not None:
        said |= {"updatedInput": dict(args), "additionalContext": changed_words(args)}
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
