"""YAML text as a tree that remembers its lines, and the reading of plain values from it with complaints.

Nothing here knows what a policy is. Only what JSON can carry is accepted: no anchors, no tags, no dates, no
`yes` that turns into true. Complaints are collected, so that one look at a file finds all of them.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

import yaml

from assentry.core.action import Json
from assentry.core.text import visible
from assentry.errors import InvalidArguments, PolicyError

_NOT_IN_TEXT: re.Pattern[str] = yaml.reader.Reader.NON_PRINTABLE
MAX_BYTES = 1_048_576
MAX_DEPTH = 16
MAX_NODES = 100_000
LONGEST_TEXT = 2_000
MOST_COMPLAINTS = 100
"""More of them at once help nobody, and finding the words for each takes time."""
_MOST_KNOWN = 20
_MOST_COMPARED = 200

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([1-9]\d{0,8})([smhdw])", re.ASCII)
_LONGEST = timedelta(days=3_650)
_INT = re.compile(r"[-+]?\d+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, Json] = {"": None, "~": None, "null": None, "true": True, "false": False}

Lines = dict[tuple[str, str], int]
"""Where a key stands, by rule and key; the policy's own keys stand under the empty name."""

Choice = TypeVar("Choice", bound=Enum)


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document and the line it starts on. Maps hold nodes by key, lists hold nodes."""

    value: Any
    line: int

    @property
    def is_map(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    @property
    def plain(self) -> Json:
        """The value without its lines."""
        if self.is_map:
            return {key: node.plain for key, node in self.value.items()}
        if self.is_list:
            return [node.plain for node in self.value]
        return self.value


@dataclass(slots=True)
class Complaints:
    """Everything that is wrong with a file so far, each with its line."""

    file: str
    found: list[tuple[int, str, str]] = field(default_factory=list)
    warned: list[tuple[int, str, str]] = field(default_factory=list)
    rule: str = ""
    """The rule that is being read, if any: complaints name it."""
    left_out: int = 0
    """Warnings beyond the most that anybody reads."""

    def add(self, line: int, text: str) -> None:
        # A name in the file may hold anything; a complaint is one line.
        self.found.append((line, self.rule, visible(text, lines=False)))
        if len(self.found) > MOST_COMPLAINTS:
            self.raise_if_any()

    @property
    def has_room(self) -> bool:
        """Another warning would be kept, so that its words are worth finding."""
        return len(self.warned) < MOST_COMPLAINTS

    def name(self, rule: str, lines: range) -> None:
        """Lays what was complained about on these lines, before rules were known, at the door of `rule`."""
        self.found = [(line, rule if line in lines and not named else named, text) for line, named, text in self.found]

    def warn(self, line: int, text: str) -> None:
        if self.has_room:
            self.warned.append((line, self.rule, visible(text, lines=False)))
        else:
            self.left_out += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        more = (f"{self.file}:1: and {self.left_out:,} more warnings; correct the first ones",) if self.left_out else ()
        return (*(self._line(each) for each in sorted(self.warned)), *more)

    def raise_if_any(self) -> None:
        if self.found:
            first, *_ = found = sorted(self.found[:MOST_COMPLAINTS])
            lines = tuple(dict.fromkeys(self._line(each) for each in found))
            if len(self.found) > MOST_COMPLAINTS:
                lines += (f"{self.file}:{found[-1][0]}: and more; correct these first",)
            raise PolicyError("\n".join(lines), file=self.file, line=first[0], rule=first[1], complaints=lines)

    def _line(self, complaint: tuple[int, str, str]) -> str:
        line, rule, text = complaint
        named = f"rule {quoted(rule)}: " if rule else ""
        return f"{self.file}:{line}: {named}{text}"


def quoted(text: object) -> str:
    """Text from the file as part of a one-line complaint: short, and nothing invisible in it."""
    shown = str(text)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown) + '"'


def did_you_mean(word: str, known: Iterable[str], before: str = "") -> str:
    """The remedy for a misspelt word: the nearest known one, with what stands `before` it, or all of them."""
    known, word = tuple(known), word[:80]
    # Words of quite another length are never near, and comparing with thousands takes longer than reading the file.
    alike = [each for each in known if 2 * abs(len(each) - len(word)) <= len(word) + len(each)]
    near = get_close_matches(word, alike[:_MOST_COMPARED], 1, 0.6)
    if near:
        return f"did you mean {quoted(before + near[0])}?"
    more = f" and {len(known) - _MOST_KNOWN:,} more" if len(known) > _MOST_KNOWN else ""
    return f"known are {', '.join(known[:_MOST_KNOWN])}{more}"


def read_yaml(text: str, complaints: Complaints) -> Node | None:
    """The document as a tree; `None` for an empty one. Raises `PolicyError` if it is not a document at all."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        complaints.add(1, f"the file is larger than {MAX_BYTES // 1024} KiB; split it or remove what is not policy")
        complaints.raise_if_any()
    builder = _Builder(complaints)
    last = text.count("\n") + 1
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line + 1, last) if mark else 1
        written = text.split("\n")[line - 1] if line <= last else ""
        if "\t" in written[: len(written) - len(written.lstrip())]:
            complaints.add(line, "not valid YAML: the line is indented with a tab; use spaces")
        else:
            remedy = "use spaces instead of tabs" if "\t" in written else "check the indentation and the quotes"
            complaints.add(line, f"not valid YAML: {_one_line(error.problem)}; {remedy}")
    except (yaml.YAMLError, ValueError, ArithmeticError):
        line, character = _forbidden(text)
        complaints.add(line, f"not a text file: it contains {character}; a policy is YAML or JSON in plain UTF-8")
    except _Stop:
        pass
    else:
        return builder.root
    complaints.raise_if_any()
    return None


def _forbidden(text: str) -> tuple[int, str]:
    """The first character that no text file has, and its line."""
    found = _NOT_IN_TEXT.search(text)
    if found is not None:
        return text.count("\n", 0, found.start()) + 1, f"the character U+{ord(found[0]):04X}"
    return 1, "a character that cannot be read"


class _Stop(Exception):
    """Enough was seen to refuse the document."""


class _Builder:
    """Builds the tree from parser events, without recursion, so that depth is a number and not a crash."""

    def __init__(self, complaints: Complaints) -> None:
        self.root: Node | None = None
        self._complaints = complaints
        self._open: list[tuple[Node, str | None]] = []
        self._count = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        match event:
            case yaml.AliasEvent():
                self._stop(line, "anchors and aliases are not allowed; write it out twice")
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._stop(line, "the file holds a second document; keep one and remove the `---`")
            case yaml.ScalarEvent():
                self._put(self._scalar(event, line), line)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                if event.tag is not None or event.anchor is not None:
                    self._stop(line, "tags and anchors are not allowed; remove what starts with ! or &")
                node = Node({} if isinstance(event, yaml.MappingStartEvent) else [], line)
                self._put(node, line)
                self._open.append((node, None))
                if len(self._open) > MAX_DEPTH:
                    self._stop(line, f"nested more than {MAX_DEPTH} deep; nothing in a policy goes that deep")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()

    def _put(self, node: Node, line: int) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            self._stop(line, f"more than {MAX_NODES} values; split the file or remove what is not policy")
        if not self._open:
            self.root = node
            return
        parent, key = self._open[-1]
        if parent.is_list:
            parent.value.append(node)
        elif key is None:
            if node.is_map or node.is_list:
                self._stop(line, "a key must be a word; put quotes around it if it starts with [ or {")
            self._open[-1] = (parent, _key_text(node.value))
        else:
            if key in parent.value:
                first = parent.value[key].line
                self._complaints.add(line, f"{quoted(key)} is set twice, first on line {first}; remove one of them")
            parent.value[key] = node
            self._open[-1] = (parent, None)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Node:
        if event.anchor is not None or (event.tag is not None and event.tag != "!"):
            self._stop(line, "tags and anchors are not allowed; remove what starts with ! or &")
        text = event.value
        if not event.implicit[0]:
            return Node(text, line)
        if text.lower() in _WORDS:
            return Node(_WORDS[text.lower()], line)
        if _NOT_FINITE.fullmatch(text):
            self._complaints.add(line, f"{quoted(text)} is not a finite number; write a number")
            return Node(1, line)  # which fits nearly everywhere, so that there is one complaint
        if _INT.fullmatch(text) and len(text) > 16:
            self._complaints.add(line, "the number is too large; put quotes around it if it is a text")
            return Node(1, line)  # which fits nearly everywhere, so that there is one complaint
        if _INT.fullmatch(text):
            return Node(int(text), line)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                self._complaints.add(line, "the number is too large; write a smaller one")
                return Node(1, line)  # which fits nearly everywhere, so that there is one complaint
            return Node(number, line)
        return Node(text, line)

    def _stop(self, line: int, text: str) -> None:
        self._complaints.add(line, text)
        raise _Stop


def _key_text(value: Json) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_line(text: object) -> str:
    return " ".join(str(text or "it cannot be read").split())[:160]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads plain values from nodes. What does not fit is complained about and read as `None`."""

    complaints: Complaints

    def table(self, node: Node, what: str, known: Collection[str]) -> Mapping[str, Node]:
        """The entries of a map, those with unknown keys complained about and left out."""
        entries = self.entries(node, what)
        for key, each in entries.items():
            if key not in known:
                where = f"{what}: " if "." in what else ""
                self.complaints.add(each.line, f"{where}unknown key {quoted(key)}; {did_you_mean(key, known)}")
        return {key: each for key, each in entries.items() if key in known}

    def entries(self, node: Node, what: str) -> Mapping[str, Node]:
        """The entries of a map whose keys are names."""
        if not node.is_map:
            self._wrong(node, what, "lines of the form `key: value`")
            return {}
        for key, each in node.value.items():
            if not key.strip() or not key.isprintable() or len(key) > LONGEST_TEXT:
                self.complaints.add(each.line, f"{what} has an empty or unreadable name; give it a short plain one")
        return {key: each for key, each in node.value.items() if key.strip()}

    def items(self, node: Node, what: str) -> list[Node]:
        if not node.is_list:
            self._wrong(node, what, "a list, with a line that begins with `-` for each item")
            return []
        return list(node.value)

    def text(self, node: Node, what: str, longest: int = LONGEST_TEXT) -> str | None:
        """A text that is not empty."""
        if node.value is not None and not isinstance(node.value, str):
            self._wrong(node, what, "text, in quotes if it is a number")
            return None
        if node.value is None or not node.value.strip():
            self.complaints.add(node.line, f"{what} is empty; write something or remove the key")
            return None
        if len(node.value) > longest:
            self.complaints.add(node.line, f"{what} has more than {longest} characters; shorten it")
            return None
        if "\0" in node.value:
            self.complaints.add(node.line, f"{what} contains a NUL character; remove it")
            return None
        return node.value

    def texts(self, node: Node, what: str, longest: int = 200) -> tuple[str, ...]:
        """A list of texts, or one text alone."""
        if isinstance(node.value, str):
            one = self.text(node, what, longest)
            return () if one is None else (one,)
        read = [self.text(each, what, longest) for each in self.items(node, what)]
        found = tuple(each for each in read if each is not None)
        if node.is_list and not node.value:
            self.complaints.add(node.line, f"{what} is empty; name at least one or remove the key")
        if len(set(found)) < len(found):
            self.complaints.add(node.line, f"{what} names one twice; remove one of them")
        return tuple(dict.fromkeys(found))

    def flag(self, node: Node, what: str) -> bool | None:
        if isinstance(node.value, bool):
            return node.value
        self._wrong(node, what, "true or false")
        return None

    def whole(self, node: Node, what: str, least: int, most: int) -> int | None:
        if isinstance(node.value, int) and not isinstance(node.value, bool) and least <= node.value <= most:
            return node.value
        self._wrong(node, what, f"a whole number from {least} to {most}")
        return None

    def number(self, node: Node, what: str, least: float, most: float) -> float | None:
        if isinstance(node.value, int | float) and not isinstance(node.value, bool) and least <= node.value <= most:
            return float(node.value)
        self._wrong(node, what, f"a number from {least:g} to {most:g}")
        return None

    def choice(
        self, node: Node, what: str, kinds: type[Choice], allowed: Collection[Choice] | None = None
    ) -> Choice | None:
        """One of the words of an enumeration."""
        words = {str(each.value): each for each in kinds if allowed is None or each in allowed}
        if isinstance(node.value, str) and node.value in words:
            return words[node.value]
        shown = quoted(node.value) if isinstance(node.value, str) else "not a word"
        remedy = did_you_mean(node.value if isinstance(node.value, str) else "", words)
        self.complaints.add(node.line, f"{what} is {shown}; {remedy}")
        return None

    def duration(self, node: Node, what: str, *or_else: str) -> timedelta | None:
        """A duration such as 90s, 15m, 1h, 2d or 1w."""
        found = _DURATION.fullmatch(node.value) if isinstance(node.value, str) else None
        time = timedelta(seconds=int(found[1]) * _UNITS[found[2]]) if found else None
        if time is None or time > _LONGEST:
            others = "".join(f", or {word}" for word in or_else)
            self._wrong(node, what, f"a duration such as 90s, 15m, 1h, 2d or 1w{others}")
            return None
        return time

    def _wrong(self, node: Node, what: str, wanted: str) -> None:
        is_now = "a mapping" if node.is_map else "a list" if node.is_list else "empty" if node.value is None else None
        self.complaints.add(node.line, f"{what} is {is_now or quoted(node.value)}; write {wanted}")


def duration(text: str, what: str) -> timedelta:
    """The duration that `text` spells, as in policy files: 90s, 15m, 8h, 2d or 1w."""
    found = Reader(Complaints("")).duration(Node(text.strip(), 0), what)
    if found is None:
        raise InvalidArguments(f"{what} must be a duration such as 90s, 15m, 8h, 2d or 1w")
    return found


def duration_text(time: timedelta) -> str:
    """The shortest spelling of a duration that `Reader.duration` reads back."""
    seconds = int(time.total_seconds())
    for unit, size in reversed(_UNITS.items()):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
