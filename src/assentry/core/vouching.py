"""Tools that agents and MCP servers offer, and which of them people vouched for.

The name of an action is a claim. A tool that no trusted code guards here and that comes from a source which the
operator does not trust is unknown, whatever it is called, until the policy names it or a person vouches for it. What a
person vouches for is a definition: defined otherwise, it is another tool.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from hashlib import sha256

from assentry.core.action import NOTHING_DECLARED, QUESTIONS, Action, Declaration, Json, Reach, Risk
from assentry.core.audit import Entry
from assentry.core.canonical import canonical
from assentry.core.classify import profile
from assentry.core.copies import replace
from assentry.core.declared import Said
from assentry.core.policy import Policy
from assentry.core.request import Kind, Request

UNKNOWN_TOOL = "unknown tool"
"""Fires where a tool is not known: neither a rule nor a default, a grant or a claim lifts it."""
CARD = "tools"
"""The name of the request that lists the tools of one source."""
_REACHES = {
    Reach.NOTHING: "reads", Reach.LOCAL: "changes this machine", Reach.SERVICE: "changes a service",
    Reach.ORGANISATION: "reaches the whole organisation",
}  # fmt: skip
_WILDCARDS = frozenset("*?[]!")
_BODY = ("description", "arguments", "effect", "about")

Vouched = tuple[str, str, str]
"""Source, name and digest of a tool that somebody vouched for."""


class ToolState(Enum):
    """How a tool that somebody offers stands."""

    WAITING = "waiting"
    VOUCHED = "vouched"
    REFUSED = "refused"
    REVOKED = "revoked"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as whoever offers it describes it."""

    name: str
    description: str = ""
    arguments: Mapping[str, Json] | None = None
    """Their JSON schema."""
    claimed: Declaration = NOTHING_DECLARED
    """What is said of its effect."""
    about: Mapping[str, Json] = field(default_factory=dict)
    """What else is said of it, such as the annotations of an MCP server."""

    @property
    def digest(self) -> str:
        """The same for the same definition only."""
        said = [self.name, self.description, self.arguments, self.claims, self.about]
        return sha256(canonical(said).encode()).hexdigest()

    @property
    def claims(self) -> dict[str, Json]:
        """What is said of its effect, as JSON."""
        said = {name: getattr(self.claimed, name) for name in QUESTIONS}
        return {
            name: answer if isinstance(answer, bool) else str(answer)
            for name, answer in said.items()
            if answer is not None
        }

    @property
    def body(self) -> dict[str, Json]:
        """What a person is shown of it, beside its name."""
        said: dict[str, Json] = dict(
            zip(_BODY, (self.description, self.arguments, self.claims, self.about), strict=True)
        )
        return {name: value for name, value in said.items() if value}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """One definition of a tool that a source offers, and what people said of it."""

    workspace: str
    source: str
    """`agent:NAME`, or `agent:NAME/mcp:SERVER` for what an MCP server offers to that agent."""
    name: str
    digest: str
    body: Mapping[str, Json]
    """The definition without its name."""
    state: ToolState
    by: str
    """Who said so; where it waits, the agent."""
    at: datetime
    version: int = 1

    @property
    def key(self) -> Vouched:
        return self.source, self.name, self.digest


def source_of(agent: str, server: str = "") -> str:
    """Where a tool comes from: an agent, or an MCP server through that agent."""
    return f"agent:{agent}/mcp:{server}" if server else f"agent:{agent}"


def source_words(source: str) -> str:
    """The source for people."""
    agent, _, server = source.removeprefix("agent:").partition("/mcp:")
    return f"the MCP server {server} (agent {agent})" if server else f"agent {agent}"


def why_unknown(policy: Policy, action: Action, vouched: Collection[Vouched]) -> str:
    """Why the tool of this call is not known, in a sentence; empty if it is.

    Trusted code, a trusted agent and a trusted server vouch for what they offer. Else the operator declares it in full,
    in code or in `actions:`, or a person vouched for exactly this definition. A rule says what is to happen to a name,
    not what it is, so no rule makes a tool known.
    """
    if action.trusted or action.declared.is_complete or names(policy, action.name):
        return ""
    if (action.source, action.name, action.definition) in vouched:
        return ""
    if any(source == action.source and name == action.name for source, name, _ in vouched):
        return "the definition of this tool is not the one that somebody vouched for"
    return "nobody vouches for this tool: its name is a claim of whoever offers it"


def names(policy: Policy, action: str) -> bool:
    """The policy declares all that is to be known of this action. A pattern of nothing but wildcards names nothing."""
    found = policy.declaration_for(action) if policy.declared else None
    return found is not None and found.declaration.is_complete and not _WILDCARDS.issuperset(found.pattern)


def reading(definition: Definition) -> tuple[Risk, str]:
    """What we make of a tool that nobody vouches for: a guess, from its name, description, schema and claims."""
    said = Said(source=definition.claimed, trusted=False)
    found = profile(definition.name, definition.description, definition.arguments, said).base
    if not found.is_known:
        return found.risk, "not known: nothing says what it does"
    effect = found.effect
    parts = [
        _REACHES[effect.reach],
        *(["cannot be undone"] if not effect.reversible else []),
        *(["reaches outside"] if effect.outside else []),
        *(["costs money"] if effect.money else []),
    ]
    return found.risk, "probably " + ", ".join(parts)


def card_tool(definition: Definition, digest: str, before: OfferedTool | None = None) -> dict[str, Json]:
    """A tool as it stands on its card. `before` is the definition of this name that somebody vouched for."""
    risk, says = reading(definition)
    told = {"name": definition.name, "reading": says, "risk": str(risk), "digest": digest, **definition.body}
    if before is not None:
        now = definition.body
        changed = [name for name in _BODY if now.get(name) != before.body.get(name)]
        told["changed"] = {name: {"before": before.body.get(name), "now": now.get(name)} for name in changed}
        told["vouched_before"] = before.by
    return told


def is_card(request: Request) -> bool:
    """It lists tools, for a person to vouch for."""
    return request.ask.kind is Kind.TOOLS


def on_card(request: Request) -> tuple[dict[str, Json], ...]:
    """The tools that the card lists now."""
    return tuple(request.candidate.action.args.get("tools", ()))


def source_on(request: Request) -> str:
    """Whose tools they are."""
    return str(request.candidate.action.args.get("source", ""))


def waiting_tool(workspace: str, source: str, told: Mapping[str, Json], agent: str, now: datetime) -> OfferedTool:
    """A tool on a card, as nobody has decided about it."""
    body = {name: told[name] for name in _BODY if name in told}
    return OfferedTool(workspace, source, told["name"], told["digest"], body, ToolState.WAITING, agent, now)


def settled(request: Request, chosen: Collection[str], by: str, now: datetime) -> tuple[OfferedTool, ...]:
    """The tools of the card: vouched for where they are `chosen` (by digest), refused where not."""
    source, agent = source_on(request), request.ask.agent
    waiting = [waiting_tool(request.workspace, source, each, agent, now) for each in on_card(request)]
    return tuple(
        moved(each, ToolState.VOUCHED if each.digest in chosen else ToolState.REFUSED, by, now) for each in waiting
    )


def moved(tool: OfferedTool, state: ToolState, by: str, now: datetime) -> OfferedTool:
    """The tool, as this person said."""
    return replace(tool, state=state, by=by, at=now, version=tool.version + 1)


def entries_of(tools: Sequence[OfferedTool], by: str, now: datetime) -> tuple[Entry, ...]:
    """One entry for each source and each thing that was said; names and digests, no definitions."""
    groups: dict[tuple[str, str, ToolState], list[OfferedTool]] = {}
    for tool in tools:
        groups.setdefault((tool.workspace, tool.source, tool.state), []).append(tool)
    found: list[Entry] = []
    for (workspace, source, state), those in groups.items():
        kind = "tools.offered" if state is ToolState.WAITING else f"tools.{state}"
        body = {"names": [each.name for each in those], "digests": [each.digest for each in those]}
        found.append(Entry(kind, now, workspace, source, by, body))
    return tuple(found)


def picked(request: Request, wanted: Iterable[Json]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The digests on the card of tools that are named (by name or digest), and what names none of them."""
    found: set[str] = set()
    missing: list[str] = []
    for name in wanted:
        digests = {each["digest"] for each in on_card(request) if name in (each["name"], each["digest"])}
        found |= digests
        if not digests:
            missing.append(str(name))
    return frozenset(found), tuple(missing)


def chosen_in(text: str, listed: Sequence[str]) -> list[str]:
    """The names that a person typed: `all`, or names with commas, spaces or line ends between them."""
    if text.strip() == "all" and "all" not in listed:
        return list(listed)
    found: list[str] = []
    for part in text.replace("\n", ",").split(","):
        name = part.strip()
        found += [name] if name in listed else name.split()
    return found


def shown_on(tools: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    """The tools of a card as a person reads them, by name, with our reading first."""
    found: dict[str, Json] = {}
    for each in tools:
        told = {"our reading (a guess)": each["reading"]}
        if "changed" in each:
            told[f"changed since {each.get('vouched_before') or 'somebody'} vouched for it"] = each["changed"]
        told |= {name: each[name] for name in _BODY if name in each}
        if len(told) == 1:
            told["definition"] = "none was given: to vouch for it is to vouch for its name"
        name = each["name"] if each["name"] not in found else f"{each['name']} ({each['digest'][:8]})"
        found[name] = told
    return found
