"""The reviewer's side: what waits, what it is, and what people say about it. Identity comes from the edge."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from assentry.core import votes
from assentry.core.action import Action, Json
from assentry.core.advance import advance
from assentry.core.authority import Principal, may_decide
from assentry.core.briefing import ALLOWS_NO_CHANGES, Briefing, allows_changes, brief, uses_drafts
from assentry.core.canonical import canonical, restore
from assentry.core.change import Change
from assentry.core.decision import (
    Answer,
    Approve,
    AskUndo,
    Candidate,
    Choose,
    Decided,
    Decision,
    Deny,
    Event,
    Finding,
    Modify,
    Opinion,
    Reconcile,
    Rejudged,
    Reviewed,
    Revise,
    Seen,
)
from assentry.core.request import Kind, Request, State
from assentry.core.run import Run
from assentry.core.run_life import RUN_LEGAL, Stop, advance_run
from assentry.core.secret_text import holds_any_secret, secret_texts, without_secrets
from assentry.core.text import counted
from assentry.core.verdict import GateKind, Verdict
from assentry.engine.judgement import Context, Judgement
from assentry.engine.oversight import Oversight
from assentry.engine.schemas import check_fits
from assentry.errors import (
    AlreadyDecided,
    AssentryError,
    InvalidDecision,
    NotAllowed,
    NotFound,
    PolicyMoved,
    StaleRequest,
)
from assentry.ports import Filter, Page, Store, View

log = logging.getLogger("assentry.inbox")


class Inbox:
    """What a reviewer's surface holds. Every method that changes something takes the person who does it."""

    def __init__(self, store: Store, workspace: str, judgement: Judgement) -> None:
        self._store, self._workspace, self._judgement = store, workspace, judgement

    async def refresh(self) -> None:
        """The policy that says who may decide is the active one."""
        await self._judgement.refresh()

    async def page(self, wanted: Filter | None = None, *, after: str = "", limit: int = 50) -> Page:
        """Requests, most urgent first; without a filter those that wait for a decision."""
        return await self._store.requests(self._workspace, wanted or WAITING, after=after, limit=limit)

    async def find(self, prefix: str) -> Request:
        """The one request whose code or id begins with `prefix`."""
        prefix = prefix.strip().lower()
        if not prefix:
            raise NotFound("an id is needed; `assentry pending` lists what waits")
        found = await self._store.find(self._workspace, prefix, limit=6)
        if not found:
            raise NotFound(f"no request begins with {prefix!r}; `assentry pending` lists what waits")
        if len(found) > 1:
            codes = ", ".join(request.code for request in found[:5])
            raise NotFound(
                f"{prefix!r} fits several requests ({codes}{'…' if len(found) > 5 else ''}); type more of it"
            )
        return found[0]

    async def brief(self, request_id: str) -> Briefing:
        """The briefing of one request, by the database's clock."""
        return self.card(await self._request(request_id), await self._store.now())

    def card(self, request: Request, now: datetime) -> Briefing:
        """The briefing of a request, with what the policy of now says of who can complete it: for every surface."""
        return brief(request, now, self.beyond(request))

    def beyond(self, request: Request) -> tuple[str, ...]:
        """Warnings on its card that only the policy gives rise to."""
        if request.state is not State.PENDING:
            return ()
        stuck = votes.out_of_reach(self._judgement.policy, request, self._today(request))
        return (stuck,) if stuck else ()

    async def seen(self, by: Principal, request_id: str) -> None:
        """A surface showed it to somebody who may decide it; a soft window has begun."""
        request = await self._request(request_id)
        if request.state is State.PENDING and request.seen_at is None and self.may_decide(by, request) is None:
            await self._moved(request_id, lambda current, now: _if_pending(current, Seen(by.name), now))

    def may_decide(self, by: Principal | None, request: Request) -> str | None:
        """Why this person may not decide this request, or nothing.

        For whoever looks: who is on duty is read off this machine's clock. A decision goes by the database's.
        """
        return self._why_not(by, request, datetime.now(UTC))

    async def approve(self, by: Principal, request_id: str, *, note: str = "", **shown: str) -> Request:
        """Approved by this person, on what they saw; runs once enough people have."""
        return await self._decide(by, request_id, lambda _: Approve(without_secrets(note)), shown)

    async def deny(self, by: Principal, request_id: str, reason: str, *, stop: bool = False, **shown: str) -> Request:
        """Denied, with the reason that the agent is told; with `stop`, its whole run is stopped by the same word.

        Whoever works on the run then, wherever, is turned away: it does not depend on what the agent makes of it.
        """
        reason = without_secrets(reason)
        found = await self._request(request_id) if stop else None
        run = await self._store.run(self._workspace, found.ask.run) if found is not None and found.ask.run else None
        after = await self._decide(by, request_id, lambda _: Deny(reason, stop), shown, run=run)
        if run is not None and after.stop:
            await Oversight(self._store, self._workspace).ends_with(by, run, reason)
        return after

    async def revise(self, by: Principal, request_id: str, instructions: str, **shown: str) -> Request:
        """Sent back with instructions for another draft."""

        def sent_back(request: Request) -> Revise:
            if not uses_drafts(request):
                raise InvalidDecision("the program that asks hears no words, so it cannot draft it anew; deny it")
            return Revise(without_secrets(instructions))

        return await self._decide(by, request_id, sent_back, shown)

    async def modify(
        self, by: Principal, request_id: str, args: Mapping[str, Json], *, note: str = "", **shown: str
    ) -> Request:
        """Approved with these arguments instead, judged anew; what became riskier waits for who may allow it."""
        note = without_secrets(note)
        return await self._decide(by, request_id, lambda request: Modify(self.changed(request, args), note), shown)

    async def choose(self, by: Principal, request_id: str, option: int, *, note: str = "", **shown: str) -> Request:
        """The option with this number (from 0) is taken; its exact bytes are judged anew."""
        note = without_secrets(note)
        return await self._decide(
            by, request_id, lambda request: Choose(option, self.chosen(request, option), note), shown
        )

    async def answer(self, by: Principal, request_id: str, value: Json, *, note: str = "", **shown: str) -> Request:
        """The question is answered."""
        note = without_secrets(note)
        return await self._decide(by, request_id, lambda request: _answered(request, value, note), shown)

    async def undo(self, by: Principal, request_id: str, reason: str = "") -> Request:
        """Whoever has the function takes it back."""
        return await self._person(by, request_id, AskUndo(by.name, without_secrets(reason)))

    async def reconcile(self, by: Principal, request_id: str, finding: Finding, note: str = "") -> Request:
        """An unknown outcome is settled by somebody who looked."""
        return await self._person(by, request_id, Reconcile(finding, by.name, without_secrets(note)))

    async def review(self, by: Principal, request_id: str, opinion: Opinion, note: str = "") -> Request:
        """Somebody looked at what already ran."""
        return await self._person(by, request_id, Reviewed(opinion, by.name, without_secrets(note)))

    def changed(self, request: Request, args: Mapping[str, Json]) -> Candidate:
        """What would run with these arguments: checked against the schema, classified and judged again."""
        before = request.candidate
        plain = {**_left_out(before.action), **restore(canonical(args))}
        news = {name: value for name, value in plain.items() if before.action.args.get(name) != value}
        if holds_any_secret(news) and not secret_texts(news):
            raise InvalidDecision("a number in a field for secrets would be stored as it is; deny it and say why")
        if new := {*secret_texts(plain)} - {*secret_texts(before.action.args)}:
            long = counted(len(next(iter(new))), "character")
            raise InvalidDecision(
                f"the new arguments contain what looks like a secret ({long}), and what is "
                "typed here is stored as it is; deny it and have the agent propose it with the secret it should use"
            )
        if not allows_changes(request) and plain != before.action.args:
            raise InvalidDecision(ALLOWS_NO_CHANGES)
        check_fits(plain, before.action.schema, "arguments", request.sealed)
        return self._judged(request, replace(before, action=replace(before.action, args=plain)), request.ask.template)

    def chosen(self, request: Request, option: int) -> Candidate | None:
        """What would run if the option with this number (from 0) were taken, judged again; nothing may be one too."""
        if not 0 <= option < len(request.ask.options):
            there = f"there are {len(request.ask.options)}" if request.ask.options else "it offers none"
            raise InvalidDecision(f"request {request.code} has no option {option + 1}; {there}")
        chosen = request.ask.options[option]
        if chosen.candidate is None:
            return None
        judged = self._judged(request, chosen.candidate, "")
        return replace(judged, says=chosen.candidate.says)

    def _judged(self, request: Request, candidate: Candidate, template: str) -> Candidate:
        from assentry.engine.tool import tool_of

        ask, action = request.ask, candidate.action
        context = Context(
            agent=ask.agent, run=ask.run, key=ask.step, goal=action.goal, why=action.why,
            confidence=action.confidence, cost=action.cost, alternatives=action.alternatives,
        )  # fmt: skip
        made = tool_of(action)
        # What was looked up is about what was asked for; for other arguments it is looked up again before they run.
        same = canonical(action.args) == candidate.args_text and action.name == ask.candidate.action.name
        facts = tuple(fact for fact in candidate.assessment.facts if fact.looked_up and same)
        new, assessment, verdict = self._judgement.judged_again(made, request, request.changed_at, facts, candidate)
        at_least = ask.candidate.verdict if action.name == ask.candidate.action.name else None
        return self._judgement.candidate(replace(made, says=template), new, assessment, verdict, context, at_least)

    async def _decide(
        self,
        by: Principal,
        request_id: str,
        say: Callable[[Request], Decision],
        shown: Mapping[str, str],
        *,
        run: Run | None = None,
    ) -> Request:
        """The decision is committed, or the error says why it cannot be: not allowed, stale, or too late.

        Where it stops the `run` that it belongs to, both are one change.
        """

        asked_anew = False

        def step(request: Request, now: datetime) -> Change | None:
            nonlocal asked_anew
            asked_anew, standing, void = False, None, dict[str, str]()
            if request.state is State.PENDING:
                _as_read(request, shown.get("seen_version", ""))
                self._allow(by, request, now)
                decision: Decision = say(request)
                if isinstance(decision, Approve):
                    today = self._today(request)
                    if today.gate is GateKind.FORBID:
                        raise InvalidDecision(f"policy forbids what this would run: {today.because}; deny it")
                    candidate = replace(request.candidate, verdict=today)
                    if changes := votes.stricter_by(request.candidate.verdict, today):
                        asked_anew = True
                        return advance(request, Rejudged(candidate, changes, "policy"), now)
                    request = replace(request, candidate=candidate)
                    standing, void = votes.standing(self._judgement.policy, request, today)
            else:
                decision = Approve()
            counts = not isinstance(decision, Modify | Choose) or self._counts(by, request, decision, now)
            event = Decided(
                decision,
                by.name,
                self._roles(by),
                seen_digest=shown.get("seen_digest", ""),
                confirm=shown.get("confirm", ""),
                surface=shown.get("surface", ""),
                counts=counts,
                standing=standing,
                void=votes.no_longer(void),
            )
            return advance(request, event, now)

        after = await self._by_active_policy(lambda: self._moved(request_id, step, run, by.name, judged=True))
        if asked_anew and after.state is State.PENDING:
            raise StaleRequest(
                f"the policy has changed since request {after.code} was asked: {'; '.join(after.changes)}; "
                "look at it again, then decide",
                request_id=after.id, code=after.code, state=str(after.state),
            )  # fmt: skip
        if after.state is State.EXPIRED or (after.word == "silence" and after.state is not State.PENDING):
            raise AlreadyDecided(
                f"request {after.code} ended before this decision: {after.reason}",
                request_id=after.id, code=after.code, state=str(after.state), by="the time limit", at=after.decided_at,
            )  # fmt: skip
        await self._count(by, after)
        return after

    async def _by_active_policy(self, make: Callable[[], Awaitable[Request]]) -> Request:
        """What `make` gave, made again for as long as the policy that it went by turns out not to be the active one."""
        while True:
            try:
                return await make()
            except PolicyMoved:
                await self.refresh()

    async def _count(self, by: Principal, after: Request) -> None:
        """Denials in a row are counted: an agent that does not take no for an answer is paused."""
        most, agent = self._judgement.policy.limits.denials, after.ask.agent
        if most is None or after.state is State.PENDING:
            return
        over = Oversight(self._store, self._workspace, lambda: self._judgement.policy)
        try:
            await self._counted(over, by, after, most)
        except AssentryError as problem:
            # The decision stands; only the count does not.
            log.warning("denials of %s could not be counted: %s", agent, problem)

    async def _counted(self, over: Oversight, by: Principal, after: Request, most: int) -> None:
        agent = after.ask.agent
        if after.state is State.DENIED and after.word == "deny":
            self._judgement.denied |= {agent}
            await over.denied(by, agent, most)
        elif agent in self._judgement.denied:
            await over.allowed(by, agent)
            self._judgement.denied -= {agent}

    def _roles(self, by: Principal) -> tuple[str, ...]:
        """The roles that the policy gives this person; a surface is believed only where the policy names nobody."""
        return votes.roles_now(self._judgement.policy, by.name, by.roles)

    def _counts(self, by: Principal, request: Request, decision: Modify | Choose, now: datetime) -> bool:
        """The person may also decide what the change makes of it."""
        if decision.instead is None:
            return True
        policy, reviewers = self._judgement.policy, decision.instead.verdict.reviewers
        return may_decide(policy, by, reviewers, request.ask.agent, request.ask.asked_by, now=now) is None

    async def _person(self, by: Principal, request_id: str, event: Event) -> Request:
        def step(request: Request, now: datetime) -> Change | None:
            self._allow(by, request, now, voted=False)
            return advance(request, event, now)

        return await self._by_active_policy(lambda: self._moved(request_id, step, judged=True))

    def _allow(self, by: Principal, request: Request, now: datetime, *, voted: bool = True) -> None:
        reason = self._why_not(by, request, now, voted=voted)
        if reason is not None:
            raise NotAllowed(f"{by.name} may not decide request {request.code}: {reason}", principal=by.name)

    def _why_not(self, by: Principal | None, request: Request, now: datetime, *, voted: bool = True) -> str | None:
        reviewers = votes.reviewers_of(request, self._today(request))
        already = tuple(vote.by for vote in request.votes) if voted else ()
        ask = request.ask
        return may_decide(self._judgement.policy, by, reviewers, ask.agent, ask.asked_by, already, now)

    def _today(self, request: Request) -> Verdict:
        """What a waiting request demands by the policy of now: never less than it was asked with."""
        stored = request.candidate.verdict
        if stored.policy_version == self._judgement.policy.version or request.state is not State.PENDING:
            return stored
        from assentry.engine.tool import tool_of

        return self._judgement.demands(tool_of(request.candidate.action), request, request.changed_at)

    async def _moved(
        self,
        request_id: str,
        move: Callable[[Request, datetime], Change | None],
        run: Run | None = None,
        by: str = "",
        *,
        judged: bool = False,
    ) -> Request:
        """The request as `move` left it; what was `judged` commits only under the policy by which that was done."""
        policy = self._judgement.version if judged else None

        def step(view: View) -> Change | None:
            if view.request is None:
                raise NotFound(f"there is no request {request_id} in workspace {self._workspace}")
            change = move(view.request, view.now)
            return _with_its_run(change, view.run, by, view.now) if change is not None else None

        change = await self._store.transact(
            self._workspace, request_id, step, run=run.id if run is not None else None, policy=policy
        )
        if change is not None and change.request is not None:
            return change.request
        return await self._request(request_id)

    async def _request(self, request_id: str) -> Request:
        request = await self._store.request(self._workspace, request_id)
        if request is None:
            raise NotFound(f"there is no request {request_id} in workspace {self._workspace}")
        return request


WAITING = Filter(states=(State.PENDING,))


def _with_its_run(change: Change, run: Run | None, by: str, now: datetime) -> Change:
    """The change, and with it the end of the run where that is what was said."""
    after = change.request
    if run is None or after is None or not after.stop:
        return change
    if not isinstance(stop := Stop(by, after.reason), RUN_LEGAL[run.state]):
        return change
    ended = advance_run(run, stop, now)
    return change if ended is None else replace(change.also(*ended.entries), run=ended.run)


def _as_read(request: Request, version: str) -> None:
    """Nothing at all has happened to it since it was read, where whoever decides insists on that."""
    if version and version != str(request.version):
        raise StaleRequest(
            f"request {request.code} is at version {request.version} by now; look at it again, then decide",
            request_id=request.id, code=request.code, state=str(request.state),
        )  # fmt: skip


def _if_pending(request: Request, event: Event, now: datetime) -> Change | None:
    return advance(request, event, now) if request.state is State.PENDING else None


def _answered(request: Request, value: Json, note: str) -> Answer:
    question = request.ask.question
    if request.ask.kind is not Kind.QUESTION or question is None:
        raise InvalidDecision(f"request {request.code} asks for leave to act; approve or deny it")
    plain = restore(canonical(value))
    if holds_any_secret({"answer": plain}):
        raise InvalidDecision("the answer contains what looks like a secret, and answers are stored as they are")
    if question.choices and plain not in question.choices:
        raise InvalidDecision(f"choose one of: {', '.join(question.choices)}")
    check_fits(plain, question.schema, "the answer")
    return Answer(plain, note)


def _left_out(action: Action) -> dict[str, Json]:
    """What a function of ours takes where an argument that it was given is taken away, so that it is shown and judged.

    Never an argument that was not there, and nothing that a stranger's schema says: nobody asked for that.
    """
    properties = (action.schema or {}).get("properties", {}) if action.trusted else {}
    given = {name: properties[name] for name in action.args if name in properties}
    return {name: each["default"] for name, each in given.items() if isinstance(each, dict) and "default" in each}
