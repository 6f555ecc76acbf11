"""Secrets leave the arguments before anything is stored or shown, and come back only where the action runs.

A secret is hidden where it stands, and wherever else the same text can only be the same secret. Never so that a
reviewer loses sight of what will run: a command that would be hidden with a secret is refused instead.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from assentry.core import argument_kinds as kinds
from assentry.core.action import Json
from assentry.core.canonical import canonical, restore
from assentry.core.command_text import read_shell
from assentry.core.secret_pairs import Pair, secret_pairs
from assentry.core.secret_text import holds_secret, is_secret_key, is_secret_name, secret_texts, secrets_by_kind
from assentry.errors import InvalidArguments
from assentry.ports import Vault

_NUMBER = "⟨secret number "
_MARK = re.compile(r"⟨secret (?:number )?[0-9a-f]{12}(?:, \d+ characters)?⟩")
_NONE: Mapping[str, str] = MappingProxyType({})
_SPACE = re.compile(r"\s")
_WORTH_SEARCHING = 6
"""A declared secret this long is also looked for in the other arguments; a shorter one would be found in every word."""
_MOST_SOUGHT = 100
_TOKEN = re.compile(r"(?=\S*[A-Za-z])(?=\S*\d)[^\s/]\S{7,}")
"""What can only be a secret, also in the middle of a program."""


def sealed(
    vault: Vault, context: str, args: Mapping[str, Json], declared: Collection[str], known: Mapping[str, str] = _NONE
) -> tuple[dict[str, Json], dict[str, str]]:
    """The arguments with every secret replaced by its fingerprint, and the secrets, encrypted, by placeholder.

    `known` are placeholders that may stand in the arguments already.
    """
    sealing = _Sealing(vault, context, known)
    sealing.collect(args, declared)
    if not sealing.anywhere and not sealing.in_place:
        return dict(args), {}
    _refuse_marks(args, known)
    clean = {sealing.name(name): sealing.value(name, value, name in declared) for name, value in args.items()}
    return clean, sealing.found


def holds_marks(args: Json) -> bool:
    """Somewhere in it stands the mark of a secret that is not there itself."""
    return any(_MARK.search(text) for text in _texts(args))


def marks_in(text: str) -> list[str]:
    """The marks of secrets that stand in it."""
    return _MARK.findall(text)


def no_secret(what: str, name: str) -> str:
    """`name`, which is kept and shown as it is, or an error, without it, where it looks like a secret."""
    if holds_secret(name):
        raise InvalidArguments(
            f"the {what} contains what looks like a secret, and it is stored and logged as it is; choose another"
        )
    return name


@dataclass(slots=True)
class _Sealing:
    vault: Vault
    context: str
    known: Mapping[str, str]
    found: dict[str, str] = field(default_factory=dict)
    anywhere: set[str] = field(default_factory=set)
    """Texts that are secrets wherever they stand."""
    shaped: frozenset[str] = frozenset()
    """Those of them that show it by their shape."""
    in_place: bool = False
    """Some field as a whole is a secret."""
    _pattern: re.Pattern[str] | None = None

    def collect(self, args: Mapping[str, Json], declared: Collection[str]) -> None:
        for name in declared:
            value = args.get(name)
            self.in_place = self.in_place or value not in (None, "", False, True)
            if isinstance(value, str) and len(value) >= _WORTH_SEARCHING:
                self.anywhere.add(value)
        for name, text in _leaves(args):
            if is_secret_key(name, text) if isinstance(text, str) else is_secret_name(name):
                self.in_place = True
                if isinstance(text, str) and _TOKEN.fullmatch(text):
                    self.anywhere.add(text)
        self.shaped = frozenset(secret_texts(args, named=False))
        self.anywhere |= self.shaped
        self.anywhere -= self.known.keys()

    def value(self, name: str, value: Json, secret: bool) -> Any:
        """`value`, which stands in a field called `name`, without secrets."""
        match value:
            case bool() | None:
                return value
            case str():
                if value and value not in self.known and (secret or is_secret_key(name, value)):
                    return self._mark(value)
                return self._text(name, value)
            case int() | float() | Decimal():
                return self._number(value) if secret or is_secret_name(name) else value
            case Mapping():
                inner = secret or is_secret_name(name)
                return {self._text("", key): self.value(key, item, inner) for key, item in value.items()}
            case list() | tuple():
                return [self.value(name, item, secret) for item in value]
            case _:
                return value

    def name(self, name: str) -> str:
        """The name of an argument; an ordinary word stays in sight though some secret is the same word."""
        if any(text in name and (text in self.shaped or _TOKEN.fullmatch(text)) for text in self.anywhere):
            return self._without(name)
        return name

    def _text(self, name: str, text: str) -> str:
        clean = self._without(text)
        if clean != text and kinds.of(name) & kinds.PROGRAM:
            self._refuse_hidden_programs(name, text, clean)
        return clean

    def _refuse_hidden_programs(self, name: str, text: str, clean: str) -> None:
        """What will run must be in sight: in a program only what can be nothing but a secret may be hidden."""
        for secret in self.anywhere:
            if secret in text and not _TOKEN.fullmatch(secret) and (secret not in self.shaped or _SPACE.search(secret)):
                break
        else:
            if not any("⟨" in program for program in read_shell(clean).programs):
                return
        raise InvalidArguments(
            f"a secret stands in {name} where hiding it would hide what runs; pass it in another way, such as through "
            "the environment"
        )

    def _without(self, text: str) -> str:
        if not self.anywhere:
            return text
        if self._pattern is None:
            self._pattern = _any_of(self.anywhere)
        return self._pattern.sub(lambda secret: self._mark(secret[0]), text)

    def _mark(self, text: str) -> str:
        mark = _mark(self.vault, text)
        if mark not in self.found:
            self.found[mark] = self.vault.seal(self.context, text)
        return mark

    def _number(self, value: float | Decimal) -> str:
        text = _written(value)
        mark = _number_mark(self.vault, text)
        self.found[mark] = self.vault.seal(self.context, text)
        return mark


def unsealed(vault: Vault, context: str, args: Json, found: Mapping[str, str]) -> Any:
    """The arguments as they were, wherever a placeholder still stands."""
    if not found:
        return args
    if isinstance(args, str):
        if args.startswith(_NUMBER) and args in found:
            return restore(vault.unseal(context, found[args]))
        return _MARK.sub(lambda mark: vault.unseal(context, found[mark[0]]) if mark[0] in found else mark[0], args)
    if isinstance(args, Mapping):
        return {
            unsealed(vault, context, key, found): unsealed(vault, context, value, found) for key, value in args.items()
        }
    if isinstance(args, list):
        return [unsealed(vault, context, value, found) for value in args]
    return args


def redacted(vault: Vault, value: Json, known: Iterable[str] = ()) -> Any:
    """`value` without secrets, for records that nobody needs to turn back.

    What a name says is a secret is hidden where it stands, also in a text that holds data; what can only be that secret
    is hidden wherever it stands. Of very many, which take very long to look for, only the longest are looked for
    elsewhere, and a text that is full of what can only be secrets is hidden as a whole.
    """
    named, shaped = secrets_by_kind({"value": value})
    pairs = {text: found for text in _texts(value) if (found := tuple(secret_pairs(text)))}
    named.update(
        pair.secret for found in pairs.values() for pair in found if not pair.is_inside or _TOKEN.fullmatch(pair.secret)
    )
    is_dump = len(shaped) > _MOST_SOUGHT
    sought = {text for text in known if text} | (set() if is_dump else shaped)
    elsewhere = [each for each in named if len(each) >= _WORTH_SEARCHING and not _MARK.fullmatch(each)]
    sought.update(sorted(elsewhere, key=lambda text: (-len(text), text))[:_MOST_SOUGHT])
    marks: dict[str, str] = {}
    for text in sought:
        for spelling in (text, repr(text)[1:-1], json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            marks[spelling] = _mark(vault, text)
    pattern = re.compile(f"{_MARK.pattern}|{_any_of(marks).pattern}") if marks else None
    return _Redaction(vault, pairs, marks, pattern, is_dump).value(value)


@dataclass(frozen=True, slots=True)
class _Redaction:
    vault: Vault
    pairs: Mapping[str, tuple[Pair, ...]]
    """What names tell inside of texts."""
    marks: Mapping[str, str]
    """What stands for a secret, wherever that stands."""
    pattern: re.Pattern[str] | None
    is_dump: bool
    """There are so many secrets that every text with one in it is hidden as a whole."""

    def value(self, value: Any, key: str = "") -> Any:
        """`value`, which stands in a field called `key`; inside a field made for secrets everything is one."""
        if isinstance(value, str):
            hidden = is_secret_key(key, value) and not _MARK.fullmatch(value)
            return _mark(self.vault, value) if hidden else self.text(value)
        if isinstance(value, Mapping):
            inside = key if is_secret_name(key) else ""
            return {self.text(name): self.value(item, inside or name) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, key) for item in value]
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and is_secret_name(key):
            return _number_mark(self.vault, _written(value))
        return value

    def text(self, text: str) -> str:
        """`text`; the rest of it is not touched."""
        if self.is_dump and holds_secret(text):
            return _mark(self.vault, text)
        parts, at = [], 0
        for pair in self.pairs.get(text, ()):
            hidden = _mark(self.vault, pair.secret) if not pair.quote else self._number(pair.secret, pair.quote)
            if not _MARK.fullmatch(pair.secret):
                parts += [self._everywhere(text[at : pair.start]), hidden]
                at = pair.end
        return "".join((*parts, self._everywhere(text[at:])))

    def _everywhere(self, text: str) -> str:
        """`text` without what can only be a secret; a mark that stands in it already is left alone."""
        if self.pattern is None:
            return text
        return self.pattern.sub(lambda found: self.marks.get(found[0], found[0]), text)

    def _number(self, digits: str, quote: str) -> str:
        with suppress(ValueError):  # it may be no number after all; it is hidden all the same
            digits = _written(json.loads(digits))
        return f"{quote}{_number_mark(self.vault, digits)}{quote}"


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds each of them; the longest first, so that none is found inside another, and marks are left alone."""
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text))))


def _leaves(value: Json, name: str = "") -> list[tuple[str, Any]]:
    """Every text and number with the name of its field; inside a field made for secrets everything has that name."""
    found: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any]] = [(name, value)]
    while waiting:
        key, item = waiting.pop()
        if isinstance(item, Mapping):
            waiting.extend((key if is_secret_name(key) else str(inner), each) for inner, each in item.items())
        elif isinstance(item, list | tuple):
            waiting.extend((key, each) for each in item)
        elif item not in ("", None) and not isinstance(item, bool):
            found.append((key, item))
    return found


def _texts(value: Json) -> Iterator[str]:
    """Every text in it, and every name."""
    waiting: list[Json] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting.extend((*item, *item.values()))
        elif isinstance(item, list | tuple):
            waiting.extend(item)


def _refuse_marks(args: Json, known: Mapping[str, str]) -> None:
    """Text that looks like our own mark for a secret would be taken for one."""
    for text in _texts(args):
        if any(mark not in known for mark in _MARK.findall(text)):
            raise InvalidArguments(
                "the arguments contain text that looks like Assentry's own mark for a secret; leave it out"
            )


def _mark(vault: Vault, text: str) -> str:
    """What stands for a secret: equal ones look equal, and how much is hidden can be seen."""
    return f"⟨secret {vault.fingerprint(text)[:12]}, {len(text)} characters⟩"


def _written(number: float | Decimal) -> str:
    return canonical(number) if isinstance(number, Decimal) else json.dumps(number)


def _number_mark(vault: Vault, text: str) -> str:
    return f"{_NUMBER}{vault.fingerprint(text)[:12]}⟩"
