"""Tools of agents and servers that nobody trusts: put before people on one card for each source, vouched for or not.

What is decided on the card is decided in the inbox like everything else; what people say beside it, here.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from uuid_utils.compat import uuid7

from assentry.core.action import Action, Declaration, Json, Reach
from assentry.core.advance import advance, opened
from assentry.core.authority import Principal, may_change
from assentry.core.canonical import canonical, digest
from assentry.core.change import Change
from assentry.core.decision import Cancel, Candidate, Relisted
from assentry.core.policy import Policy
from assentry.core.request import Ask, Kind, Question, Request, State
from assentry.core.secret_text import schema_without_secrets
from assentry.core.text import counted, shortened
from assentry.core.verdict import AtEnd, GateKind, Ladder, Verdict
from assentry.core.vouching import (
    CARD,
    Definition,
    OfferedTool,
    ToolState,
    card_tool,
    entries_of,
    moved,
    names,
    on_card,
    source_on,
    source_words,
    waiting_tool,
)
from assentry.engine.judgement import Context, Judgement
from assentry.engine.pressure import Throttle
from assentry.engine.sealing import no_secret, redacted
from assentry.engine.tool import tool
from assentry.errors import (
    AlreadyDecided,
    AssentryError,
    DuplicateStep,
    InvalidArguments,
    InvalidDecision,
    Limited,
    NotAllowed,
    NotFound,
    PolicyMoved,
    StaleRequest,
)
from assentry.ports import Filter, Store, Vault, View

log = logging.getLogger("assentry.vouching")

MOST_LISTED = 200
"""Tools on one card, and in one list."""
_MOST_TEXT = 512 * 1024
"""How large the definitions on one card may be together."""
_MOST_KNOWN = 2_000
"""Definitions that are kept of one source."""
ASKED_BY = "assentry"
_TITLE_NAMES = 6
_NOTHING = Declaration(True, Reach.NOTHING, False, False)
KNOWN = "known"
"""The word for a tool that needs nobody's word: the operator trusts its source, guards it here, or declares it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as it is offered, with the digest of that; what is shown of it has no secrets."""

    definition: Definition
    digest: str


class Vouching:
    """The tools that are offered in one workspace, put on record and before people."""

    def __init__(
        self, store: Store, workspace: str, judgement: Judgement, vault: Vault, throttle: Throttle,
        new_code: Callable[[], str],
    ) -> None:  # fmt: skip
        self._store, self._workspace, self._judgement = store, workspace, judgement
        self._vault, self._throttle, self._new_code = vault, throttle, new_code

    async def offered(self, agent: str, source: str, offers: Sequence[Offer]) -> dict[str, str]:
        """How each of these tools stands, by digest. Those that are new are on the open card of the source."""
        for offer in offers:
            no_secret("name of the tool", offer.definition.name)
        while True:
            known = {each.digest: each for each in await self._store.tools(self._workspace, source)}
            new = [each for each in offers if each.digest not in known and not self._is_named(each.definition.name)]
            if new:
                if len(known) + len(new) > _MOST_KNOWN:
                    raise Limited(agent, f"{source_words(source)} has listed more than {_MOST_KNOWN:,} tools")
                try:
                    await self._listed(agent, source, new, tuple(known.values()))
                except (StaleRequest, AlreadyDecided):
                    continue  # the card was decided, or grew, at the same moment: once more, from there
                known = {each.digest: each for each in await self._store.tools(self._workspace, source)}
            return {each.digest: str(known[each.digest].state) if each.digest in known else KNOWN for each in offers}

    def _is_named(self, name: str) -> bool:
        return names(self._judgement.policy, name)

    async def met(self, agent: str, source: str, offer: Offer) -> None:
        """A call of a tool that nobody knows is on record; the tool is on the card as well, if that may be."""
        try:
            await self.offered(agent, source, [offer])
        except AssentryError as problem:
            # The call waits by itself whatever becomes of the card.
            log.warning("the tool %r of %s is on no card: %s", offer.definition.name, source, problem)

    async def _listed(self, agent: str, source: str, new: Sequence[Offer], known: Sequence[OfferedTool]) -> None:
        vouched = [each for each in known if each.state is ToolState.VOUCHED]
        before = {each.name: each for each in sorted(vouched, key=lambda each: each.at)}
        told = [self._shown(each, before.get(each.definition.name)) for each in new]
        candidate = self._candidate(agent, source, told)
        asked = self._asked(agent, source, candidate)

        def open_card(view: View) -> Change:
            ask = replace(asked, created_at=view.now)
            change = opened(ask, view.now, worker="", lease=timedelta(0))
            tools = self._waiting(agent, source, told, view.now)
            return replace(change, tools=tools).also(*entries_of(tools, agent, view.now))

        try:
            async with self._throttle.admitted(agent, self._judgement.policy.limits):
                await self._store.transact(self._workspace, None, open_card)
        except DuplicateStep as there:
            await self._joined(there.request_id, agent, source, told)

    async def _joined(self, card_id: str, agent: str, source: str, told: Sequence[dict[str, Json]]) -> None:
        """The open card of the source lists these as well; whoever has looked at it looks again."""

        def step(view: View) -> Change | None:
            card = view.request
            if card is None or card.state is not State.PENDING:
                raise StaleRequest("the card was decided just now", request_id=card_id, code="", state="")
            listed = on_card(card)
            there = {each["digest"] for each in listed}
            more = [each for each in told if each["digest"] not in there]
            if not more:
                return None
            candidate = self._candidate(agent, source, [*listed, *more])
            change = advance(card, Relisted(candidate, (f"{counted(len(more), 'more tool')}",), agent), view.now)
            assert change is not None  # noqa: S101  it waits
            tools = self._waiting(agent, source, more, view.now)
            return replace(change, tools=tools).also(*entries_of(tools, agent, view.now))

        await self._store.transact(self._workspace, card_id, step)

    def _waiting(
        self, agent: str, source: str, told: Sequence[dict[str, Json]], now: datetime
    ) -> tuple[OfferedTool, ...]:
        return tuple(waiting_tool(self._workspace, source, each, agent, now) for each in told)

    def _shown(self, offer: Offer, before: OfferedTool | None) -> dict[str, Json]:
        """The tool as it stands on the card, without secrets."""
        made = offer.definition
        arguments = schema_without_secrets(made.arguments) if made.arguments is not None else None
        description = str(redacted(self._vault, made.description))
        about = redacted(self._vault, dict(made.about))
        clean = replace(made, description=description, arguments=arguments, about=about)
        return card_tool(clean, offer.digest, before)

    def _candidate(self, agent: str, source: str, told: Sequence[dict[str, Json]]) -> Candidate:
        return card_candidate(self._judgement, agent, source, told)

    def _asked(self, agent: str, source: str, candidate: Candidate) -> Ask:
        return Ask(
            id=str(uuid7()), code=self._new_code(), workspace=self._workspace, kind=Kind.TOOLS, agent=agent,
            asked_by=ASKED_BY, created_at=datetime.now(UTC), candidate=candidate,
            question=Question(
                "Which of these tools do you vouch for?", (), {"type": "array", "items": {"type": "string"}},
            ),
            same=digest(CARD, source),
        )  # fmt: skip


def card_candidate(judgement: Judgement, agent: str, source: str, told: Sequence[dict[str, Json]]) -> Candidate:
    """What a card with these tools shows. Too many, or too large, are refused: a person is to look at each."""
    if len(told) > MOST_LISTED or sum(len(canonical(each)) for each in told) > _MOST_TEXT:
        most = f"{MOST_LISTED} tools, {_MOST_TEXT // 1024} KiB"
        raise Limited(agent, f"one card takes {most}; the other tools are listed once it is decided")
    shown = tool(CARD, declared=_NOTHING)
    args = {"source": source, "tools": list(told)}
    verdict = Verdict(
        GateKind.ASK, CARD, "nobody vouches for these tools yet; until somebody does, each call of one waits",
        ladder=Ladder(limit=None, at_end=AtEnd.STAY), policy_version=judgement.policy.version,
    )  # fmt: skip
    context = Context(agent=agent)
    assessment = judgement.judged(shown, {}, context, datetime.now(UTC))[1]
    candidate = judgement.candidate(shown, Action(CARD, args, agent), assessment, verdict, context)
    changed = sum("changed" in each for each in told)
    first = ", ".join(str(each["name"]) for each in told[:_TITLE_NAMES])
    more = f" and {len(told) - _TITLE_NAMES} more" if len(told) > _TITLE_NAMES else ""
    title = f"Vouch for {counted(len(told), 'tool')} of {source_words(source)}"
    title += f" ({changed} changed)" if changed else ""
    return replace(candidate, says=shortened(f"{title}: {first}{more}", 400))


class ToolList:
    """What people say of tools beside the card: the people of one workspace."""

    def __init__(self, store: Store, workspace: str, judgement: Judgement) -> None:
        self._store, self._workspace, self._judgement = store, workspace, judgement

    async def vouch(self, by: Principal, source: str, wanted: Collection[str] = ()) -> tuple[OfferedTool, ...]:
        """This person vouches for these tools of the source as they are defined; without names, for all that wait."""
        return await self._say(by, source, wanted, ToolState.VOUCHED, _may_be_vouched if wanted else _waits)

    async def revoke(self, by: Principal, source: str, wanted: Collection[str] = ()) -> tuple[OfferedTool, ...]:
        """Nobody vouches for these tools of the source any more; without names, for none of them."""
        return await self._say(by, source, wanted, ToolState.REVOKED, _is_vouched)

    async def _say(
        self, by: Principal, source: str, wanted: Collection[str], state: ToolState,
        fits: Callable[[OfferedTool, bool], bool],
    ) -> tuple[OfferedTool, ...]:  # fmt: skip
        await self._judgement.refresh()
        may_vouch(self._judgement.policy, by)
        while True:
            chosen = self._chosen(source, wanted, await self._store.tools(self._workspace, source), fits)
            cards = await self._cards(source) if any(each.state is ToolState.WAITING for each in chosen) else []
            try:
                return await self._written(by, chosen, state, cards[0] if cards else None)
            except PolicyMoved:
                await self._judgement.refresh()
                may_vouch(self._judgement.policy, by)
            except StaleRequest:
                continue

    def _chosen(
        self, source: str, wanted: Collection[str], known: Sequence[OfferedTool],
        fits: Callable[[OfferedTool, bool], bool],
    ) -> tuple[OfferedTool, ...]:  # fmt: skip
        if not known:
            raise NotFound(f"no tools of {source!r} are known here; `assentry tools` lists the sources")
        missing = [name for name in wanted if all(name not in (each.name, each.digest) for each in known)]
        if missing:
            raise NotFound(f"{source_words(source)} offers no tool {missing[0]!r}; `assentry tools` lists them")
        newest = {each.name: each for each in sorted(known, key=lambda each: each.at)}
        chosen = tuple(
            each
            for each in known
            if (not wanted or each.name in wanted or each.digest in wanted)
            and fits(each, newest[each.name] is each or each.digest in wanted)
        )
        if not chosen:
            raise InvalidDecision("there is nothing to change: they are all as you want them already")
        return chosen

    async def _cards(self, source: str) -> list[Request]:
        found: list[Request] = []
        agent, after = source.removeprefix("agent:").partition("/mcp:")[0], ""
        while True:
            wanted = Filter(states=(State.PENDING,), agent=agent, action=CARD)
            page = await self._store.requests(self._workspace, wanted, after=after, limit=100)
            found += [each for each in page.requests if each.ask.kind is Kind.TOOLS and source_on(each) == source]
            after = page.next
            if not after:
                return found

    async def _written(
        self, by: Principal, chosen: tuple[OfferedTool, ...], state: ToolState, card: Request | None
    ) -> tuple[OfferedTool, ...]:
        """What was said is on record, and what waits on the card of the source no longer does."""
        made: list[OfferedTool] = []

        def step(view: View) -> Change:
            made[:] = [moved(each, state, by.name, view.now) for each in chosen]
            change = self._without(view, {each.digest for each in chosen}, by) if card is not None else Change()
            return replace(change, tools=tuple(made)).also(*entries_of(made, by.name, view.now))

        await self._store.transact(
            self._workspace, card.id if card is not None else None, step, policy=self._judgement.version
        )
        await self._judgement.refresh()
        return tuple(made)

    def _without(self, view: View, gone: Collection[str], by: Principal) -> Change:
        """The card without these tools; withdrawn where none is left."""
        card = view.request
        if card is None or card.state is not State.PENDING:
            return Change()
        left = [each for each in on_card(card) if each["digest"] not in gone]
        if len(left) == len(on_card(card)):
            return Change()
        if not left:
            return advance(card, Cancel(by.name, f"{by.name} decided about each of its tools"), view.now) or Change()
        candidate = card_candidate(self._judgement, card.ask.agent, source_on(card), left)
        note = f"{by.name} has decided about {counted(len(on_card(card)) - len(left), 'tool')} of it"
        return advance(card, Relisted(candidate, (note,), by.name), view.now) or Change()


def may_vouch(policy: Policy, by: Principal) -> None:
    """Raises `NotAllowed` unless this person may change the policy: to vouch for a tool is to change what runs."""
    if (reason := may_change(policy, by)) is not None:
        raise NotAllowed(f"{by.name} may not vouch for tools: {reason}", principal=by.name)


def _may_be_vouched(each: OfferedTool, is_newest: bool) -> bool:
    return each.state is not ToolState.VOUCHED and is_newest


def _waits(each: OfferedTool, is_newest: bool) -> bool:
    return each.state is ToolState.WAITING and is_newest


def _is_vouched(each: OfferedTool, _: bool) -> bool:
    return each.state is ToolState.VOUCHED


def check_listed(count: int) -> None:
    """So many tools may be listed at once."""
    if count > MOST_LISTED:
        raise InvalidArguments(f"list at most {MOST_LISTED} tools at once")
