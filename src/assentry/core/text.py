"""Text for people: hostile characters made visible, templates that can only read arguments, numbers of
things and spans of time. The line for an action without a template is made in `title`."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from string import Formatter

from assentry.core.action import Fact, Json
from assentry.core.names import many_of, one_of
from assentry.errors import GuardError

_KEPT = {"\n", "\t"}
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_HIDDEN_LETTERS = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f"}
_MARKS = {"Mn", "Me"}
_MOST_MARKS = 3
_WORD = re.compile(r"\w+")
_TWINS = frozenset("аеорсухіјѕһԁԛԝӏАВЕКМНОРСТХІЈЅοαινρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")  # noqa: RUF001
"""Letters of other scripts that cannot be told from Latin ones."""
_NOUN = re.compile(r"^( )([a-z]+)\b")
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


_OPENERS = frozenset(
    """a all an and another any as at because both critical dangerous each every from here if in it its more most no
    nobody none not nothing of one only other others our people risky safe silence since so somebody someone that the
    their there these they this to under until what when where which while who whoever with without you your""".split()
)


def sentence(text: str) -> str:
    """`text` with a capital letter where it begins with one of our own small words; data keeps its letters."""
    first, space, _ = text.partition(" ")
    return text[0].upper() + text[1:] if space and first in _OPENERS else text


def shortened(text: str, limit: int) -> str:
    """`text` cut to `limit` characters, saying how much is left out."""
    if len(text) <= limit:
        return text
    cut = f"\u2026 {len(text):,} more characters"
    kept = max(0, limit - len(cut))
    return f"{text[:kept]}\u2026 {len(text) - kept:,} more characters"


def template_fields(template: str) -> tuple[str, ...]:
    """The names a template reads; an error says what is wrong with it."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as problem:
        raise GuardError(f"the template {template!r} cannot be read: {problem}; write {{{{ for a brace") from None
    return tuple(field for _, field, _, _ in parts if field is not None)


def render(template: str, args: Mapping[str, Json], facts: Sequence[Fact] = ()) -> str:
    """The template with arguments filled in as inert, shortened text: `{to.count}` counts, `{facts.x}` is a fact.

    A plural that follows a count of one becomes a singular: `{to.count} people` is `1 person`.
    """
    known = {fact.name: fact.says for fact in facts}
    pieces: list[str] = []
    is_one = False
    for literal, field, _, _ in Formatter().parse(template):
        pieces.append(_NOUN.sub(lambda found: found[1] + one_of(found[2]), literal, count=1) if is_one else literal)
        is_one = False
        if field is not None:
            head, _, rest = field.partition(".")
            value = known.get(rest, "?") if head == "facts" else _read(args.get(head), rest)
            is_one = rest.endswith("count") and head != "facts" and value == 1
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


def counted(number: int | float | Decimal, noun: str) -> str:
    """A number of things: `1 file`, `847 files`, `2 people`. Of several words, the last is the noun."""
    shown = f"{number:,}" if isinstance(number, int) else f"{Decimal(str(number)).normalize():,f}"
    before, space, last = noun.rpartition(" ")
    return f"{shown} {before}{space}{one_of(last) if number == 1 else many_of(last)}"


_UNITS = ((86400, "day", "days"), (3600, "h", "h"), (60, "min", "min"))
LEAST = "less than 1 s"


def span(duration: timedelta) -> str:
    """A span of time, rounded, as people say it: `40 s`, `12 min`, `1 h`, `90 min`, `2 days`.

    From two of a unit on it is said in that unit, and where it rounds to exactly one. `static/clock.js` does the same.
    """
    seconds = max(0.0, duration.total_seconds())
    if seconds < 1:
        return LEAST
    for place, (size, one, many) in enumerate(_UNITS):
        smaller = _UNITS[place + 1][0] if place + 1 < len(_UNITS) else 1
        whole = _rounded(seconds / smaller) * smaller
        if whole == size or whole >= 2 * size:
            number = _rounded(seconds / size)
            return f"{number} {one if number == 1 else many}"
    return f"{_rounded(seconds)} s"


def _rounded(number: float) -> int:
    """To the nearest whole number; what lies in the middle goes up, unlike with `round`."""
    return int(number + 0.5)


def ago(duration: timedelta) -> str:
    """How long something is past: `12 min ago`, or `just now`."""
    return "just now" if duration.total_seconds() < 1 else f"{span(duration)} ago"


def left(duration: timedelta) -> str:
    """How long there still is: `38 min left`, or `time is up`."""
    return f"{span(duration)} left" if duration > timedelta(0) else "time is up"


def exact_span(duration: timedelta) -> str:
    """The same without rounding: `1 h 30 min`."""
    left, parts = int(duration.total_seconds()), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"
