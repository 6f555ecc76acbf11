"""Other arguments instead: read from `--set` and `--args` or from an editor, checked, and shown as a difference."""

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from assentry.cli import asking
from assentry.cli.fields import Folding, differences
from assentry.cli.print import block, say, section
from assentry.cli.session import can_ask
from assentry.cli.typed_json import mapping, parsed
from assentry.core.action import Json
from assentry.core.advance import phrase
from assentry.core.briefing import Briefing, Difference
from assentry.core.canonical import restore
from assentry.core.decision import Candidate
from assentry.core.kind_words import kind_wanted
from assentry.core.request import Question, Request
from assentry.core.verdict import GateKind
from assentry.engine.inbox import Inbox
from assentry.errors import AssentryError, ConfirmationNeeded, InvalidArguments, InvalidDecision
from assentry.system import editor_command
from assentry.telling.plain import as_json as written
from assentry.telling.plain import one_line

_GUIDE = """\
# Request {code}: change the arguments below, save, and leave the editor.
# Lines that begin with # are ignored. Leave everything as it is, or empty the file, to change nothing.
"""


def arguments(
    inbox: Inbox, request: Request, card: Briefing, sets: list[str], unsets: list[str], text: str, *, edit: bool
) -> dict[str, Json]:
    """The arguments as changed, which fit the action's schema."""
    if edit:
        return edited(inbox, request, card)
    if text:
        return mapping(text, "--args")
    changed = dict(card.args)
    for each in sets:
        name, equals, value = each.partition("=")
        if not equals:
            raise typer.BadParameter("--set wants NAME=VALUE")
        changed[_known(card, name)] = _value(card, name, value)
    for name in unsets:
        changed.pop(_known(card, name), None)
    return changed


def edited(inbox: Inbox, request: Request, card: Briefing) -> dict[str, Json]:
    """The arguments as somebody left them in their editor; it is opened again while they cannot be used."""
    if not can_ask(as_json=False):
        raise InvalidDecision("--edit asks the person at the terminal; a script uses --set or --args")
    complaint, text = "", written(dict(card.args), indent=2)
    while True:
        told = "".join(f"# {line}\n" for line in complaint.splitlines())
        text = _edit(_GUIDE.format(code=card.code) + told + text + "\n")
        if not text.strip():
            raise typer.Abort
        try:
            changed = mapping(text, "what you saved")
            if changed != card.args:
                inbox.changed(request, changed)
        except AssentryError as problem:
            complaint = f"NOT ACCEPTED: {one_line(str(problem))}"
            continue
        if changed == card.args:
            raise typer.Abort
        return changed


def agreed(
    inbox: Inbox,
    request: Request,
    card: Briefing,
    changed: Mapping[str, Json],
    *,
    asks: bool,
    confirm: str,
    as_json: bool,
) -> str:
    """What confirms the change, after the difference was shown and, with `asks`, agreed to by the person."""
    instead = inbox.changed(request, changed)
    if instead.permit_digest == card.digest:
        raise InvalidDecision(f"nothing is different; to let it run as it is: assentry approve {card.code}")
    if not as_json:
        _show_difference(card, restore(instead.args_text))
    wanted = phrase(instead) if instead.verdict.gate is GateKind.MANUAL else ""
    if wanted and not confirm:
        return _typed(wanted, as_json=as_json)
    if asks:
        asking.agreed("modify", _judged(instead))
    return confirm


def an_answer(question: Question | None, text: str, json_text: str) -> Json:
    """The answer to `question`: a value, one of the choices, or the choice with this number."""
    if json_text:
        return parsed(json_text, "--json-value")
    if not text:
        raise InvalidDecision('an answer is needed: assentry answer ID "…"')
    if question is None or text in question.choices:
        return text
    if question.choices:
        return question.choices[int(text) - 1] if text.isdecimal() and 0 < int(text) <= len(question.choices) else text
    kind = (question.schema or {}).get("type")
    return text if kind in (None, "string") else parsed(text, "the answer")


def _show_difference(card: Briefing, changed: Mapping[str, Json]) -> None:
    names = sorted(card.args.keys() | changed.keys())
    found = tuple(
        Difference(name, card.args.get(name), changed.get(name))
        for name in names
        if card.args.get(name) != changed.get(name)
    )
    block(section(f"What changes in request {card.code}", differences(found, Folding(whole=True))))


def _judged(instead: Candidate) -> str:
    return f"It is {instead.assessment.risk} then: {instead.says}"


def _typed(wanted: str, *, as_json: bool) -> str:
    if not can_ask(as_json=as_json):
        raise ConfirmationNeeded(f"this is critical: pass --confirm {wanted!r} to allow it", phrase=wanted)
    say()
    say(f"This is critical. To allow it with these changes, type: {wanted}")
    typed = asking.line("> ")
    if typed != wanted:
        raise ConfirmationNeeded(f"{wanted!r} was not typed, so nothing was decided", phrase=wanted)
    return typed


def _edit(text: str) -> str:
    """The file as it was left, without comment lines. It is pure ASCII: an editor shows nothing hidden."""
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="assentry-") as directory:
        path = Path(directory) / "arguments.json"
        path.write_text(text, encoding="ascii", errors="backslashreplace")
        path.chmod(0o600)
        try:
            left = subprocess.run([*command, str(path)], check=False)  # noqa: S603  the person's own editor
        except OSError:
            raise InvalidDecision(
                f"the editor {command[0]!r} cannot be started; set EDITOR, or use --set or --args"
            ) from None
        if left.returncode:
            raise typer.Abort
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def _known(card: Briefing, name: str) -> str:
    properties = _properties(card)
    if name not in card.args and name not in properties:
        there = ", ".join(sorted({*card.args, *properties})) or "none"
        raise InvalidDecision(f"{card.action} has no argument {name!r}; there are: {there}")
    return name


def _properties(card: Briefing) -> Mapping[str, Any]:
    found = (card.schema or {}).get("properties")
    return found if isinstance(found, Mapping) else {}


def _value(card: Briefing, name: str, text: str) -> Json:
    """The value that `text` stands for: text where text is expected, else JSON."""
    described = _properties(card).get(name)
    wanted = kind_wanted(described)
    kind = described.get("type") if isinstance(described, Mapping) else None
    if kind == "string" or (kind is None and isinstance(card.args.get(name), str)):
        return text
    try:
        return parsed(text, name)
    except InvalidArguments:
        if kind is None:
            return text
        if kind == "array":
            raise InvalidDecision(f"""`{name}` must be {wanted}: --set '{name}=["{text[:40]}"]'""") from None
        if wanted and kind != "object":
            raise InvalidDecision(f"`{name}` must be {wanted}, got text") from None
        raise
