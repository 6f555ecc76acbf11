"""Text for people: hostile characters made visible, templates that can only read arguments, spans of time."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import timedelta
from string import Formatter

from assentry.core.action import Fact, Json
from assentry.errors import GuardError

_KEPT = {"\n", "\t"}
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_HIDDEN_LETTERS = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f"}
_MARKS = {"Mn", "Me"}
_MOST_MARKS = 3
_WORD = re.compile(r"\w+")
_TWINS = frozenset("аеорсухіјѕһԁԛԝӏАВЕКМНОРСТХІЈЅοαινρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")  # noqa: RUF001
"""Letters of other scripts that cannot be told from Latin ones."""
_COMMANDS = ("command", "cmd", "commandline", "argv")
_LOOKALIKE_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL")


def visible(text: str, *, lines: bool = True) -> str:
    """`text` with every control, format, private and invisible character spelled out, so nothing can hide.

    Line breaks and tabs stay if `lines`; spaces other than the ordinary one are spelled out too.
    """
    if text.isascii() and text.isprintable():
        return text
    # Each different character is looked at once, however long the text is.
    used = set(text)
    shown = text.translate({ord(char): _spelled(char) for char in used if not _is_plain(char, lines)})
    marks = "".join(char for char in used if unicodedata.category(char) in _MARKS)
    return _without_piles(shown, marks) if marks else shown


def _without_piles(text: str, marks: str) -> str:
    """No letter carries more marks than a language would put on it: a pile of them hides the lines around it."""
    one = f"[{re.escape(marks)}]"
    pile = re.compile(f"({one}{{{_MOST_MARKS}}})({one}+)")
    return pile.sub(lambda found: found[1] + "".join(map(_spelled, found[2])), text)


def _is_plain(char: str, lines: bool) -> bool:
    if char in _KEPT:
        return lines
    category = unicodedata.category(char)
    if category in _HIDDEN_CATEGORIES or char in _HIDDEN_LETTERS or "\ufe00" <= char <= "\ufe0f":
        return False
    return category != "Zs" or char == " "


def _spelled(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


def lookalikes(text: str) -> tuple[str, ...]:
    """Words in `text` that could be taken for others: of Latin and other letters mixed, or only of letters that pass
    for Latin ones where no other word shows that the text is in that language."""
    if text.isascii():
        return ()
    foreign = [word for word in dict.fromkeys(_WORD.findall(text)) if not word.isascii()]
    mixed = [word for word in foreign if _mixes_scripts(word)]
    twins = [word for word in foreign if (letters := {char for char in word if char.isalpha()}) and letters <= _TWINS]
    honest = len(foreign) > len(mixed) + len(twins)
    return tuple(mixed if honest else mixed + [word for word in twins if len(word) > 1])


def _mixes_scripts(word: str) -> bool:
    names = [unicodedata.name(char, "") for char in word if char.isalpha()]
    return any(name.startswith("LATIN") for name in names) and any(
        name.startswith(_LOOKALIKE_SCRIPTS) for name in names
    )


def shortened(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, saying that it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def template_fields(template: str) -> tuple[str, ...]:
    """The names a template reads; an error says what is wrong with it."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as problem:
        raise GuardError(f"the template {template!r} cannot be read: {problem}; write {{{{ for a brace") from None
    return tuple(field for _, field, _, _ in parts if field is not None)


def render(template: str, args: Mapping[str, Json], facts: Sequence[Fact] = ()) -> str:
    """The template with arguments filled in as inert, shortened text: `{to.count}` counts, `{facts.x}` is a fact."""
    known = {fact.name: fact.says for fact in facts}
    pieces = []
    for literal, field, _, _ in Formatter().parse(template):
        pieces.append(literal)
        if field is not None:
            head, _, rest = field.partition(".")
            value = known.get(rest, "?") if head == "facts" else _read(args.get(head), rest)
            pieces.append(visible(shortened(_told(value), 120), lines=False))
    return "".join(pieces)


def _read(value: Json, path: str) -> Json:
    for part in filter(None, path.split(".")):
        if part == "count" and isinstance(value, (list, dict, str)):
            value = len(value)
        elif isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and _is_place(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return "?"
    return value


def _is_place(part: str) -> bool:
    """Only what `int` reads: other scripts have digits that it does not."""
    return part.isascii() and part.isdigit() and len(part) < 9


def _told(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(_told(item) for item in value[:5]) + (f" and {len(value) - 5} more" if len(value) > 5 else "")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "nothing" if value is None else str(value)


def default_line(name: str, facts: Sequence[Fact], args: Mapping[str, Json] | None = None) -> str:
    """A plain line for an action that brings no template: its name in words, its command, and the facts that matter."""
    words = visible(name.replace("_", " ").replace(".", " "), lines=False)
    told = [
        fact.says for fact in facts if fact.name in ("count", "bytes", "amount", "recipients", "environment", "paths")
    ]
    line, known = words[:1].upper() + words[1:], visible(", ".join(told[:3]), lines=False)
    if command := _command_in(args or {}):
        shown = visible(shortened(command, 120), lines=False)
        return f"{line} ({known}): {shown}" if known else f"{line}: {shown}"
    return f"{line}: {known}" if known else line


def _command_in(args: Mapping[str, Json]) -> str:
    """What a shell would be told to do; without it, a line about a command says nothing."""
    for name in _COMMANDS:
        value = args.get(name)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = " ".join(value[:50])
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def span(duration: timedelta) -> str:
    """A span of time as people say it: `40 s`, `12 min`, `3 h`, `2 days`."""
    seconds = max(0, int(duration.total_seconds()))
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def exact_span(duration: timedelta) -> str:
    """The same without rounding: `1 h 30 min`."""
    left, parts = int(duration.total_seconds()), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
