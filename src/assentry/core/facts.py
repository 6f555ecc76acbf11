"""Facts that Assentry derives from a call's arguments: how many, how much, to whom, where, and what is alarming.

Never the agent's word: every fact is read off the arguments that would run. Looking is bounded (long texts are
read at their head and tail, huge structures in part) and says so in a fact of its own, and then `fact_view` leaves
out what might be wrong, so that a condition over it errs on the strict side.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any

from assentry.core import argument_kinds as kinds
from assentry.core.action import Fact, Json
from assentry.core.argument_look import SEVERAL, SEVERAL_CURRENCIES, Look
from assentry.core.money_text import Money
from assentry.core.names import Family, Name, many_of, one_of, split_name, words
from assentry.core.place_text import ALARMING, environment_in
from assentry.core.recipient_text import is_outside
from assentry.core.secret_text import secrets_in
from assentry.core.text import counted, shortened

__all__ = ["DEFAULTS", "fact_view", "facts_of", "secrets_in"]

DEFAULTS: Mapping[str, Json] = MappingProxyType(
    {
        "count": 0,
        "bytes": 0,
        "amount": 0.0,
        "total": 0.0,
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

_READ_FROM_TEXT = ("links", "promised", "secret", "destroys", "programs", "statements", "unbounded")
_SPOILT_BY_SIZE = frozenset({"external", "amount", "total", "bytes", "promised"})
_MANY = 100
_MUCH = Decimal(1_000)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read off the arguments of one call."""

    facts: tuple[Fact, ...] = ()
    is_money: bool = False
    """Its amount is one of money: something names a currency, or a field or the action is named for money."""


def facts_of(
    name: str,
    args: Mapping[str, Json],
    *,
    schema: Mapping[str, Json] | None = None,
    domains: Sequence[str] = (),
) -> tuple[Fact, ...]:
    """Everything worth knowing about a call of `name` with `args`; total and bounded on any JSON."""
    return reading_of(name, args, schema=schema, domains=domains).facts


def reading_of(
    name: str,
    args: Mapping[str, Json],
    *,
    schema: Mapping[str, Json] | None = None,
    domains: Sequence[str] = (),
    declared_money: bool = False,
) -> Reading:
    """The facts, and whether the amount among them is money, as it is where the operator declares so.

    `schema` lends the meaning of fields whose names say nothing; `domains` are the organisation's own, and
    without them who is outside is not known.
    """
    parts = split_name(name)
    look = Look(is_read=parts.family is Family.READ and not parts.hides, sends=sends(parts), action=parts.tokens)
    look.over(args)
    if schema is not None:
        _by_format(look, args, schema)
    look.over_all(knows_outside=bool(domains))
    if not look.environment and not _PLACES.isdisjoint(parts.tokens):
        look.environment = environment_in(" ".join(parts.tokens))
    is_money = bool(look.amounts) and (declared_money or _is_money(look, parts, schema or {}))
    if look.amounts and look.currencies() > 1:
        look.unread("amount", SEVERAL)
    return Reading(
        tuple(_told(look, parts, _plain_domains(tuple(domains)) if domains else (), is_money=is_money)), is_money
    )


_MONEY_NOUNS = frozenset(
    """money fund payment payout deposit cash balance credit invoice bill salary payroll wage bonus refund fee price
    expense budget donation tip fine wallet""".split()
)
_MONEY_VERBS = frozenset(
    """pay purchase buy refund withdraw reimburse donate sell repay disburse remit charge bid invest deposit tip
    rent transfer""".split()
)
"""Verbs whose amount is money whatever they are done to; of what is ordered, booked or sent there may be three."""


def _is_money(look: Look, name: Name, schema: Mapping[str, Json]) -> bool:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and any(kinds.of(key) & (kinds.CURRENCY | kinds.MONEY) for key in properties):
        return True  # whoever could name a currency and leaves it out says nothing else than whoever names it
    if look.currency or look.names_money or any(each.currency for each in look.amounts):
        return True
    if not _MONEY_VERBS.isdisjoint(name.verbs):
        return "transfer" not in name.verbs or not name.nouns or not _MONEY_NOUNS.isdisjoint(name.nouns)
    return not _MONEY_NOUNS.isdisjoint(name.nouns)


_PLACES = frozenset("production prod prd staging stage stg uat preprod development dev sandbox".split())


_CARRIERS = frozenset("mail email sms webhook message gmail smtp".split())


def sends(name: Name) -> bool:
    """A call of this name tells somebody something."""
    if name.family is Family.SEND:
        return True
    return name.family in {None, Family.START, Family.RUN} and not _CARRIERS.isdisjoint(name.tokens)


@lru_cache(maxsize=64)
def _plain_domains(domains: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(domain.lower().strip().lstrip("@.").rstrip(".") for domain in domains)


def _by_format(look: Look, args: Mapping[str, Json], schema: Mapping[str, Json]) -> None:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for key, told in properties.items():
        if isinstance(told, Mapping) and told.get("format") == "email" and isinstance(args.get(key), str):
            look.recipients(key, args[key])


def _told(look: Look, name: Name, domains: tuple[str, ...], *, is_money: bool) -> list[Fact]:
    noted = _noted(look.found, domains) if look.found else []
    return [*_measured(look, name, is_money=is_money), *noted, *_flagged(look)]


def _measured(look: Look, name: Name, *, is_money: bool) -> list[Fact]:
    facts: list[Fact] = []
    if look.count:
        noun = _counted_noun(look.count_key, name.nouns)
        many = look.count > _MANY and not look.is_read
        says = counted(look.count, noun) + (f" {look.count_also}" if look.count_also else "")
        facts.append(Fact("count", look.count, says, hurts=many or bool(look.count_also), unit=many_of(noun)))
    if look.size:
        facts.append(Fact("bytes", look.size, _sized(look.size)))
    if look.amounts:
        facts += _amounts(look) if is_money else _numbers(look)
    if look.environment:
        production = look.environment == "production"
        facts.append(Fact("environment", look.environment, f"in {look.environment}", hurts=production))
    return facts


def _flagged(look: Look) -> list[Fact]:
    facts: list[Fact] = []
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
        facts.append(Fact("unscanned", True, f"{counted(look.unscanned, 'further value')} not looked at", hurts=True))
    return facts


def _noted(found: dict[str, dict[str, Any]], domains: tuple[str, ...]) -> list[Fact]:
    facts: list[Fact] = []
    for what, values in found.items():
        if not values:
            continue
        match what:
            case "recipients":
                facts += _recipients(tuple(values), domains, sure="recipients" not in found.get("unreadable", ()))
            case "paths":
                facts.append(_paths(values))
            case "links":
                facts.append(Fact(what, list(values), f"links to {_joined(values)}", hurts=any(values.values())))
            case "promised":
                facts.append(Fact(what, list(values.values()), f"promises {_joined(values)}", hurts=True))
            case "operation":
                asked = ", ".join(value for value in values if value)
                facts.append(Fact(what, asked, f"asks for {shortened(asked, 120)}"))
            case "statements":
                facts.append(Fact(what, list(values), f"SQL {_joined(values).upper()}"))
            case "unreadable":
                facts.append(_unreadable(values))
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
}


def _unreadable(why: Mapping[str, str]) -> Fact:
    unread = [name for name in why if not why[name]]
    says = [says for says in why.values() if says]
    if unread:
        says.insert(0, f"could not be read: {_joined(unread)}")
    return Fact("unreadable", list(why), ", ".join(says), hurts=bool(unread))


@lru_cache(maxsize=1024)
def _counted_noun(key: str, nouns: tuple[str, ...]) -> str:
    parts = [word for word in words(key) if word not in {"id", "ids", "list", "uuid", "uuids"}]
    noun = one_of(parts[-1]) if parts else ""
    if noun in {"to", "cc", "bcc", "email"}:
        return "recipient"
    return noun if noun not in _SAYS_NOTHING else one_of((nouns or ("item",))[-1])


_SAYS_NOTHING = frozenset({"", "item", "path", "target", "value", "name", "entry"})


def _sized(size: int) -> str:
    scaled = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if scaled < 1000:
            return f"{scaled:.0f} {unit}" if unit == "bytes" else f"{scaled:.1f} {unit}"
        scaled /= 1000
    return f"{scaled:,.1f} TB"


def _numbers(look: Look) -> list[Fact]:
    """The same facts for rules where nothing says that it is money, told without cents."""
    numbers = [each.amount for each in look.amounts]
    largest = max(look.amounts, key=lambda each: abs(each.amount))
    total = sum((abs(each) for each in numbers), Decimal(0))
    says = _several(look, [_either(each) for each in look.amounts], f"amount {_either(largest)}", "number")
    doubtful = any(each.other is not None for each in look.amounts)
    much = abs(largest.amount) >= _MUCH
    facts = [Fact("amount", float(abs(largest.amount)), says + doubtful * _TWO_WAYS, hurts=much or doubtful)]
    if len(numbers) > 1:
        facts.append(Fact("total", float(total), f"{_plainly(total)} in all", hurts=total >= _MUCH))
    return facts


_TWO_WAYS = ", it can be read in two ways"


def _either(money: Money) -> str:
    return _plainly(money.amount) + ("" if money.other is None else f" or {_plainly(money.other)}")


def _several(look: Look, each: Sequence[str], largest: str, noun: str) -> str:
    """The amounts, none of them in a way that it could be taken for another: an old price is not the new one."""
    if len(each) == 1:
        return largest
    keys = look.amount_keys
    if len(set(keys)) == 1:
        return f"{largest}, the largest of {counted(len(each), noun)}"
    if len(set(keys)) == len(each) <= _MOST_KEYED and look.names.issuperset(keys):
        named = sorted(
            (" ".join(word for word in words(key) if word not in _SCALED) or "amount", said)
            for key, said in zip(keys, each, strict=True)
        )
        if all(len(name) <= _LONGEST_KEY and name.replace(" ", "").isascii() for name, _ in named):
            return ", ".join(f"{name} {said}" for name, said in named)
    return f"{counted(len(each), noun)}, up to {largest.removeprefix('amount ')}"


_SCALED = frozenset({"cent", "cents"})
"""Their amounts are told in whole units."""
_MOST_KEYED = 3
_LONGEST_KEY = 40


def _plainly(number: Decimal) -> str:
    return f"{number.normalize():,f}"


def _amounts(look: Look) -> list[Fact]:
    largest = max(look.amounts, key=lambda money: abs(money.amount))
    named = {each.currency for each in look.amounts if each.currency} | ({look.currency} if look.currency else set())
    currency = SEVERAL_CURRENCIES if len(named) > 1 else next(iter(named), "")
    shown = "" if currency == SEVERAL_CURRENCIES else currency
    each = [str(replace(one, currency=one.currency or shown)) for one in look.amounts]
    doubtful = any(one.other is not None for one in look.amounts)
    if currency and not shown and len(each) > 1:
        says = _joined(each)
    else:
        says = _several(look, each, str(replace(largest, currency=largest.currency or shown)), "amount")
    much = abs(largest.amount) >= _MUCH
    facts = [Fact("amount", float(abs(largest.amount)), says + doubtful * _TWO_WAYS, hurts=much or doubtful)]
    if len(look.amounts) > 1 and (shown or not currency):
        total = Money(sum((abs(each.amount) for each in look.amounts), Decimal(0)), shown)
        facts.append(Fact("total", float(total.amount), f"{total} in all", hurts=total.amount >= _MUCH))
    if currency:
        says = f"in {currency}" if shown else "in more than one currency"
        facts.append(Fact("currency", currency, says, hurts=not shown))
    return facts


def _recipients(recipients: tuple[str, ...], domains: tuple[str, ...], *, sure: bool) -> list[Fact]:
    says = f"to {_joined(recipients)}" + ("" if sure else ", not read for certain")
    facts = [Fact("recipients", list(recipients), says, hurts=not sure)]
    if domains and (outside := len([whom for whom in recipients if is_outside(whom, domains)])):
        ours = domains[0] if len(domains) == 1 else "our domains"
        among = f"{outside} of {counted(len(recipients), 'recipient')} {'is' if outside == 1 else 'are'}"
        whom = "the recipient is" if len(recipients) == 1 else among
        facts.append(Fact("external", outside, f"{whom} outside {ours}", hurts=True))
    return facts


def _paths(paths: Mapping[str, tuple[str, ...]]) -> Fact:
    marked = [f"{path} ({', '.join(marks)})" if marks else path for path, marks in islice(paths.items(), 5)]
    hurts = any(not ALARMING.isdisjoint(marks) for marks in paths.values())
    says = ", ".join(marked) + (f" and {len(paths) - 5:,} more" if len(paths) > 5 else "")
    return Fact("paths", list(paths), says, hurts=hurts)


def _joined(parts: Collection[str]) -> str:
    shown = ", ".join([shortened(part, 120) for part in islice(parts, 5)])
    return shown if len(parts) <= 5 else f"{shown} and {len(parts) - 5:,} more"


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
        if name == "amount":
            view.pop("total", None)
    return view
