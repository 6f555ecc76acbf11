"""The first line of a request whose operator wrote no `says=`: what is done, how much of it, to what, and where.

Which argument is the target follows from the names of the arguments alone, never from their order or values, so that
the same call has the same title everywhere. Values are data: shown letter by letter, quoted where they are more than
one plain word, and cut with a mark. Templates are filled in by `text.render`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import islice

from assentry.core import argument_kinds as kinds
from assentry.core.action import Fact, Json
from assentry.core.facts import sends
from assentry.core.names import one_of, singular, split_name, words
from assentry.core.place_text import ALARMING, environment_in, path_marks
from assentry.core.text import shortened, visible

LONGEST_VALUE = 80
LONGEST_TEXT = 120
"""Of a command or a statement, which stands last."""
LONGEST_TITLE = 200
"""Without what stands behind the colon, which may be as long as a text."""
_LONGEST_WORD = 20
_MOST_NAMED = 3
_MOST_IN_ALL = 90
_MOST_LOOKED_AT = 200

_IDENTIFIES = frozenset(
    """id name key number no slug uuid guid sku ref reference handle code identifier path file filename url uri address
    email title subject""".split()
)
"""What stands behind a noun in the name of an argument that says which one: `order_id`, `pod_name`."""
_BY_ITSELF = tuple(
    """id uuid guid identifier sku slug key name ref reference number handle path file filename url uri""".split()
)
"""The same where it is the whole name of an argument, in the order in which they count."""
_HEADLINES = ("title", "subject", "summary")
"""What is made new is often known by nothing else."""
_PLACES = tuple(
    """table collection dataset queue topic folder directory dir root cwd workdir bucket repo repository channel
    calendar board list namespace project schema database db service app application cluster region zone
    workspace account tenant organization organisation org environment env stage""".split()
)
"""Where it happens, the narrowest first; the first that is given is named."""
_ENVIRONMENTS = frozenset("environment env stage region zone".split())
_PREPOSITIONS = frozenset("to from in into on onto for with of at as by".split())
_SOURCES = frozenset("source src from".split())
_GOALS = frozenset("destination dest dst to into onto".split())
_NO_TARGET = (
    kinds.AMOUNT | kinds.CURRENCY | kinds.COUNT | kinds.SIZE | kinds.PROSE | kinds.RAW | kinds.SECRET | kinds.FLAG
    | kinds.OPERATION | kinds.PROGRAM | kinds.SENDER | kinds.EVERYTHING
)  # fmt: skip
_NEVER = frozenset(
    """reason why note force dry mode format type kind status state priority version limit offset cursor timeout
    encoding locale lang timezone tz date time at since until before after when start end due currency unit
    token""".split()
)
_CODE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.\-/:]+[A-Za-z0-9]+)*_*")
_PLAIN = re.compile(r"[^\W_][\w.@/\\~+#:-]*|[~/.][\w./\\~+@:-]*")
"""One word that needs no quotes: an id, an address, a path, a host."""

_NOUN, _ALONE, _HEADLINE, _TARGET, _TEXT, _PLACE = range(6)
"""How well the name of an argument says what the call acts on, best first."""


def default_title(name: str, facts: Sequence[Fact], args: Mapping[str, Json]) -> str:
    """The line for an action that brings no template."""
    return _Title(name, facts, args).line


class _Title:
    """One title while it is put together."""

    def __init__(self, name: str, facts: Sequence[Fact], args: Mapping[str, Json]) -> None:
        self.name = split_name(name)
        self.facts = {fact.name: fact for fact in reversed(facts) if not fact.looked_up}
        given = {key: args[key] for key in sorted(islice(args, _MOST_LOOKED_AT))}
        self.spared = {key: value for key, value in given.items() if kinds.is_left_out(key, self.name.tokens)}
        self.args = {key: value for key, value in given.items() if key not in self.spared}
        self.texts = {key: value for key, value in given.items() if kinds.of(key) & kinds.PROGRAM and _is_text(value)}
        self.used: set[str] = set()
        self.tail: list[str] = []
        self.measures({fact.name: fact for fact in facts if fact.looked_up})
        head = self.head(name)
        said = " ".join(each for each in (head, *self.between(), self.recipients(), self.place()) if each)
        self.one_more()
        if not self.used:
            self.tail += self.left_out()
        program = self.program()
        said, tail = shortened(said, LONGEST_TITLE), shortened(", ".join(self.tail), LONGEST_TEXT)
        known = f" ({tail})" if tail and program else f": {tail}" if tail else ""
        self.line = said + known + (f": {program}" if program else "")

    def head(self, name: str) -> str:
        """The action's name in words, how many and which ones behind the nouns that they belong to."""
        if not _CODE_NAME.fullmatch(name):
            self.used |= self.best()
            return _shown(name)
        said = list(words(name))
        said = said[1:] if len(said) > 1 and said[0] == "mcp" else said
        line, of_noun, which = list(said), self.of_nouns(), ""
        best = self.best() if not of_noun else set()
        self.used |= best
        for key in best:
            noun = _stem(key)[-1]
            by_noun = self.rank(key) not in (_ALONE, _HEADLINE) and noun not in said
            which = f"{noun} {self.value(key)}" if by_noun else self.value(key)
            if self.rank(key) == _HEADLINE:
                which = _quoted(str(self.args[key]))
            elif by_noun and self.name.nouns:
                self.tail.append(which)
                which = ""
        number = self.count()
        spots = {one_of(word): spot for spot, word in enumerate(said)}
        for noun, key in of_noun.items():
            line[spots[noun]] += f" {self.value(key)}"
        spot = spots.get(one_of(self.name.nouns[-1]), -1) if self.name.nouns else -1
        if _PREPOSITIONS.isdisjoint(said[spot + 1 :]):
            spot = len(said) - 1
        if number:
            counted, _, noun = number.partition(" ")
            if spot and one_of(said[spot]) == one_of(noun):
                line[spot] = f"{counted} {noun}{line[spot].removeprefix(said[spot])}"
            else:
                self.tail.append(number)
        if which:
            line[spot] += f" {which}"
        text = " ".join(line)
        self.tail += self.listed()
        return text[:1].upper() + text[1:]

    def of_nouns(self) -> dict[str, str]:
        """The arguments that belong to a noun of the name, such as `order_id` in `cancel_order`."""
        found: dict[str, str] = {}
        nouns = self.name.nouns or self.name.verbs
        for key in self.args:
            if self.rank(key) == _NOUN and (noun := one_of(_stem(key)[-1])) in {one_of(each) for each in nouns}:
                # `order_id` before `order`, whatever stands first.
                found[noun] = min(found.get(noun, key), key, key=lambda each: (len(words(each)) == 1, each))
        self.used |= set(found.values())
        return found

    def best(self) -> set[str]:
        """The one argument whose name ranks first; of equals, the first in the order of the tables, then by name."""
        ranked = [(rank, _order(key), key) for key in self.args if (rank := self.rank(key)) is not None]
        return {min(ranked)[2]} - self.used if ranked else set()

    def rank(self, key: str) -> int | None:
        """How well the name of an argument says that it is the target; nothing means never."""
        value, kind, stem = self.args[key], kinds.of(key), _stem(key)
        if not stem or not _is_plain(value) or kind & (kinds.SECRET | kinds.FLAG):
            return None
        parts = words(key)
        if kind & kinds.LISTED and not isinstance(value, str):
            return None
        if len(parts) == 1 and parts[0] in _HEADLINES:
            return _HEADLINE
        if parts[0] in _SOURCES | _GOALS or kind & _NO_TARGET:
            return None
        if stem[-1] in (self.name.nouns or self.name.verbs):
            return _NOUN
        if len(parts) == 1 and parts[0] in _BY_ITSELF:
            return _ALONE
        if kind & kinds.RECIPIENT or not _NEVER.isdisjoint(parts) or not _speakable(stem[-1]):
            return None
        if stem[-1] in _PLACES:
            return _PLACE if not self.name.nouns and stem[-1] not in _ENVIRONMENTS else None
        if kind & kinds.TARGET or len(stem) < len(parts):
            return _TARGET
        return _TEXT if type(value) is str and not kind & kinds.NOT_COUNTED else None

    def one_more(self) -> None:
        """What else the call names, such as the user whom a ticket is given to."""
        ranked = [(rank, key) for key in self.args if key not in self.used and (rank := self.rank(key)) is not None]
        rank, key = min(ranked, default=(_PLACE, ""))
        if rank in (_TARGET, _TEXT):
            self.used.add(key)
            self.tail.append(f"{_stem(key)[-1]} {self.value(key)}")

    def between(self) -> Iterator[str]:
        """From where and to where, unless addresses say so."""
        for word, names in (("from", _SOURCES), ("to", _GOALS)):
            for key in self.args:
                kind, parts = kinds.of(key), words(key)
                if not parts or parts[0] not in names or kind & (kinds.SENDER | kinds.SECRET):
                    continue
                if _is_plain(self.args[key]) and not (kind & kinds.RECIPIENT and "recipients" in self.facts):
                    self.used.add(key)
                    yield f"{word} {self.value(key)}"
                    break

    def count(self) -> str:
        """How many, where that is not only how many are written to."""
        fact = self.facts.get("count")
        if fact is None or (fact.says.endswith(("recipient", "recipients")) and "recipients" in self.facts):
            return ""
        return fact.says

    def listed(self) -> Iterator[str]:
        """The first of those that are counted, and how many more there are."""
        count = self.facts["count"].value if "count" in self.facts else None
        lists = [key for key, items in self.args.items() if isinstance(items, list) and self.may_list(key)]
        for key in sorted(lists, key=lambda each: len(self.args[each]) != count):
            items = self.args[key]
            named = kinds.TARGET | kinds.PATH | (kinds.LISTED if count is None and self.spared else 0)
            if len(items) != count and not kinds.of(key) & named:
                continue
            shown = [self.shown(key, item) for item in items[:_MOST_NAMED] if _is_plain(item)]
            if shown:
                self.used.add(key)
                yield _few(shown, len(items))
            return

    def left_out(self) -> Iterator[str]:
        """What is left alone, under its own name, where nothing says what is not."""
        for key, value in self.spared.items():
            items = value if isinstance(value, list) else [value]
            shown = [self.shown(key, item) for item in items[:_MOST_NAMED] if _is_plain(item)]
            if (
                shown
                and not kinds.of(key) & (kinds.SECRET | kinds.PROGRAM | kinds.AMOUNT)
                and all(_speakable(word) for word in words(key))
            ):
                yield f"{' '.join(words(key))} {_few(shown, len(items))}"

    def may_list(self, key: str) -> bool:
        if key in self.texts and len(self.texts) > 1:
            return False
        return not kinds.of(key) & (kinds.SECRET | kinds.RECIPIENT)

    def recipients(self) -> str:
        fact = self.facts.get("recipients")
        if fact is None or not fact.value:
            return ""
        shown = [_shown(whom) for whom in fact.value[:_MOST_NAMED]]
        said = _few(shown, len(fact.value))
        if sends(self.name) or any(kinds.of(key) & kinds.RECIPIENT for key in self.args):
            return f"to {said}"
        # In a field of an object it may be a value to be stored as well as somebody to be told.
        self.tail.append(f"addresses {said}")
        return ""

    def place(self) -> str:
        """Where, and the environment, unless the place says it."""
        environment = str(self.facts["environment"].value) if "environment" in self.facts else ""
        found = [key for key in self.args if key not in self.used and self.is_place(key)]
        said = ""
        if found:
            key = min(found, key=lambda each: (_PLACES.index(_stem(each)[-1]), each))
            self.used.add(key)
            said = f"in {self.value(key)}"
            if environment_in(str(self.args[key])) == environment:
                return said
        if environment and environment not in self.name.tokens:
            self.tail.append(f"in {environment}")
        return said

    def is_place(self, key: str) -> bool:
        stem, kind = _stem(key), kinds.of(key)
        if not stem or stem[-1] not in _PLACES or not _is_plain(self.args[key]):
            return False
        return not kind & kinds.SECRET and not (kind & kinds.RECIPIENT and "recipients" in self.facts)

    def measures(self, looked_up: Mapping[str, Fact]) -> None:
        """What it is asked to do, how much money and how large; then what the operator looked up."""
        if "operation" in self.facts:
            self.tail.append(_shown(self.facts["operation"].value))
        for name in ("amount", "bytes"):
            if name in self.facts:
                self.tail.append(visible(self.facts[name].says, lines=False))
        for name in ("count", "amount", "bytes", "environment"):
            if name in looked_up and name not in self.facts:
                self.tail.append(visible(shortened(looked_up[name].says, LONGEST_VALUE), lines=False))

    def program(self) -> str:
        """What a shell, a database or an interpreter would be told; without it, a line about it says nothing."""
        number = len(self.texts) + (self.texts_inside() if self.texts else 0)
        if number > 1:
            return f"{number} texts to run, open the request to read them"
        for key, value in self.texts.items():
            if key in self.used or kinds.of(key) & kinds.SECRET:
                continue
            if isinstance(value, list) and all(isinstance(each, str) for each in value):
                value = " ".join(value)
            if isinstance(value, str):
                return visible(shortened(value.strip(), LONGEST_TEXT), lines=False)
        return ""

    def texts_inside(self) -> int:
        """How many more texts stand in objects among the arguments."""
        outer = [value for key, value in (self.args | self.spared).items() if key not in self.texts]
        inside = [each for value in outer for each in (value[:_MOST_LOOKED_AT] if isinstance(value, list) else [value])]
        return sum(
            bool(kinds.of(name) & kinds.PROGRAM and not kinds.of(name) & kinds.QUERY and _is_text(text))
            for each in inside
            if isinstance(each, dict)
            for name, text in islice(each.items(), _MOST_LOOKED_AT)
        )

    def value(self, key: str) -> str:
        return self.shown(key, self.args[key])

    def shown(self, key: str, value: Json) -> str:
        if kinds.of(key) & kinds.PATH and isinstance(value, str):
            marks = [mark for mark in path_marks(value) if mark in ALARMING]
            return f"{_shown(value)} ({', '.join(marks)})" if marks else _shown(value)
        return _shown(value)


@lru_cache(maxsize=4096)
def _stem(key: str) -> tuple[str, ...]:
    """The words of an argument's name, without the one that only says that it identifies: `order` of `order_id`."""
    parts = tuple(singular(word) for word in words(key))
    return parts[:-1] if len(parts) > 1 and parts[-1] in _IDENTIFIES else parts


def _order(key: str) -> int:
    whole = "_".join(words(key))
    for table in (_BY_ITSELF, _HEADLINES, _PLACES):
        if whole in table:
            return table.index(whole)
    return 0


def _speakable(word: str) -> bool:
    """A name of an argument may be the agent's own; only a plain word of it becomes part of our sentence."""
    return word.isascii() and word.isalpha() and len(word) <= _LONGEST_WORD


def _is_plain(value: Json) -> bool:
    """It can be named in a line: a text or a number."""
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_text(value: Json) -> bool:
    """Something stands here that would be run, in one text or in several."""
    return bool(value.strip()) if isinstance(value, str) else isinstance(value, list | dict) and bool(value)


def _few(shown: Sequence[str], number: int) -> str:
    """The first of so many, as far as there is room to say of how many more there are."""
    kept = [each for spot, each in enumerate(shown) if not spot or sum(map(len, shown[: spot + 1])) <= _MOST_IN_ALL]
    return ", ".join(kept) + _and_more(number - len(kept))


def _and_more(number: int) -> str:
    return f" and {number:,} more" if number > 0 else ""


def _shown(value: Json) -> str:
    """A value as inert text on one line, quoted unless it is one plain word, so that no value can pose as our words."""
    text = str(value).strip()
    return shortened(text, LONGEST_VALUE) if _PLAIN.fullmatch(text[:LONGEST_VALUE]) else _quoted(text)


def _quoted(text: str) -> str:
    """Between quotes that it cannot close; how much is left out stands behind them."""
    shown, length, kept = "", 0, 0
    for char in text[: LONGEST_VALUE + 1]:
        inert = {"\u201c": "⟨U+201C⟩", "\u201d": "⟨U+201D⟩"}.get(char) or visible(char, lines=False)
        length += len(inert)
        if length > LONGEST_VALUE:
            break
        shown, kept = shown + inert, kept + 1
    left = len(text) - kept
    # A pile of marks shows only where they stand together.
    shown = visible(shown, lines=False)
    return f"“{shown}”" if not left else f"“{shown}”… {left:,} more character{'' if left == 1 else 's'}"
