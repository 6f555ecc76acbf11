"""Facts that Assent derives from a call's arguments: how many, how much, to whom, where, and what is alarming.

Never the agent's word: every fact is read off the arguments that would run. Looking is bounded (long texts are
read at their head and tail, huge structures in part) and says so in a fact of its own, and then `fact_view` leaves
out what might be wrong, so that a condition over it errs on the strict side.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any

from assent.core import argument_kinds as kinds
from assent.core.action import Fact, Json
from assent.core.command_text import LOOKS_LIKE_SQL, read_shell, read_sql
from assent.core.money_text import Money, currency_of, money_of, promised_in
from assent.core.names import Family, Name, singular, split_name, words
from assent.core.place_text import (
    ALARMING,
    credentials_in_command,
    environment_in,
    hosts_in,
    is_odd_host,
    is_outside,
    looks_like_path,
    path_marks,
    recipients_in,
)
from assent.core.secret_text import holds_secret, is_secret_key, secrets_in

__all__ = ["DEFAULTS", "fact_view", "facts_of", "secrets_in"]

DEFAULTS: Mapping[str, Json] = MappingProxyType(
    {
        "count": 0,
        "bytes": 0,
        "amount": 0.0,
        "currency": "",
        "recipients": [],
        "external": 0,
        "environment": "",
        "paths": [],
        "credentials": [],
        "links": [],
        "promised": [],
        "programs": [],
        "statements": [],
        "tables": [],
        "destroys": [],
        "operation": "",
        "only_reads": False,
        "sudo": False,
        "to_shell": False,
        "unbounded": False,
        "secret": False,
        "truncated": False,
        "unscanned": False,
        "unreadable": [],
    }
)
"""Every well-known fact and the value that rules see when it is absent."""

MOST_VALUES = 5_000
MOST_TEXT = 200_000
HEAD = TAIL = 20_000
_READ_FROM_TEXT = ("links", "promised", "secret", "destroys", "programs", "statements", "unbounded")
_SPOILT_BY_SIZE = frozenset({"external", "amount", "bytes", "promised"})
_SPARKS = frozenset("@/\\*$€£¥~|<>=`")
_EVERYBODY = frozenset("all * ** *.* % everyone everybody everything any @everyone @channel @here @all".split())
_MANY = 100
_MUCH = Decimal(1_000)
_RANKED_ENVIRONMENTS = ("", "development", "staging", "production")


class _Look:
    """What one pass over the arguments has found so far."""

    text_left = MOST_TEXT
    count = size = unscanned = 0
    count_key = currency = environment = operation = unbounded = ""
    only_reads: bool | None = None
    sudo = to_shell = truncated = False

    def __init__(self, *, is_read: bool) -> None:
        self.is_read = is_read
        self.found: dict[str, dict[str, Any]] = {}
        self.amounts: list[Money] = []

    def note(self, what: str, found: Iterable[str]) -> None:
        self.found.setdefault(what, {}).update(dict.fromkeys(found))

    def over(self, args: Mapping[str, Json]) -> None:
        waiting: list[tuple[str, Json]] = list(islice(args.items(), MOST_VALUES))
        self.unscanned = len(args) - len(waiting)
        for key, value in waiting:
            if type(value) is str:
                self.text(key, value)
            elif value is None or value is False:
                continue
            elif value is True:
                if kinds.of(key) & kinds.EVERYTHING:
                    self.unbounded = self.unbounded or f"{key} is set"
            elif isinstance(value, int | float):
                self.number(key, value)
            elif isinstance(value, Mapping):
                self.mapping(key, value, waiting)
            elif isinstance(value, list | tuple):
                self.list(key, value, waiting)

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
            self.currency = self.currency or currency_of(value)
        elif kind & kinds.OPERATION and len(value) <= 40:
            self.operation = self.operation or value.strip().lower()

    def free_text(self, kind: int, value: str) -> None:
        if "://" in value or "www." in value:
            self.note("links", hosts_in(value))
            if value.startswith("file://"):
                self.path(value[7:])
        elif not kind & (kinds.PATH | kinds.PROGRAM) or kind & kinds.MAYBE_PATH:
            if looks_like_path(value):
                self.path(value)
        if len(value) > 5 and not kind & (kinds.AMOUNT | kinds.PROGRAM):
            for money in promised_in(value):
                self.found.setdefault("promised", {})[str(money)] = float(money.amount)

    def place(self, value: str) -> None:
        found = environment_in(value)
        if found and _RANKED_ENVIRONMENTS.index(found) > _RANKED_ENVIRONMENTS.index(self.environment):
            self.environment = found

    def path(self, value: str) -> None:
        marks = path_marks(value)
        self.found.setdefault("paths", {})[value[:300]] = marks
        if "holds credentials" in marks:
            self.note("credentials", (value[:300],))

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
        room = max(0, MOST_VALUES - len(waiting))
        self.unscanned += max(0, len(value) - room)
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
        room = max(0, MOST_VALUES - len(waiting))
        self.unscanned += max(0, len(value) - room)
        waiting.extend((key, inner) for inner in value[:room])


def facts_of(
    name: str,
    args: Mapping[str, Json],
    *,
    schema: Mapping[str, Json] | None = None,
    domains: Sequence[str] = (),
) -> tuple[Fact, ...]:
    """Everything worth knowing about a call of `name` with `args`; total and bounded on any JSON.

    `schema` lends the meaning of fields whose names say nothing; `domains` are the organisation's own, and
    without them who is outside is not known.
    """
    parts = split_name(name)
    look = _Look(is_read=parts.family is Family.READ)
    look.over(args)
    if schema is not None:
        _by_format(look, args, schema)
    if not look.environment and not _PLACES.isdisjoint(parts.tokens):
        look.environment = environment_in(" ".join(parts.tokens))
    return tuple(_told(look, parts, _plain_domains(tuple(domains)) if domains else ()))


_PLACES = frozenset("production prod prd staging stage stg uat preprod development dev sandbox".split())


@lru_cache(maxsize=64)
def _plain_domains(domains: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(domain.lower().strip().lstrip("@.").rstrip(".") for domain in domains)


def _by_format(look: _Look, args: Mapping[str, Json], schema: Mapping[str, Json]) -> None:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for key, told in properties.items():
        if isinstance(told, Mapping) and told.get("format") == "email" and isinstance(args.get(key), str):
            look.note("recipients", recipients_in(args[key]))


def _told(look: _Look, name: Name, domains: tuple[str, ...]) -> list[Fact]:
    facts: list[Fact] = []
    found = look.found
    if look.count:
        says = _counted(look.count, look.count_key, name)
        facts.append(Fact("count", look.count, says, hurts=look.count > _MANY and not look.is_read))
    if look.size:
        facts.append(Fact("bytes", look.size, _sized(look.size)))
    if look.amounts:
        facts += _amounts(look)
    if look.environment:
        production = look.environment == "production"
        facts.append(Fact("environment", look.environment, f"in {look.environment}", hurts=production))
    if look.operation:
        facts.append(Fact("operation", look.operation, f"asks for {look.operation}"))
    if found:
        facts += _noted(found, domains)
    if look.sudo:
        facts.append(Fact("sudo", True, "with the rights of an administrator", hurts=True))
    if look.to_shell:
        facts.append(Fact("to_shell", True, "runs text that comes from elsewhere", hurts=True))
    if look.only_reads:
        facts.append(Fact("only_reads", True, "only reads"))
    if look.unbounded:
        facts.append(Fact("unbounded", True, f"no bound on what it reaches: {look.unbounded}", hurts=True))
    if look.truncated:
        facts.append(Fact("truncated", True, "a long text was read only at its beginning and end", hurts=True))
    if look.unscanned:
        facts.append(Fact("unscanned", True, f"{look.unscanned:,} further values were not looked at", hurts=True))
    return facts


def _noted(found: dict[str, dict[str, Any]], domains: tuple[str, ...]) -> list[Fact]:
    facts: list[Fact] = []
    for what, values in found.items():
        if not values:
            continue
        match what:
            case "recipients":
                facts += _recipients(tuple(values), domains)
            case "paths":
                facts.append(_paths(values))
            case "links":
                odd = any(is_odd_host(host) for host in values)
                facts.append(Fact(what, list(values), f"links to {_joined(values)}", hurts=odd))
            case "promised":
                facts.append(Fact(what, list(values.values()), f"promises {_joined(values)}", hurts=True))
            case "statements":
                facts.append(Fact(what, list(values), f"SQL {_joined(values).upper()}"))
            case "secret":
                facts.append(Fact(what, True, _joined(values), hurts=True))
            case _:
                opening, hurts = _OPENINGS[what]
                facts.append(Fact(what, list(values), opening + _joined(values), hurts=hurts))
    return facts


_OPENINGS = {
    "credentials": ("where credentials are kept: ", True),
    "programs": ("runs ", False),
    "tables": ("touches ", False),
    "destroys": ("", True),
    "unreadable": ("could not be read: ", True),
}


def _counted(count: int, key: str, name: Name) -> str:
    parts = [word for word in words(key) if word not in {"id", "ids", "list", "uuid", "uuids"}] if key else []
    noun = singular(parts[-1]) if parts else ""
    if noun in {"", "item", "path", "target", "value", "name", "to", "cc", "bcc", "entry"}:
        noun = {"to": "recipient", "cc": "recipient", "bcc": "recipient"}.get(noun) or (name.nouns or ("item",))[-1]
    if count == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") and noun[-2:-1] not in "aeiou" else noun + "s"
    return f"{count:,} {plural}"


def _sized(size: int) -> str:
    scaled = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000:
            return f"{scaled:.0f} {unit}" if unit == "bytes" else f"{scaled:.1f} {unit}"
        scaled /= 1000
    return f"{scaled:,.1f} TB"


def _amounts(look: _Look) -> list[Fact]:
    largest = max(look.amounts, key=lambda money: money.amount)
    currency = largest.currency or look.currency
    money = Money(largest.amount, currency)
    says = str(money) if len(look.amounts) == 1 else f"{money}, the largest of {len(look.amounts)} amounts"
    facts = [Fact("amount", float(money.amount), says, hurts=money.amount >= _MUCH)]
    if currency:
        facts.append(Fact("currency", currency, f"in {currency}"))
    return facts


def _recipients(recipients: tuple[str, ...], domains: tuple[str, ...]) -> list[Fact]:
    facts = [Fact("recipients", list(recipients), f"to {_joined(recipients)}")]
    outside = sum(is_outside(recipient, domains) for recipient in recipients) if domains else 0
    if outside:
        ours = domains[0] if len(domains) == 1 else "our domains"
        whom = "the recipient is" if len(recipients) == 1 else f"{outside} of {len(recipients)} recipients are"
        facts.append(Fact("external", outside, f"{whom} outside {ours}", hurts=True))
    return facts


def _paths(paths: Mapping[str, tuple[str, ...]]) -> Fact:
    marked = [f"{path} ({', '.join(marks)})" if marks else path for path, marks in islice(paths.items(), 5)]
    hurts = any(not ALARMING.isdisjoint(marks) for marks in paths.values())
    says = ", ".join(marked) + (f" and {len(paths) - 5:,} more" if len(paths) > 5 else "")
    return Fact("paths", list(paths), says, hurts=hurts)


def _joined(parts: Collection[str]) -> str:
    shown = [part[:120] for part in islice(parts, 5)]
    more = len(parts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def fact_view(facts: Sequence[Fact]) -> dict[str, Json]:
    """The facts as rules see them: defaults where nothing was found, and nothing at all where we could be wrong.

    A missing name makes a condition over it fail, which counts as the dangerous answer.
    """
    found = {fact.name: fact.value for fact in facts}
    view = {**DEFAULTS, **found}
    if found.get("unbounded"):
        del view["count"]
    if "unscanned" in found:
        view = {name: value for name, value in view.items() if name in found and name not in _SPOILT_BY_SIZE}
    elif "truncated" in found:
        view = {name: value for name, value in view.items() if name in found or name not in _READ_FROM_TEXT}
    for name in found.get("unreadable", ()):
        view.pop(name, None)
    return view
