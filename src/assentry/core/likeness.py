"""What is like a request: limits inferred from its facts and arguments, each as a sentence and as a condition.

Narrow unless a person widens it. What could not be read for certain gives no limit: the error names it.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from assentry.core import argument_kinds as kinds
from assentry.core.action import Action, Assessment, Json
from assentry.core.facts import domain_of, fact_view, facts_of, folder_of
from assentry.core.grant import Grant, why_not
from assentry.core.names import words
from assentry.core.place_text import environment_in
from assentry.core.secret_text import is_secret_key, is_secret_name
from assentry.core.text import counted, shortened
from assentry.errors import InvalidDecision

EXAMPLES = 3
REST = "rest"
_ENVIRONMENTS = frozenset("env environment stage tier".split())
_DIRECTORIES = frozenset("dir dirs directory directories folder folders root cwd workdir".split())
"""What stands here is a folder itself, so those beside it are not like it."""
_LONGEST_TEXT = 150
_LONGEST_LITERAL = 300
_SEALED = "⟨secret"
_READ = {
    "recipients": "recipients", "folder": "paths", "environment": "environment", "count": "count", "amount": "amount",
    "links": "links", "promised": "promised",
}  # fmt: skip
"""The fact that each limit is about."""
INFERRED = frozenset(_READ)
_WORDS = {
    "recipients": "recipients", "folder": "files", "environment": "environment", "amount": "amount", "links": "links",
    "promised": "promised amounts",
}  # fmt: skip
_ABSENT = {
    "recipients": "facts.recipients.size() == 0", "folder": "facts.paths.size() == 0",
    "environment": 'facts.environment == ""', "amount": "facts.amount == 0.0 && facts.total == 0.0",
    "links": "facts.links.size() == 0", "promised": "facts.promised.size() == 0",
}  # fmt: skip
"""What must hold of a similar request where this one has none."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit: what a similar request has to have in common with this one."""

    name: str
    says: str
    cel: str


@dataclass(frozen=True, slots=True)
class Likeness:
    """The limits of what is like a request, and the arguments that they leave open."""

    bounds: tuple[Bound, ...]
    open: tuple[str, ...] = ()


def likeness_of(action: Action, assessment: Assessment, wide: Collection[str] = ()) -> Likeness:
    """What is like this call; `wide` names limits that need not be inferred."""
    facts = {fact.name: fact for fact in assessment.facts}
    view = fact_view(assessment.facts)
    for name in ("truncated", "unscanned"):
        if name in facts:
            raise InvalidDecision("it was not read in full, so nothing can be said to be like it; decide it alone")
    for name, fact in _READ.items():
        unclear = fact not in view or (name == "folder" and "folders" not in view)
        if unclear and name not in wide and not (name == "count" and "unbounded" in facts):
            raise InvalidDecision(
                f"its {fact} could not be read for certain, so nothing can be said to be like it there"
            )
    units = {fact.name: fact.unit for fact in assessment.facts}
    bounds = list(_of_facts(view, units.get("count") or "things"))
    left_open = list[str]()
    for key, value in action.args.items():
        bound = _of_argument(key, value, view, wide)
        if bound is None:
            left_open.append(key)
        elif bound.cel:
            bounds.append(bound)
    return Likeness((*bounds, _rest(action, view)), tuple(left_open))


def joined(condition: str, bounds: Sequence[Bound]) -> str:
    """The condition under which both it and every limit hold."""
    own = [f"({condition})"] if condition and bounds else [condition] if condition else []
    return " && ".join((*own, *(bound.cel for bound in bounds)))


def _number(amount: float, currency: str) -> str:
    """Every digit of it, and with a currency at least two decimals."""
    exact = Decimal(repr(amount))
    short = bool(currency) and int(exact.as_tuple().exponent) >= -2
    return f"{exact:,.2f}" if short else f"{exact.normalize():,f}"


def _of_facts(view: Mapping[str, Any], unit: str) -> Iterator[Bound]:
    if view.get("recipients"):
        domains = _texts(view["domains"])
        people = all("@" in each for each in view["recipients"])
        says = f"only to {'people at ' if people else ''}{_either(domains)}"
        yield Bound("recipients", says, f"facts.recipients.size() > 0 && facts.domains.all(d, d in {_cel(domains)})")
    if view.get("folders"):
        folders = _texts(view["folders"])
        shown = ["the working directory" if each == "." else each.removeprefix("./") for each in folders]
        yield Bound("folder", f"only files in {_either(shown)}", f"facts.folders.all(f, f in {_cel(folders)})")
    if view.get("environment"):
        where = str(view["environment"])
        yield Bound("environment", f"only in {where}", f"facts.environment == {_cel(where)}")
    if "count" in view:
        most = max(1, int(view["count"]))
        yield Bound("count", f"at most {counted(most, unit)} each time", f"facts.count <= {most}")
    if view.get("amount"):
        amount, currency = float(view["amount"]), str(view.get("currency", ""))
        total = max(amount, float(view.get("total") or 0))
        cel = f"facts.amount <= {_cel(amount)} && facts.total <= {_cel(total)} && facts.currency == {_cel(currency)}"
        yield Bound("amount", f"at most {_number(amount, currency)} {currency}".rstrip() + " each time", cel)
    if view.get("links"):
        hosts = _texts(view["links"])
        yield Bound("links", f"only links to {_either(hosts)}", f"facts.links.all(l, l in {_cel(hosts)})")
    if view.get("promised"):
        most_promised = max(map(float, view["promised"]))
        cel = f"facts.promised.all(p, p <= {_cel(most_promised)})"
        yield Bound("promised", f"promises of at most {most_promised:,.2f}", cel)


def _rest(action: Action, view: Mapping[str, Any]) -> Bound:
    """Nothing that this call does not have."""
    absent = [name for name, fact in _READ.items() if name in _ABSENT and fact in view and not view[fact]]
    terms = [f"args.all(k, k in {_cel(list(action.args))})", *(_ABSENT[name] for name in absent)]
    if not view.get("secret"):
        terms.append("!facts.secret")
    named = ["other arguments", *(_WORDS[name] for name in absent)]
    return Bound(REST, f"no {_either(named, len(named))}", " && ".join(terms))


def _of_argument(key: str, value: Json, view: Mapping[str, Any], wide: Collection[str]) -> Bound | None:
    """The limit of one argument; without a condition where a fact has it covered, none where it may be anything."""
    kind, name = kinds.of(key), f"arg:{key}"
    if is_secret_name(key) or (isinstance(value, str) and (_SEALED in value or is_secret_key(key, value))):
        return None
    if _is_covered(key, kind, value, view) and _DIRECTORIES.isdisjoint(words(key)):
        return Bound(name, "", "")
    where = f"args[{_cel(key)}]"
    program = bool(kind & kinds.PROGRAM)
    if isinstance(value, bool) or value is None:
        return Bound(name, f"{key} is {json.dumps(value)}", f"{where} == {_cel(value)}")
    if isinstance(value, int | float):
        if kind & kinds.TARGET or value < 0:
            return Bound(name, f"{key} is {value}", f"{where} == {_cel(value)}")
        return Bound(name, f"{key} at most {value:,}", f"{where} >= 0 && {where} <= {_cel(value)}")
    if isinstance(value, str) and not program and (kind & kinds.PROSE or _is_free(kind, value)):
        return None
    literal = _cel(value)
    if len(literal) > _LONGEST_LITERAL:
        if isinstance(value, list | tuple) and view.get("count", 0) >= len(value):
            return None
        if name in wide:
            return Bound(name, "", "")
        raise InvalidDecision(f"its argument {key} is too long to be compared; decide it alone")
    if isinstance(value, str):
        return Bound(name, f"{key} is {shortened(value, 60)}", f"{where} == {literal}")
    if isinstance(value, list | tuple):
        shown = ", ".join(shortened(str(each), 40) for each in value[:3]) + (" …" if len(value) > 3 else "")
        return Bound(name, f"{key} among {shown}", f"{where}.all(x, x in {literal})")
    return Bound(name, f"{key} is exactly the same", f"{where} == {literal}")


def _is_free(kind: int, text: str) -> bool:
    """Long, or several words in a field that does not say where or to what: it names nothing."""
    names = kinds.WHERE | kinds.OPERATION | kinds.SENDER
    return len(text) > _LONGEST_TEXT or "\n" in text or (not kind & names and " " in text.strip())


def _is_covered(key: str, kind: int, value: Json, view: Mapping[str, Any]) -> bool:
    """A limit about a fact says all there is to say of this argument."""
    if kind & kinds.PROGRAM:
        return False
    texts = value if isinstance(value, list | tuple) else [value]
    if kind & kinds.RECIPIENT and view.get("recipients") and all(type(each) is str for each in texts):
        return True
    if texts and view.get("folders") and all(type(each) is str and each in view["paths"] for each in texts):
        return True
    if view.get("amount") and kind & (kinds.AMOUNT | kinds.CURRENCY) and not isinstance(value, list | tuple):
        return True
    if view.get("environment") and not _ENVIRONMENTS.isdisjoint(words(key)) and isinstance(value, str):
        return environment_in(value) == str(view["environment"])
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return bool(number and kind & kinds.COUNT and 0 <= value <= view.get("count", -1))


def _either(texts: Sequence[str], most: int = 4) -> str:
    shown = [shortened(text, 80) for text in texts[:most]]
    shown += [f"{len(texts) - most:,} others"] if len(texts) > most else []
    return f"{', '.join(shown[:-1])} or {shown[-1]}" if len(shown) > 1 else shown[0]


def _texts(values: Any) -> list[str]:
    return list(dict.fromkeys(str(each) for each in values))


def _cel(value: Any) -> str:
    """The value as a condition writes it: what could not be seen there stands as its number."""
    written = json.dumps(value, ensure_ascii=False)
    return "".join(sign if " " <= sign <= "~" or sign.isalpha() else _numbered(sign) for sign in written)


def _numbered(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


# What it would newly cover


@dataclass(frozen=True, slots=True)
class Example:
    """A call that a grant would cover, by what is different in it."""

    says: str
    args: Mapping[str, Json]


def examples_of(
    grant: Grant, action: Action, assessment: Assessment, now: datetime, domains: Sequence[str] = ()
) -> tuple[Example, ...]:
    """Calls like this one, each with one argument changed, that the grant covers; the most alarming ones first."""
    found: dict[str, Example] = {}
    own = {fact.name for fact in facts_of(action.name, action.args, domains=domains)}
    others = tuple(fact for fact in assessment.facts if fact.name not in own)
    for key, value in action.args.items():
        for other in _others(key, value):
            args = {**action.args, key: other}
            facts = facts_of(action.name, args, domains=domains)
            named = {fact.name for fact in facts}
            changed = replace(assessment, facts=(*facts, *(fact for fact in others if fact.name not in named)))
            if why_not(grant, replace(action, args=args), changed, now) is None:
                shown = other if isinstance(other, str) else json.dumps(other, ensure_ascii=False)
                if isinstance(other, list) and all(isinstance(each, str) for each in other):
                    shown = ", ".join(map(str, other))
                found[key] = Example(f"the same with {key}: {shortened(shown, 80)}", args)
                break
    ranked = sorted(found, key=lambda key: (found[key].args[key] not in _ALARMING, bool(kinds.of(key) & kinds.PROSE)))
    return tuple(found[key] for key in ranked[:EXAMPLES])


_ALARMING = ("production", "somebody@elsewhere.example", "/etc/passwd", ["somebody@elsewhere.example"], ["/etc/passwd"])


def _others(key: str, value: Json) -> Iterator[Json]:
    """Other values for an argument, the most alarming first."""
    kind = kinds.of(key)
    if isinstance(value, bool) or value is None:
        yield not value
    elif isinstance(value, int | float):
        yield from (value * 1_000, value * 10, value - 1, value / 2 if isinstance(value, float) else value // 2)
    elif isinstance(value, list | tuple):
        for at, each in enumerate(value[:1]):
            for other in _others(key, each):
                yield from ([*value, other], [*value[:at], other, *value[at + 1 :]])
    elif isinstance(value, str):
        if kind & kinds.PLACE:
            yield "production"
        if "@" in value:
            yield from ("somebody@elsewhere.example", f"somebody.else@{domain_of(value)}")
        if kind & kinds.PATH or "/" in value:
            folder = (folder_of(value) or ".").removeprefix("./")
            yield from ("/etc/passwd", "another-file" if folder == "." else f"{folder}/another-file")
        if kind & (kinds.AMOUNT | kinds.COUNT):
            yield "1"
        yield "anything else"
