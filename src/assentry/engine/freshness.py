"""After a long pause: what an approval depended on is looked up again before anything runs."""

from collections.abc import Iterable
from dataclasses import replace

from assentry.core.action import Fact
from assentry.core.advance import advance
from assentry.core.canonical import restore
from assentry.core.change import Change
from assentry.core.decision import Cancel, Candidate, LookedAgain
from assentry.core.judge import is_stricter, strictest
from assentry.core.request import Request, State
from assentry.core.text import shortened
from assentry.core.verdict import GateKind, IfChanged, Trigger
from assentry.engine.judgement import Judgement, stricter
from assentry.engine.sealing import redacted, unsealed
from assentry.engine.threads import in_thread
from assentry.engine.tool import Tool, looked_up, resolved
from assentry.ports import Store, Vault, View

MOST_CHANGES = 20


async def still_true(store: Store, judgement: Judgement, vault: Vault, tool: Tool, request: Request) -> Request:
    """The approved request, if what it depends on is as the person saw it or policy does not mind; else asked again.

    What cannot be looked up counts as changed.
    """
    candidate = request.candidate
    if request.state is not State.APPROVED or not candidate.verdict.gate.holds:
        return request
    if tool.facts is not None and candidate.content_digest != request.ask.candidate.content_digest:
        return await _looked_up_first(store, judgement, vault, tool, request)
    if tool.refresh is None:
        return request
    since = request.looked_at or request.ask.created_at
    if await store.now() - since < judgement.policy.limits.fresh:
        return request
    args = unsealed(vault, request.id, restore(candidate.args_text), request.sealed)
    before = tuple(fact for fact in candidate.assessment.facts if fact.looked_up)
    try:
        now = looked_up(await resolved(await in_thread(tool.refresh, args)))
        changes = _changes(before, now)
    except Exception as problem:  # noqa: BLE001  whatever it is, not knowing is a reason to ask
        now, changes = before, (f"what it depends on could not be looked up again ({type(problem).__name__})",)
    if not changes:
        return request
    secrets = [vault.unseal(request.id, secret) for secret in request.sealed.values()]
    changes = tuple(redacted(vault, list(changes), secrets))
    again = candidate.verdict.if_changed is IfChanged.ASK
    event = LookedAgain(_as_it_is(judgement, tool, request, now, changes), changes, "refresh", again)
    return await _moved(store, request, event)


async def _looked_up_first(store: Store, judgement: Judgement, vault: Vault, tool: Tool, request: Request) -> Request:
    """Changed arguments that nobody saw the facts of: where those make it stricter, it is asked about with them."""
    candidate = request.candidate
    if request.round:
        return request  # they were shown the last time
    args = unsealed(vault, request.id, restore(candidate.args_text), request.sealed)
    try:
        now = looked_up(await resolved(await in_thread(tool.facts, args)))  # type: ignore[arg-type]
        changes = tuple(fact.says for fact in now)
    except Exception as problem:  # noqa: BLE001  whatever it is, not knowing is a reason to ask
        now, changes = (), (f"what it depends on could not be looked up ({type(problem).__name__})",)
    _, _, judged = judgement.judged_again(tool, request, await store.now(), now)
    if now and not is_stricter(judged.gate, candidate.verdict.gate):
        return request
    if judged.gate is GateKind.FORBID:
        return await _moved(store, request, Cancel("policy", f"not run although approved: {judged.because}"))
    changes = tuple(redacted(vault, [f"with the changed arguments: {each}" for each in changes]))
    event = LookedAgain(_as_it_is(judgement, tool, request, now, changes), changes, "refresh", True)
    return await _moved(store, request, event)


async def _moved(store: Store, request: Request, event: LookedAgain | Cancel) -> Request:
    def step(view: View) -> Change | None:
        ours = view.request is not None and view.request.state is State.APPROVED and view.request.round == request.round
        return advance(view.request, event, view.now) if ours and view.request is not None else None

    change = await store.transact(request.workspace, request.id, step)
    if change is not None and change.request is not None:
        return change.request
    return await store.request(request.workspace, request.id) or request


def _as_it_is(
    judgement: Judgement, tool: Tool, request: Request, now: tuple[Fact, ...], changes: tuple[str, ...]
) -> Candidate:
    """The same bytes with the facts of now, judged anew: never laxer than before, and it says what has changed."""
    candidate = request.candidate
    known = tuple(fact for fact in candidate.assessment.facts if not fact.looked_up)
    _, _, judged = judgement.judged_again(tool, request, request.changed_at, now)
    verdict = stricter(candidate.verdict, judged)
    told = tuple(Trigger("changed", f"since it was approved: {each}", GateKind.HARD) for each in changes)
    kept = tuple(each for each in verdict.triggers if each.name != "changed")
    return replace(
        candidate,
        assessment=replace(candidate.assessment, facts=(*known, *now)),
        verdict=replace(
            verdict,
            gate=strictest((verdict.gate, GateKind.HARD)),
            triggers=(*told, *kept),
            if_changed=candidate.verdict.if_changed,
        ),
    )


def _changes(before: Iterable[Fact], now: Iterable[Fact]) -> tuple[str, ...]:
    """What differs between two looks at the same things, each in a few words."""
    was, found = {fact.name: fact for fact in before}, {fact.name: fact for fact in now}
    told = []
    for name in dict.fromkeys((*was, *found)):
        old, new = was.get(name), found.get(name)
        if old is None and new is not None:
            told.append(f"new: {shortened(new.says, 200)}")
        elif new is None and old is not None:
            told.append(f"no longer: {shortened(old.says, 200)}")
        elif old is not None and new is not None and old.value != new.value:
            told.append(f"{shortened(old.says, 200)} {chr(0x2192)} {shortened(new.says, 200)}")
    return tuple(told[:MOST_CHANGES])
