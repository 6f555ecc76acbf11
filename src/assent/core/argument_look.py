"""One pass over a call's arguments that notes everything facts are made of.

Iterative and bounded: at most `MOST_VALUES` values and `MOST_TEXT` characters are looked at, wherever they stand.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from assent.core import argument_kinds as kinds
from assent.core.action import Json
from assent.core.command_text import LOOKS_LIKE_SQL, read_shell, read_sql
from assent.core.money_text import Money, currency_of, money_of, promised_in
from assent.core.place_text import (
    credentials_in_command,
    environment_in,
    hosts_in,
    looks_like_path,
    path_marks,
    recipients_in,
)
from assent.core.secret_text import holds_secret, is_secret_key, is_secret_name

MOST_VALUES = 5_000
MOST_TEXT = 120_000
HEAD = TAIL = 20_000
SEEN = 300
"""So much of a path is kept."""
_NUMBERS = (int, float)
_LISTS = (list, tuple)
_SPARKS = frozenset("@/\\*$€£¥~|<>=`")
_EVERYBODY = frozenset("all * ** *.* % everyone everybody everything any @everyone @channel @here @all".split())
SEVERAL_CURRENCIES = "several"
"""Where one call names more than one, it is in none of them."""
_LONGEST_CURRENCY = 20
"""Of one that we do not know: it is still another one than those that we do."""
_RANKED_ENVIRONMENTS = ("", "development", "staging", "production")


class Look:
    """What one pass over the arguments has found so far."""

    text_left = MOST_TEXT
    count = size = unscanned = 0
    count_key = currency = environment = unbounded = ""
    only_reads: bool | None = None
    sudo = to_shell = truncated = False

    def __init__(self, *, is_read: bool) -> None:
        self.is_read = is_read
        self.found: dict[str, dict[str, Any]] = {}
        self.amounts: list[Money] = []

    @property
    def is_plain(self) -> bool:
        """Nothing was measured or flagged: no attribute was set beyond those that every look starts with."""
        return len(self.__dict__) == 3 and not self.amounts

    def note(self, what: str, found: Iterable[str]) -> None:
        known = self.found.get(what)
        if known is None:
            known = self.found[what] = {}
        for text in found:
            known[text] = None

    def over(self, args: Mapping[str, Json]) -> None:
        waiting: list[tuple[str, Json]] = list(islice(args.items(), MOST_VALUES))
        if len(args) > MOST_VALUES:
            self.unscanned = len(args) - MOST_VALUES
        for key, value in waiting:
            if type(value) is str:
                self.text(key, value)
            elif value is None or value is False:
                continue
            elif value is True:
                if kinds.of(key) & kinds.EVERYTHING:
                    self.unbounded = self.unbounded or f"{key} is set"
            elif isinstance(value, _NUMBERS):
                if kinds.of(key) & kinds.SECRET and is_secret_name(key):
                    self.note("secret", (f"a secret in {key}",))
                self.number(key, value)
            elif isinstance(value, _LISTS):
                self.list(key, value, waiting)
            elif isinstance(value, Mapping):
                self.mapping(key, value, waiting)

    def text(self, key: str, value: str) -> None:
        kind = kinds.of(key)
        length = len(value)
        if length > HEAD + TAIL or length > self.text_left:
            value = self.ends(value)
        if length > 100:
            self.text_left -= len(value)
        if kind:
            self.known_text(key, kind, value)
        if length > 200 or not (_SPARKS.isdisjoint(value) or (kind & kinds.RECIPIENT and "/" not in value)):
            self.free_text(kind, value)
        if kind & kinds.SECRET:
            if is_secret_key(key, value):
                self.note("secret", (f"a secret in {key}",))
        elif length > 15 and holds_secret(value):
            self.note("secret", (f"what looks like a secret in {key}",))

    def ends(self, value: str) -> str:
        self.truncated = True
        keep = max(0, min(HEAD, self.text_left // 2))
        return value[:keep] + "\n" + value[len(value) - min(TAIL, keep) :]

    def known_text(self, key: str, kind: int, value: str) -> None:
        if kind & kinds.RECIPIENT:
            self.note("recipients", recipients_in(value))
        if kind & kinds.WHERE:
            if kind & kinds.PLACE:
                self.place(value)
            if kind & kinds.PATH and value and "://" not in value and not kind & kinds.MAYBE_PATH:
                self.path(value)
            if kind & (kinds.TARGET | kinds.FILTER) and not self.is_read:
                self.reach(key, kind, value)
        if kind & kinds.PROGRAM:
            self.program(kind, value)
        if kind & kinds.AMOUNT and value:
            self.money(key, value)
        elif kind & kinds.CURRENCY:
            named = currency_of(value) or value.strip().upper()[:_LONGEST_CURRENCY]
            self.currency = named if self.currency in ("", named) else SEVERAL_CURRENCIES
        elif kind & kinds.OPERATION and len(value) <= 40:
            self.note("operation", (value.strip().lower(),))

    def free_text(self, kind: int, value: str) -> None:
        if "://" in value or "www." in value:
            self.note("links", hosts_in(value))
            if value.startswith("file://"):
                self.path(value[7:])
        elif (kind & kinds.MAYBE_PATH or not kind & (kinds.PATH | kinds.PROGRAM)) and looks_like_path(value):
            self.path(value)
        if len(value) > 5 and not kind & (kinds.AMOUNT | kinds.PROGRAM | kinds.PATH):
            for money in promised_in(value):
                self.found.setdefault("promised", {})[str(money)] = float(money.amount)

    def place(self, value: str) -> None:
        found = environment_in(value)
        if found and _RANKED_ENVIRONMENTS.index(found) > _RANKED_ENVIRONMENTS.index(self.environment):
            self.environment = found

    def path(self, value: str) -> None:
        marks = path_marks(value)
        self.found.setdefault("paths", {})[value[:SEEN]] = marks
        if "holds credentials" in marks:
            self.note("credentials", (value[:SEEN],))

    def reach(self, key: str, kind: int, value: str) -> None:
        bare = value.strip().lower()
        if bare in _EVERYBODY:
            self.unbounded = f"{key} is {value.strip()!r}"
        elif not bare and kind & kinds.FILTER:
            self.unbounded = f"{key} is empty"
        elif "*" in bare and " " not in bare:
            self.unbounded = f"{key} holds a wildcard"

    def program(self, kind: int, value: str) -> None:
        if kind & kinds.COMMAND:
            self.command(value)
        elif kind & kinds.CODE:
            self.note("destroys", read_shell(value).destroys)
        elif not kind & kinds.MAYBE_SQL or LOOKS_LIKE_SQL.match(value[:2_000]):
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

    def number(self, key: str, value: int | float) -> None:
        kind = kinds.of(key)
        if kind & kinds.AMOUNT:
            self.money(key, value)
        elif kind & kinds.COUNT and type(value) is int and value > self.count:
            self.count, self.count_key = value, ""
        elif kind & kinds.SIZE and 0 <= value < 1e18:
            self.size += int(value * kinds.unit_of(key))

    def money(self, key: str, value: Json) -> None:
        money = money_of(value)
        if money is None:
            self.note("unreadable", ("amount",))
        else:
            scale, currency = kinds.scale_of(key)
            self.amounts.append(Money(money.amount / scale, money.currency or currency))

    def mapping(self, key: str, value: Mapping[str, Json], waiting: list[tuple[str, Json]]) -> None:
        kind = kinds.of(key)
        if len(value) == 1 and ("$decimal" in value or "$int" in value):
            tagged = value.get("$int")
            if kind & kinds.AMOUNT:
                self.money(key, value)
            elif kind & kinds.COUNT and isinstance(tagged, str):
                self.count = max(self.count, int(tagged) if tagged.isdecimal() and len(tagged) < 300 else 0)
            return
        if not value and kind & kinds.FILTER and not self.is_read:
            self.unbounded = self.unbounded or f"{key} is empty"
        room = MOST_VALUES - len(waiting)
        if len(value) > room:
            room = max(0, room)
            self.unscanned += len(value) - room
        waiting.extend((name if type(name) is str else str(name), inner) for name, inner in islice(value.items(), room))

    def list(self, key: str, value: Sequence[Json], waiting: list[tuple[str, Json]]) -> None:
        kind = kinds.of(key)
        size = len(value)
        if size > self.count and not kind & kinds.NOT_COUNTED and type(value[0]) is not float:
            self.count, self.count_key = size, key
        if not value and kind & kinds.FILTER and not self.is_read:
            self.unbounded = self.unbounded or f"{key} is empty"
        if kind & kinds.COMMAND and all(type(word) is str for word in value[:1_000]):
            value = [" ".join(value[:1_000])]
        room = MOST_VALUES - len(waiting)
        if len(value) > room:
            room = max(0, room)
            self.unscanned += len(value) - room
        waiting.extend((key, inner) for inner in value[:room])
