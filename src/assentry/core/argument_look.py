"""One pass over a call's arguments that notes everything facts are made of.

Iterative and bounded: at most `MOST_VALUES` values and `MOST_TEXT` characters are looked at, wherever they stand.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import Any

from assentry.core import argument_kinds as kinds
from assentry.core.action import Json
from assentry.core.command_text import LOOKS_LIKE_SQL, read_shell, read_sql
from assentry.core.link_text import hosts_in, without_userinfo
from assentry.core.list_text import items_in, parsed, paths_in
from assentry.core.money_text import Money, currency_of, money_of, numbers_in, promised_in
from assentry.core.place_text import credentials_in_command, environment_in, looks_like_path, path_marks, paths_of
from assentry.core.recipient_text import MOST_ADDRESSES, addressed_in, addresses_in, closed, whom_in
from assentry.core.secret_text import holds_secret, is_secret_key, is_secret_name
from assentry.core.text import shortened

MOST_VALUES = 5_000
MOST_TEXT = 120_000
HEAD = TAIL = 20_000
SEEN = 300
"""So much of a path is kept."""
_NUMBERS = (int, float, Decimal)
_LISTS = (list, tuple)
_SPARKS = frozenset("@/\\*$€£¥~|<>=`")
_MAY_SAY = re.compile(r"[hfw][ts]{1,2}p?s?:|www\.|EUR|USD|GBP|CHF|JPY|dollar|euro|pound", re.I)
"""A link or a sum, without any of the signs above."""
_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]{0,30}://")
"""A link begins with it; a path may have it anywhere."""
_LINKED = re.compile(r"://|www\.|\b(?:https?|ftp|wss?):", re.I)
_SPOILT_BY_LENGTH = (
    (kinds.PLACE, "environment"), (kinds.PATH, "paths"), (kinds.PATH, "credentials"), (kinds.COMMAND, "environment"),
    (kinds.COMMAND, "credentials"), (kinds.COMMAND, "sudo"), (kinds.COMMAND, "to_shell"), (kinds.SQL, "tables"),
    (kinds.LISTED, "count"),
)  # fmt: skip
"""What a text that was not read in full may hide, by the kind of its field."""
_EVERYBODY = frozenset("all * ** *.* % everyone everybody everything any @everyone @channel @here @all".split())
SEVERAL_CURRENCIES = "several"
"""Where one call names more than one, it is in none of them."""
_LONGEST_OPERATION = 200
_LONGEST_CURRENCY = 20
"""Of one that we do not know: it is still another one than those that we do."""
_EVERY_ROW = re.compile(
    r"\(*\s*(?:(['\"\w.]{1,60})\s*==?\s*\1|true|1|not\s+false)\s*\)*(?:\s+or\b.*)?|.*\bor\s+(\d+|true)(?:\s*=\s*\2)?"
)
"""Conditions that hold for everything."""
_MANY_KEYS = 20
"""An object with more keys than this, in a field named in the plural, is a list of what the keys name."""
_LIKE_LISTS = kinds.LISTED | kinds.RECIPIENT | kinds.AMOUNT | kinds.COUNT | kinds.TARGET | kinds.FILTER
SEVERAL = "amounts in more than one currency are not compared"
NO_AMOUNT = "no amount is given"
ONLY_LEFT_OUT = "how many is not known, only what is left out is listed"
PERHAPS_LEFT_OUT = "how many is not known, a list may name what is left out or what is acted on"
NO_RECIPIENT = "no recipient is named"
NO_ADDRESS = "whether a recipient without an address is inside is not known"
_RANKED_ENVIRONMENTS = ("", "development", "staging", "production")


def _currency(value: Json) -> str:
    return currency_of(value) or value.strip().upper()[:_LONGEST_CURRENCY] if isinstance(value, str) else ""


def _is_sum(key: str, value: Json) -> bool:
    scalar = isinstance(value, (str, *_NUMBERS)) and not isinstance(value, bool) and value != ""
    return scalar and bool(kinds.of(key) & kinds.AMOUNT)


class Look:
    """What one pass over the arguments has found so far."""

    text_left = MOST_TEXT
    count = size = unscanned = 0
    count_key = count_also = currency = environment = unbounded = ""
    """`count_also`: what else the count may be, in words."""
    only_reads: bool | None = None
    sudo = to_shell = truncated = names_money = unplaced = False
    """`unplaced`: some recipient is no address."""

    def __init__(self, *, is_read: bool, sends: bool = False, action: tuple[str, ...] = ()) -> None:
        self.is_read, self.sends, self.action = is_read, sends, action
        self.found: dict[str, dict[str, Any]] = {}
        self.amounts: list[Money] = []
        self.amount_keys: list[str] = []
        """Where each of the amounts stands."""
        self.names: frozenset[str] = frozenset()
        """The arguments' own names; those inside an object may be the agent's."""
        self.waiting: list[tuple[str, Json]] = []
        self.totals: dict[str, int] = {}
        self.awaited = ""
        """An amount that should be somewhere, and why it is not known if it is nowhere."""
        self.mentioned: dict[str, None] = {}
        """Addresses in the prose of what is sent: recipients only if there are no others."""

    def note(self, what: str, found: Iterable[str]) -> None:
        known = self.found.get(what)
        if known is None:
            known = self.found[what] = {}
        for text in found:
            known[text] = None

    def counts(self, number: int, key: str, also: str = "") -> None:
        self.count, self.count_key, self.count_also = number, key, also

    def unread(self, what: str, why: str = "") -> None:
        """The fact `what` is not known, whatever else is found; `why`, where that is nothing alarming."""
        known = self.found.setdefault("unreadable", {})
        known[what] = why if known.get(what, why) else ""

    def over(self, args: Mapping[str, Json]) -> None:
        """Everything is looked at; what is left out does not count as what is acted on.

        Only the arguments themselves are told apart by their names: those inside an object may be the agent's own.
        """
        self.names = frozenset(islice(args, MOST_VALUES))
        acted: list[tuple[str, Json]] = []
        spared: list[tuple[str, Json]] = []
        for key, value in islice(args.items(), MOST_VALUES):
            (spared if kinds.is_left_out(key, self.action) else acted).append((key, value))
        if len(args) > MOST_VALUES:
            self.unscanned = len(args) - MOST_VALUES
        if self.sends:
            self.keys(args)
        self.each(acted)
        if spared:
            before, named = (self.count, self.count_key, self.count_also), tuple(spared)
            self.each(spared)
            unsure = any(kinds.is_perhaps_left_out(key) for key, _ in named)
            if self.count > before[0] and (unsure or not before[0]):
                before = 0, "", ""
                if not self.is_read:
                    self.unread("count", PERHAPS_LEFT_OUT if unsure else ONLY_LEFT_OUT)
            self.count, self.count_key, self.count_also = before

    def each(self, waiting: list[tuple[str, Json]]) -> None:
        self.waiting = waiting
        for key, value in waiting:
            if type(value) is str:
                self.text(key, value)
            elif value is None or value is False:
                if value is None and not self.is_read and kinds.of(key) & (kinds.AMOUNT | kinds.FLAG) == kinds.AMOUNT:
                    self.awaited = self.awaited or NO_AMOUNT
            elif value is True:
                self.yes(key)
            elif isinstance(value, _NUMBERS):
                if kinds.of(key) & kinds.SECRET and is_secret_name(key):
                    self.note("secret", (f"a secret in {key}",))
                self.number(key, value)
            elif isinstance(value, _LISTS):
                self.list(key, value, waiting)
            elif isinstance(value, Mapping):
                self.mapping(key, value, waiting)
            elif isinstance(value, str):
                self.text(key, str(value))
            else:
                self.unknown(key)

    def over_all(self, *, knows_outside: bool) -> None:
        """Nothing more is to be seen: what should have been there and was not is not known."""
        if self.awaited and not self.amounts:
            self.unread("amount", self.awaited if self.awaited == NO_AMOUNT else "")
        if self.unplaced and knows_outside and not self.is_read:
            self.unread("external", NO_ADDRESS)
        if self.sends and not self.found.get("recipients"):
            if self.mentioned:
                self.note("recipients", self.mentioned)
            elif knows_outside:
                self.unread("external", NO_RECIPIENT)

    def currencies(self) -> int:
        """How many currencies are named; amounts of more than one are neither compared nor added up."""
        if self.currency == SEVERAL_CURRENCIES:
            return 2
        return len({self.currency, *(each.currency for each in self.amounts)} - {""})

    def yes(self, key: str) -> None:
        kind = kinds.of(key)
        if kind & kinds.EVERYTHING:
            self.unbounded = self.unbounded or f"{key} is set"
        elif kind & (kinds.AMOUNT | kinds.FLAG) == kinds.AMOUNT and not self.is_read:
            self.unread("amount")

    def unknown(self, key: str) -> None:
        """A value of a kind that is not JSON: nothing can be said of it."""
        self.unscanned += 1
        kind = kinds.of(key)
        if kind & kinds.AMOUNT:
            self.unread("amount")
        if kind & kinds.COUNT:
            self.unread("count")
        if kind & kinds.RECIPIENT:
            self.no_recipient()

    def no_recipient(self) -> None:
        self.unread("recipients")
        self.unread("external")

    def keys(self, value: Mapping[str, Json]) -> None:
        """Addresses may stand in the names of fields."""
        for name in islice(value, MOST_VALUES):
            if type(name) is str and ("@" in name or not name.isascii()):
                self.note_addresses(name)

    def note_addresses(self, name: str) -> None:
        if len(name) > self.text_left:
            self.unscanned += 1
            return
        self.text_left -= len(name)
        self.note("recipients", addresses_in(closed(name)))

    def text(self, key: str, value: str) -> None:
        kind = kinds.of(key)
        length = len(value)
        if kind & _LIKE_LISTS and length > 2 and self.listed(key, kind, value):
            return
        if length > HEAD + TAIL or length > self.text_left:
            value = self.ends(value)
            for bit, name in _SPOILT_BY_LENGTH:
                if kind & bit:
                    self.unread(name)
            if kind & kinds.RECIPIENT or (self.sends and not kind & (kinds.PROSE | kinds.SENDER)):
                self.unread("external")
        if length > 100:
            self.text_left -= len(value)
        if kind:
            self.known_text(key, kind, value)
        if self.sends and not kind & (kinds.RECIPIENT | kinds.SENDER):
            self.addresses(kind, value)
        sparks = not (_SPARKS.isdisjoint(value) or (kind & kinds.RECIPIENT and "/" not in value))
        if length > 200 or sparks or (length > 9 and _MAY_SAY.search(value)):
            self.free_text(kind, value)
        if kind & kinds.SECRET:
            if is_secret_key(key, value):
                self.note("secret", (f"a secret in {key}",))
        elif length > 15 and holds_secret(value):
            self.note("secret", (f"what looks like a secret in {key}",))

    def listed(self, key: str, kind: int, value: str) -> bool:
        """`value` is a list or an object, written as JSON, and will be looked at as one; other lists are counted."""
        if value[0] in "[{" and self.text_left > len(value) and (inner := parsed(value.rstrip())) is not None:
            self.text_left -= len(value)
            if len(self.waiting) < MOST_VALUES:
                self.waiting.append((key, inner))
                return True
        if kind & kinds.PATH:
            items = paths_in(value) if kind & kinds.LISTED else 1
            if items > max(1, self.count):
                self.counts(items, key)
        elif kind & (kinds.LISTED | kinds.TARGET) and not kind & kinds.NOT_COUNTED:
            several = kind & kinds.LISTED and kind & kinds.TARGET
            items = items_in(value, prose=not several)
            if items > 1 and kind & kinds.RECIPIENT and "@" in value:
                items = whom_in(value).entries
            if items > self.count and (items > 1 or several) and not (kind & kinds.RECIPIENT and "@" not in value):
                self.counts(items, key)
        return False

    def addresses(self, kind: int, value: str) -> None:
        """An address anywhere in what is sent says to whom, unless it stands in the middle of prose."""
        if kind & kinds.RAW and value:
            found = addressed_in(value) or addresses_in(value)
            self.note("recipients", found)
            if not found:
                self.no_recipient()
        elif "@" in value or not value.isascii():
            found = addresses_in(value)
            if value.count("@") >= MOST_ADDRESSES:
                self.unscanned += 1
            if not kind & kinds.PROSE and (plain := closed(value)) != value:
                found = tuple(dict.fromkeys((*found, *addresses_in(plain))))
            if kind & kinds.PROSE and (len(value) > 320 or " " in value.strip()):
                self.note("recipients", addressed_in(value))
                self.mentioned |= dict.fromkeys(found)
            else:
                self.note("recipients", found)

    def ends(self, value: str) -> str:
        self.truncated = True
        keep = max(0, min(HEAD, self.text_left // 2))
        return value[:keep] + "\n" + value[len(value) - min(TAIL, keep) :]

    def known_text(self, key: str, kind: int, value: str) -> None:
        if kind & kinds.RECIPIENT:
            self.recipients(key, value)
        if kind & kinds.WHERE:
            if kind & kinds.PLACE:
                self.place(value)
            climbs = "\0" in value or ".." in value or "%" in value
            link = _SCHEME.match(value) is not None and len(value.split()) == 1 and not climbs
            if kind & kinds.PATH and value and not link and not kind & kinds.MAYBE_PATH:
                self.path(value)
            if kind & (kinds.TARGET | kinds.FILTER) and not self.is_read:
                self.reach(key, kind, value)
        if kind & kinds.QUERY and not self.is_read and value.strip() in _EVERYBODY:
            self.unbounded = f"{key} is {value.strip()!r}"
        elif kind & kinds.PROGRAM:
            self.program(kind, value)
        if kind & kinds.AMOUNT and value:
            self.money(key, value)
        elif kind & kinds.COUNT:
            self.counted(key, value)
        elif kind & kinds.CURRENCY:
            named = _currency(value)
            self.currency = named if self.currency in ("", named) else SEVERAL_CURRENCIES
        elif kind & kinds.OPERATION:
            asked = value.strip().lower()
            if len(asked) <= _LONGEST_OPERATION:
                self.note("operation", (asked,))
            elif not self.is_read:
                self.unread("operation")

    def recipients(self, key: str, value: str) -> None:
        whom = whom_in(value)
        self.note("recipients", whom.all)
        if not whom.sure:
            self.no_recipient()
        elif whom.is_name and (self.sends or not kinds.is_acted_on(key, self.action)):
            self.unplaced = True

    def counted(self, key: str, value: str) -> None:
        """A number of things that is written as text."""
        bare = value.strip()
        if not bare or (key.lower().endswith("num") and len(key) > 3):
            return
        numbers = numbers_in(bare) if len(bare) <= 64 else ()
        if numbers:
            before = self.count
            self.number(key, numbers[0])
            if len(numbers) > 1 and self.count > before:
                self.count_also = f"or {numbers[1].normalize():,f}"
        elif bare.lower() in _EVERYBODY and not self.is_read:
            self.unbounded = f"{key} is {bare!r}"
        elif not self.is_read:
            self.unread("count")

    def free_text(self, kind: int, value: str) -> None:
        if _LINKED.search(value):
            links = self.found.setdefault("links", {})
            hosts, complete = hosts_in(value)
            for host, odd in hosts.items():
                links[host] = links.get(host) or odd
            if not complete:
                self.unread("links")
            if value.strip()[:5].lower() == "file:":
                self.path("file://" + without_userinfo(value.strip())[7:])
        elif (kind & kinds.MAYBE_PATH or not kind & (kinds.PATH | kinds.PROGRAM)) and looks_like_path(value):
            self.path(value)
        if len(value) > 5 and not kind & (kinds.AMOUNT | kinds.PROGRAM | kinds.PATH):
            promises, complete = promised_in(value)
            for money in promises:
                self.found.setdefault("promised", {})[str(money)] = float(money.amount)
            if not complete:
                self.unread("promised")

    def place(self, value: str) -> None:
        found = environment_in(value)
        if found and _RANKED_ENVIRONMENTS.index(found) > _RANKED_ENVIRONMENTS.index(self.environment):
            self.environment = found

    def path(self, value: str) -> None:
        for each in paths_of(value):
            self.one_path(each)

    def one_path(self, value: str) -> None:
        marks = path_marks(value)
        seen = shortened(value, SEEN)
        if seen != value:
            self.unread("paths")
        self.found.setdefault("paths", {})[seen] = marks
        if "holds credentials" in marks:
            self.note("credentials", (seen,))

    def reach(self, key: str, kind: int, value: str) -> None:
        bare = value.strip().lower()
        if bare in _EVERYBODY:
            self.unbounded = f"{key} is {value.strip()!r}"
        elif not bare and kind & kinds.FILTER:
            self.unbounded = f"{key} is empty"
        elif "*" in bare and " " not in bare:
            self.unbounded = f"{key} holds a wildcard"
        elif kind & kinds.FILTER and len(bare) <= 400 and _EVERY_ROW.fullmatch(bare):
            self.unbounded = f"{key} holds for everything"

    def program(self, kind: int, value: str) -> None:
        if kind & kinds.COMMAND:
            self.command(value)
        elif kind & kinds.CODE:
            self.note("destroys", read_shell(value).destroys)
        elif not kind & kinds.MAYBE_SQL or LOOKS_LIKE_SQL.match(value.lstrip()):
            self.sql(value)

    def command(self, value: str) -> None:
        shell = read_shell(value)
        self.note("programs", shell.programs)
        self.note("destroys", shell.destroys)
        self.note("credentials", credentials_in_command(value))
        self.sudo = self.sudo or shell.sudo
        self.to_shell = self.to_shell or shell.to_shell
        self.only_reads = shell.only_reads and self.only_reads is not False
        if shell.everything:
            self.unbounded = "the command has no bound"
        if environment_in(value) == "production":
            self.environment = "production"

    def sql(self, value: str) -> None:
        sql = read_sql(value)
        self.note("statements", sql.statements)
        self.note("tables", sql.tables)
        self.note("destroys", (f"SQL {kind}" for kind in sql.destroys))
        self.only_reads = sql.only_reads and self.only_reads is not False
        if sql.everything:
            self.unbounded = "the SQL names no rows"

    def number(self, key: str, value: int | float | Decimal) -> None:
        kind = kinds.of(key)
        if kind & kinds.AMOUNT:
            self.money(key, value)
        elif kind & kinds.COUNT:
            if value < 0 or not (isinstance(value, int) or math.isfinite(value)):
                if not self.is_read:
                    self.unread("count")
            elif (whole := math.ceil(value)) > self.count:
                self.counts(whole, "")
        elif kind & kinds.SIZE:
            if 0 <= value < 1e18:
                self.size += int(value * kinds.unit_of(key))
            else:
                self.unread("bytes")

    def money(self, key: str, value: Json, beside: str = "") -> None:
        """`beside`: the currency that stands in the same object."""
        money = money_of(value)
        if money is None:
            self.unread("amount")
        else:
            scale, currency = kinds.scale_of(key)
            if kinds.of(key) & kinds.MONEY:
                self.names_money = True
            self.amount_keys.append(key)
            self.amounts.append(replace(money.divided(scale), currency=money.currency or currency or beside))

    def mapping(self, key: str, value: Mapping[str, Json], waiting: list[tuple[str, Json]]) -> None:
        kind = kinds.of(key)
        if len(value) == 1 and ("$decimal" in value or "$int" in value):
            number = money_of(value)
            if kind & kinds.AMOUNT or number is None:
                self.money(key, value)
            else:
                self.number(key, number.amount)
            return
        if not value and kind & kinds.FILTER and not self.is_read:
            self.unbounded = self.unbounded or f"{key} is empty"
        if kind & kinds.EVERYTHING and not self.is_read:
            self.unbounded = self.unbounded or f"{key} is set"
        if kind & kinds.LISTED and len(value) > (1 if kind & kinds.TARGET else _MANY_KEYS) and len(value) > self.count:
            self.counts(len(value), key)
        room = MOST_VALUES - len(waiting)
        if len(value) > room:
            room = max(0, room)
            self.unscanned += len(value) - room
        inside = [(name if type(name) is str else str(name), inner) for name, inner in islice(value.items(), room)]
        if kind & (kinds.RECIPIENT | kinds.SENDER):
            inside = self.whom(key, kind, inside)
        elif self.sends:
            self.keys(value)
        if kind & (kinds.AMOUNT | kinds.FLAG) == kinds.AMOUNT:
            inside = self.sum(key, kind, inside)
        elif kind & kinds.COUNT and not self.is_read:
            if not any(name.lower() in kinds.SUMS for name, _ in inside):
                self.unread("count")
            inside = [(key if name.lower() in kinds.SUMS else name, inner) for name, inner in inside]
        named = [
            currency for name, inner in inside if kinds.of(name) & kinds.CURRENCY and (currency := _currency(inner))
        ]
        if len(named) == 1:
            sums = [(name, inner) for name, inner in inside if _is_sum(name, inner)]
            for name, inner in sums:
                self.money(name, inner, named[0])
            inside = [(name, inner) for name, inner in inside if not _is_sum(name, inner)] if sums else inside
        waiting.extend(inside)

    def whom(self, key: str, kind: int, inside: Sequence[tuple[str, Json]]) -> "list[tuple[str, Json]]":
        """What stands inside an object that stands for a recipient, or for a sender, is one too."""
        kept: list[tuple[str, Json]] = []
        for name, inner in inside:
            if kind & kinds.RECIPIENT:
                self.note_addresses(name)
            plain = name.lower()
            own = kinds.of(name) & ~(kinds.LISTED | kinds.TARGET | kinds.RECIPIENT)
            if type(inner) is str:
                is_whom = plain in kinds.WHOM or "@" in inner or "\uff20" in inner
            else:
                is_whom = isinstance(inner, (*_LISTS, Mapping)) and not own
            kept.append((key, inner) if is_whom else (name, inner))
        return kept

    def sum(self, key: str, kind: int, inside: Sequence[tuple[str, Json]]) -> "list[tuple[str, Json]]":
        """What stands inside an object that stands for an amount: the sum, or a number that makes it unreadable."""
        kept: list[tuple[str, Json]] = []
        summed = False
        for name, inner in inside:
            plain, own = name.lower(), kinds.of(name)
            if plain in kinds.SUMS and not own & kinds.AMOUNT and not (kind & kinds.RECORD and plain != "value"):
                summed = True
                kept.append((key, inner))
                continue
            summed = summed or bool(own & kinds.AMOUNT)
            kept.append((name, inner))
            if kind & kinds.RECORD or own & (kinds.AMOUNT | kinds.CURRENCY) or inner is None or type(inner) is bool:
                continue
            if plain == "nanos" and type(inner) is int and abs(inner) < 10**9:
                continue
            if isinstance(inner, _NUMBERS) or (type(inner) is str and money_of(inner) is not None):
                self.unread("amount")
        if not summed and kind & kinds.RECORD:
            self.awaited = "could not be read"
        elif not summed:
            self.unread("amount")
        return kept

    def list(self, key: str, value: Sequence[Json], waiting: list[tuple[str, Json]]) -> None:
        kind = kinds.of(key)
        if value and not kind & kinds.NOT_COUNTED:
            self.add_up(key, kind, value)
        if not value and kind & kinds.FILTER and not self.is_read:
            self.unbounded = self.unbounded or f"{key} is empty"
        if kind & kinds.COMMAND and all(type(word) is str for word in value):
            if len(value) > MOST_VALUES:
                self.unscanned += len(value) - MOST_VALUES
            value = [" ".join(value[:MOST_VALUES])]
        room = MOST_VALUES - len(waiting)
        if len(value) > room:
            room = max(0, room)
            self.unscanned += len(value) - room
        waiting.extend((key, inner) for inner in value[:room])

    def add_up(self, key: str, kind: int, value: Sequence[Json]) -> None:
        """Lists under one name are one list in parts, except for the rows of a table."""
        size = len(value)
        held = 0
        if not kind & kinds.ROWS:
            inner = sum(isinstance(part, _LISTS) for part in value)
            size = size if inner == size and not any(value) else size - inner
            if kind & (kinds.LISTED | kinds.TARGET) and not kind & (kinds.PROSE | kinds.RECIPIENT):
                # A text of a list may itself be one.
                held = sum(items_in(part, prose=True) - 1 for part in value[:MOST_VALUES] if type(part) is str)
            size = self.totals[key] = self.totals.get(key, 0) + size + held
        if size > self.count:
            texts = len(value)
            self.counts(size, key, f"in {texts:,} {'text' if texts == 1 else 'texts'}" if held else "")
