"""A policy document becomes a `Policy`, or one error that lists everything wrong with it, line by line.

Each section has a function here and a table in `KEYS`; the published JSON Schema is held to the same table by a
test. What only shows when the whole file is known is looked at in `policy_checks`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from assentry.core.action import Declaration, Json, Reach, Risk
from assentry.core.condition import compile_condition
from assentry.core.policy import (
    ONE_PERSON,
    PRESETS,
    AgentEntry,
    Declared,
    Limits,
    Mode,
    Option,
    PerRisk,
    Person,
    Policy,
    Rule,
)
from assentry.core.policy_checks import check_policy
from assentry.core.policy_document import to_document
from assentry.core.policy_rotas import ROTA_KEYS, TURN_KEYS, read_rotas
from assentry.core.policy_text import Complaints, Lines, Node, Reader, did_you_mean, quoted, read_yaml
from assentry.core.verdict import DEFAULT, AtEnd, GateKind, IfChanged, Ladder, Quorum, Rung
from assentry.errors import PolicyError

__all__ = ["KEYS", "load_policy", "stored_policy", "stored_warnings", "to_document"]

KEYS: dict[str, tuple[str, ...]] = {
    "policy": (
        *("version", "mode", "autonomy", "defaults", "floor", "limits", "reviewers", "ladder", "at_end"),
        *("self_review", "second_person", "retention", "organisation", "people", "rotas", "agents", "actions", "rules"),
    ),
    "levels": ("safe", "risky", "dangerous", "critical"),
    "limits": (
        *("scale", "confidence", "cost", "budget", "daily", "steps", "every", "pending", "per_minute", "denials"),
        *("fresh", "time", "window", "undo"),
    ),
    "organisation": ("domains",),
    "person": ("roles", "teams", "os_users", "email"),
    "rota": ROTA_KEYS,
    "turn": TURN_KEYS,
    "agent": ("owner", "trusted"),
    "declaration": ("reversible", "reach", "outside", "money", "risk", "instead_of_code", "confidence", "because"),
    "rule": (
        *("name", "actions", "agents", "when", "gate", "because", "says", "reviewers", "quorum", "ladder", "loops"),
        *("limit", "at_end", "window", "undo", "review", "if_changed", "options"),
    ),
    "quorum": ("count", "roles"),
    "rung": ("after", "remind", "tell", "rota"),
    "option": ("label", "consequence", "set", "action"),
}
"""Every key that a policy file may hold, by section."""

FORMAT = 1
_GATES = tuple(gate for gate in GateKind if gate is not GateKind.ASK)
_FLOORS = (GateKind.RUN, GateKind.WATCH, GateKind.HARD, GateKind.MANUAL, GateKind.FORBID)
_MOST = 1_000_000_000
_MOST_PEOPLE = 100
"""Who must approve one request."""
UNLIMITED = "unlimited"


def load_policy(
    text: str, file: str = "assentry.yaml", version: int = 0, *, now: datetime | None = None, stored: bool = False
) -> Policy:
    """The policy that `text` describes; raises one `PolicyError` with every complaint, each with its line.

    With `now` turns of rotas that are over count for nothing. A `stored` one was checked when it was applied, so it is
    only read, and has no warnings: every process does that whenever it hears of a change, and requests that nobody can
    approve are safer than no policy.
    """
    complaints = Complaints(file)
    root = read_yaml(text, complaints)
    if root is None or (not root.value and (root.value is None or root.is_map)):
        return replace(PRESETS["balanced"], version=version, warnings=(f"{file}:1: {_nothing(text)}",))
    _expect_mapping(root, complaints)
    lines: Lines = {}
    policy = _policy(Reader(complaints), root, lines, version)
    if not stored:
        check_policy(policy, lines, complaints, now)
    complaints.raise_if_any()
    return policy if stored else policy.warned(complaints.warnings)


def _nothing(text: str) -> str:
    """What a file that sets nothing is taken as."""
    is_commented = any(line.strip() for line in text.splitlines())
    what = "the file sets nothing" if is_commented else "the file is empty"
    return (
        f"{what}, which is the same as no policy: autonomy balanced and no rules; "
        "write autonomy:, people: or rules:, or remove the file"
    )


def _expect_mapping(root: Node, complaints: Complaints) -> None:
    """A policy has keys at the top; what has none is told how to begin."""
    if root.is_map:
        return
    if root.is_list and any(each.is_map and not set(KEYS["rule"]).isdisjoint(each.value) for each in root.value):
        remedy = "these look like rules; write `rules:` on the first line and indent them below it"
    else:
        remedy = "write lines of the form `key: value`, such as `autonomy: balanced`"
    what = "a list" if root.is_list else quoted(root.value)
    complaints.add(root.line, f"the policy is {what}, not a mapping; {remedy}")
    complaints.raise_if_any()


@lru_cache(maxsize=8)
def stored_policy(text: str, version: int) -> Policy:
    """The policy that the store holds as this version."""
    return load_policy(text, _named(version), version, stored=True)


@lru_cache(maxsize=8)
def stored_warnings(text: str, version: int, now: datetime | None = None) -> tuple[str, ...]:
    """What checking that version says today; a complaint too, since it is active whatever is wrong with it."""
    try:
        return load_policy(text, _named(version), version, now=now).warnings
    except PolicyError as problem:
        return problem.complaints


def _named(version: int) -> str:
    return f"policy version {version}"


def _policy(reader: Reader, root: Node, lines: Lines, version: int) -> Policy:
    table = reader.table(root, "the policy", KEYS["policy"])
    lines.update({("", key): node.line for key, node in table.items()})
    limited = table["limits"].value if "limits" in table and table["limits"].is_map else {}
    lines.update({("", f"limits.{key}"): node.line for key, node in limited.items()})
    preset = _preset(reader, table.get("autonomy"))
    limits = _limits(reader, table["limits"], preset.limits) if "limits" in table else preset.limits
    ladder = _ladder(reader, table, Ladder(limit=limits.time), GateKind.HARD) or Ladder(limit=limits.time)
    policy = replace(
        preset,
        version=version,
        limits=limits,
        ladder=ladder,
        defaults=_levels(reader, table.get("defaults"), "defaults", preset.defaults, _GATES),
        floor=_levels(reader, table.get("floor"), "floor", preset.floor, _FLOORS),
        reviewers=reader.texts(table["reviewers"], "reviewers") if "reviewers" in table else (),
        mode=(reader.choice(table["mode"], "mode", Mode) if "mode" in table else None) or Mode.ENFORCE,
        self_review=_self_review(reader, table.get("self_review")),
        second_person=_second_person(reader, table.get("second_person")),
        retention=reader.duration(table["retention"], "retention") if "retention" in table else None,
        domains=_domains(reader, table.get("organisation")),
        people=_people(reader, table.get("people")),
        rotas=read_rotas(reader, table.get("rotas")),
        agents=_agents(reader, table.get("agents")),
        declared=_declared(reader, table.get("actions")),
        rules=_rules(reader, table.get("rules"), ladder, lines),
    )
    if "version" in table and table["version"].value != FORMAT:
        reader.complaints.add(table["version"].line, f"version is not {FORMAT}; write version: {FORMAT} or remove it")
    return policy


def _preset(reader: Reader, node: Node | None) -> Policy:
    if node is None:
        return PRESETS["balanced"]
    name = reader.text(node, "autonomy") or ""
    if name and name not in PRESETS:
        reader.complaints.add(node.line, f"autonomy is {quoted(name)}; {did_you_mean(name, PRESETS)}")
    return PRESETS.get(name, PRESETS["balanced"])


def _levels(reader: Reader, node: Node | None, what: str, levels: PerRisk, allowed: tuple[GateKind, ...]) -> PerRisk:
    if node is None:
        return levels
    for key, each in reader.table(node, what, KEYS["levels"]).items():
        gate = reader.choice(each, f"{what}.{key}", GateKind, allowed)
        if gate is GateKind.SOFT and key in ("dangerous", "critical"):
            text = f"{what}.{key} cannot be soft: silence never lets a {key} action pass; use hard"
            reader.complaints.add(each.line, text)
        elif gate is not None:
            levels = replace(levels, **{key: gate})
    return levels


def _limits(reader: Reader, node: Node, limits: Limits) -> Limits:
    for key, each in reader.table(node, "limits", KEYS["limits"]).items():
        what = f"limits.{key}"
        match key:
            case "scale":
                limits = replace(limits, scale=reader.whole(each, what, 1, _MOST) or limits.scale)
            case "confidence":
                sure = reader.number(each, what, 0, 1)
                limits = replace(limits, confidence=limits.confidence if sure is None else sure)
            case "cost":
                limits = replace(limits, cost=reader.number(each, what, 0, _MOST))
            case "budget":
                limits = replace(limits, budget=reader.number(each, what, 0, _MOST))
            case "daily":
                limits = replace(limits, daily=reader.number(each, what, 0, _MOST))
            case "steps":
                limits = replace(limits, steps=reader.whole(each, what, 1, _MOST))
            case "every":
                limits = replace(limits, every=reader.duration(each, what))
            case "pending":
                limits = replace(limits, pending=_whole_or_unlimited(reader, each, what))
            case "per_minute":
                limits = replace(limits, per_minute=_whole_or_unlimited(reader, each, what))
            case "denials":
                limits = replace(limits, denials=_whole_or_unlimited(reader, each, what))
            case "fresh":
                limits = replace(limits, fresh=reader.duration(each, what) or limits.fresh)
            case "time":
                limits = replace(limits, time=_time_or_never(reader, each, what))
            case "window":
                limits = replace(limits, window=reader.duration(each, what) or limits.window)
            case _:
                limits = replace(limits, undo=reader.duration(each, what) or limits.undo)
    return limits


def _whole_or_unlimited(reader: Reader, node: Node, what: str) -> int | None:
    return None if node.value == UNLIMITED else reader.whole(node, what, 1, _MOST)


def _time_or_never(reader: Reader, node: Node, what: str) -> timedelta | None:
    return None if node.value == "never" else reader.duration(node, what, "never")


def _self_review(reader: Reader, node: Node | None) -> bool | None:
    if node is None:
        return None
    if node.value not in ("allow", "deny"):
        reader.complaints.add(node.line, "self_review must be allow or deny; deny is the safer choice")
    return bool(node.value == "allow")


def _second_person(reader: Reader, node: Node | None) -> bool:
    return node is not None and bool(reader.flag(node, "second_person"))


def _domains(reader: Reader, node: Node | None) -> tuple[str, ...]:
    table = {} if node is None else reader.table(node, "organisation", KEYS["organisation"])
    if "domains" not in table:
        return ()
    domains = reader.texts(table["domains"], "organisation.domains")
    for domain in domains:
        if "@" in domain or "/" in domain or " " in domain or "." not in domain:
            text = f"{quoted(domain)} is not a domain; write it as example.com"
            reader.complaints.add(table["domains"].line, text)
    return tuple(domain.lower() for domain in domains)


def _people(reader: Reader, node: Node | None) -> tuple[Person, ...]:
    if node is None:
        return ()
    people: list[Person] = []
    entries = reader.entries(node, "people")
    if node.is_map and not entries:
        reader.complaints.add(node.line, "people is empty, so nobody could decide; name somebody or remove the key")
    users: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for name, each in entries.items():
        if ":" in name:
            reader.complaints.add(each.line, f"the name {quoted(name)} contains a colon; use a plain name")
        table = {} if each.value is None else reader.table(each, f"people.{name}", KEYS["person"])
        lists = {
            key: reader.texts(table[key], f"{name}'s {key}") if key in table else ()
            for key in ("roles", "teams", "os_users")
        }
        for user in lists["os_users"]:
            if user in users:
                text = f"the os_user {quoted(user)} is both {users[user]} and {name}; each belongs to one person"
                reader.complaints.add(each.line, text)
            users[user] = name
        email = _email(reader, table["email"], name) if "email" in table else None
        if email and (other := addresses.setdefault(email.casefold(), name)) != name:
            text = f"{quoted(email)} is the address of both {other} and {name}; each belongs to one person"
            reader.complaints.add(each.line, text)
        people.append(Person(name, **lists, email=email or ""))
    return tuple(people)


_ADDRESS = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+")


def _email(reader: Reader, node: Node, name: str) -> str:
    """One plain address; a person without one has no such key."""
    written = "" if node.value is None else node.value
    if isinstance(written, str) and len(written) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(written):
        return written
    is_now = "empty" if written == "" else quoted(written) if not (node.is_map or node.is_list) else "not a text"
    remedy = f"write one address such as {_plain_name(name)}@example.com, or remove the key"
    reader.complaints.add(node.line, f"{name}'s email is {is_now}; {remedy}")
    return ""


_LONGEST_ADDRESS = 320


def _plain_name(name: str) -> str:
    return name if re.fullmatch(r"[\w.-]{1,40}", name, re.ASCII) else "name"


def _agents(reader: Reader, node: Node | None) -> tuple[AgentEntry, ...]:
    found: list[AgentEntry] = []
    for name, each in ({} if node is None else reader.entries(node, "agents")).items():
        table = {} if each.value is None else reader.table(each, f"agents.{name}", KEYS["agent"])
        owner = reader.text(table["owner"], f"{name}'s owner") if "owner" in table else None
        trusted = reader.flag(table["trusted"], f"{name}'s trusted") if "trusted" in table else True
        found.append(AgentEntry(name, owner or "", bool(trusted)))
    return tuple(found)


def _declared(reader: Reader, node: Node | None) -> tuple[Declared, ...]:
    found: list[Declared] = []
    for name, each in ({} if node is None else reader.entries(node, "actions")).items():
        table = reader.table(each, f"actions.{name}", KEYS["declaration"])
        answers: dict[str, Json] = {}
        for key, answer in table.items():
            what = f"{key} of {name}"
            match key:
                case "reach":
                    answers[key] = reader.choice(answer, what, Reach)
                case "risk":
                    answers[key] = reader.choice(answer, what, Risk)
                case "because" | "confidence" | "instead_of_code":
                    pass
                case _:
                    answers[key] = reader.flag(answer, what)
        if not answers and "confidence" not in table and each.is_map:
            text = f"{quoted(name)} declares nothing; say reversible, reach, outside, money, risk or confidence"
            reader.complaints.add(each.line, text)
        instead = table.get("instead_of_code")
        replaces = instead is not None and bool(reader.flag(instead, f"instead_of_code of {name}"))
        if instead is not None and not answers:
            text = f"{quoted(name)} has no answer to replace the code's; add reversible, reach, outside, money or risk"
            reader.complaints.add(instead.line, text)
        because = reader.text(table["because"], f"because of {name}") if "because" in table else None
        sure = reader.number(table["confidence"], f"confidence of {name}", 0, 1) if "confidence" in table else None
        found.append(Declared(name, Declaration(**answers), because or "", replaces, sure))
    return tuple(found)


def _rules(reader: Reader, node: Node | None, ladder: Ladder, lines: Lines) -> tuple[Rule, ...]:
    found: dict[str, Rule] = {}
    nodes = [] if node is None or node.value is None else reader.items(node, "rules")
    for each in nodes:
        rule = _rule(reader, each, ladder)
        reader.complaints.name(reader.complaints.rule, range(each.line, _last_line(each) + 1))
        if rule.name in found:
            text = f"another rule on line {found[rule.name].line} has this name; rename one"
            reader.complaints.add(each.line, text)
        reader.complaints.rule = ""
        found[rule.name] = rule
        lines.update({(rule.name, key): value.line for key, value in (each.value if each.is_map else {}).items()})
    return tuple(found.values())


def _last_line(node: Node) -> int:
    inner = node.value.values() if node.is_map else node.value if node.is_list else ()
    return max((_last_line(each) for each in inner), default=node.line)


class _Times(NamedTuple):
    window: timedelta | None
    undo: timedelta | None


def _rule(reader: Reader, node: Node, default: Ladder) -> Rule:
    complaints = reader.complaints
    name_node = node.value.get("name") if node.is_map else None
    complaints.rule = name_node.value if name_node is not None and isinstance(name_node.value, str) else ""
    table = reader.table(node, "a rule", KEYS["rule"])
    name = reader.text(table["name"], "name", 100) if "name" in table else None
    if "name" not in table and node.is_map:
        complaints.add(node.line, "the rule has no name; add name: so that people know which rule held something")
    if name is not None and name.startswith(DEFAULT.strip()):
        complaints.add(table["name"].line, "a rule's name cannot begin with default:, which stands for no rule")
    gate = reader.choice(table["gate"], "gate", GateKind) if "gate" in table else None
    if "gate" not in table and node.is_map:
        complaints.add(node.line, "the rule has no gate; add gate: run, watch, soft, hard, manual or forbid")
    gate = gate or GateKind.HARD
    times = _times(reader, table, gate)
    return Rule(
        name=name or f"rule on line {node.line}",
        actions=reader.texts(table["actions"], "actions") if "actions" in table else ("*",),
        agents=reader.texts(table["agents"], "agents") if "agents" in table else ("*",),
        when=_when(reader, table.get("when")),
        gate=gate,
        because=(reader.text(table["because"], "because", 500) if "because" in table else None) or "",
        reviewers=reader.texts(table["reviewers"], "reviewers") if "reviewers" in table else (),
        quorum=_quorum(reader, table.get("quorum")),
        ladder=_ladder(reader, table, default, gate),
        window=times.window,
        undo=times.undo,
        review_after=_review(reader, table.get("review")),
        if_changed=(reader.choice(table["if_changed"], "if_changed", IfChanged) if "if_changed" in table else None)
        or IfChanged.ASK,
        options=_options(reader, table.get("options")),
        says=(reader.text(table["says"], "says", 500) if "says" in table else None) or "",
        line=node.line,
    )


def _times(reader: Reader, table: Mapping[str, Node], gate: GateKind) -> _Times:
    if "window" in table and gate is not GateKind.SOFT:
        reader.complaints.add(table["window"].line, "window is for soft gates; use limit for how long to wait")
    return _Times(*(reader.duration(table[key], key) if key in table else None for key in ("window", "undo")))


def _when(reader: Reader, node: Node | None) -> str:
    if node is None:
        return ""
    text = "true" if node.value is True else "false" if node.value is False else reader.text(node, "when")
    if text is None:
        return ""
    try:
        compile_condition(text)
    except PolicyError as error:
        reader.complaints.add(node.line, f"when: {error}")
        return ""
    return text


def _quorum(reader: Reader, node: Node | None) -> Quorum:
    if node is None:
        return ONE_PERSON
    if not node.is_map:
        return Quorum(reader.whole(node, "quorum", 1, _MOST_PEOPLE) or 1)
    table = reader.table(node, "quorum", KEYS["quorum"])
    roles = reader.texts(table["roles"], "quorum.roles") if "roles" in table else ()
    roles = tuple(role.removeprefix("role:") for role in roles)
    if len(roles) > _MOST_PEOPLE:
        reader.complaints.add(node.line, f"quorum.roles names more than {_MOST_PEOPLE} roles; name fewer")
        return ONE_PERSON
    most = _MOST_PEOPLE
    count = reader.whole(table["count"], "quorum.count", 1, most) if "count" in table else max(1, len(roles))
    if count is not None and count < len(roles):
        text = f"quorum wants {count} of {len(roles)} roles, each held by a person of its own; raise count"
        reader.complaints.add(node.line, text)
    return Quorum(count or 1, roles)


def _ladder(reader: Reader, table: Mapping[str, Node], default: Ladder, gate: GateKind) -> Ladder | None:
    """The ladder that these keys describe, or `None` if there are none. What is left out is the default's."""
    given = [key for key in ("ladder", "loops", "limit", "at_end") if key in table]
    if not given:
        return None
    rungs = _rungs(reader, table["ladder"]) if "ladder" in table else default.rungs
    loops = (reader.whole(table["loops"], "loops", 0, 1_000) or 0) if "loops" in table else default.loops
    limit = default.limit
    last = rungs[-1].after * (loops + 1) if rungs else timedelta(0)
    if "limit" in table:
        limit = _time_or_never(reader, table["limit"], "limit")
        if limit is not None and limit <= last:
            text = "limit ends before the last rung of the ladder is reached; raise limit or remove the rung"
            reader.complaints.add(table["limit"].line, text)
    elif limit is not None and limit <= last:
        limit += last
    at_end = _at_end(reader, table["at_end"], gate) if "at_end" in table else None
    return Ladder(rungs, loops, limit, at_end or default.at_end)


def _at_end(reader: Reader, node: Node, gate: GateKind) -> AtEnd | None:
    if gate is GateKind.SOFT:
        if node.value != "proceed":
            text = "a soft gate proceeds at its end; remove at_end, or use gate: hard to deny or stay"
            reader.complaints.add(node.line, text)
        return None
    if node.value in ("proceed", "approve"):
        text = f"at_end cannot be {node.value} on a {gate} gate: silence never approves; use deny or stay"
        reader.complaints.add(node.line, text)
        return None
    return reader.choice(node, "at_end", AtEnd, (AtEnd.DENY, AtEnd.STAY))


def _rungs(reader: Reader, node: Node) -> tuple[Rung, ...]:
    rungs: list[Rung] = []
    for each in reader.items(node, "ladder"):
        table = reader.table(each, "a rung", KEYS["rung"])
        after = reader.duration(table["after"], "after") if "after" in table else None
        if "after" not in table and each.is_map:
            reader.complaints.add(each.line, "a rung needs after:, how long after the request, such as 15m")
        remind = reader.flag(table["remind"], "remind") if "remind" in table else False
        tell = reader.texts(table["tell"], "tell") if "tell" in table else ()
        rota = reader.texts(table["rota"], "rota") if "rota" in table else ()
        if not (remind or tell or rota) and each.is_map:
            reader.complaints.add(each.line, "a rung does nothing; add remind: true, tell: or rota:")
        if after is not None and rungs and after <= rungs[-1].after:
            reader.complaints.add(each.line, "rungs count from the request on; put them in order of after:")
        rungs.append(Rung(after or timedelta(minutes=1), bool(remind), tell, rota))
    return tuple(rungs)


def _review(reader: Reader, node: Node | None) -> bool:
    if node is not None and node.value != "after":
        reader.complaints.add(node.line, "review has one word: after (look at it once it has run)")
    return node is not None


def _options(reader: Reader, node: Node | None) -> tuple[Option, ...]:
    options: list[Option] = []
    for each in [] if node is None else reader.items(node, "options"):
        table = reader.table(each, "an option", KEYS["option"])
        texts = {
            key: (reader.text(table[key], key, 500) if key in table else None) or ""
            for key in ("label", "consequence", "action")
        }
        if "label" not in table and each.is_map:
            reader.complaints.add(each.line, "an option needs a label:, the words on its button")
        values = reader.entries(table["set"], "set") if "set" in table else {}
        options.append(Option(**texts, set={name: value.plain for name, value in values.items()}))
    if len({option.label for option in options}) < len(options) and node is not None:
        reader.complaints.add(node.line, "two options have one label; a reviewer could not tell them apart")
    return tuple(options)
