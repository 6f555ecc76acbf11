"""Requests as commands handle them: found by a part of their id, listed, and told about after a decision."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import typer
from rich.text import Text

from assentry.assemble import Desk
from assentry.cli.card import short_run, time_words
from assentry.cli.plain import print_json
from assentry.cli.print import banner, console, inert, listing, mark_of, say
from assentry.core.action import Json
from assentry.core.authority import Principal
from assentry.core.briefing import Briefing
from assentry.core.request import Executor, Kind, Request, State
from assentry.core.run import Run, RunState
from assentry.core.text import ago
from assentry.core.waiting import not_waited_for
from assentry.errors import NotAllowed
from assentry.telling.card_document import document

EVERY_STATE = "all"
_ENOUGH, _ROOMY = 90, 110


async def at_hand(
    desk: Desk, request_id: str, *, denies: bool = False
) -> tuple[Principal, Request, Briefing, datetime]:
    """Who decides, the request, its card and the time; whoever may not decide hears so before being asked.

    So does whoever `denies` nothing, where nobody is waiting for the request any more.
    """
    person = desk.person()
    request = await desk.inbox.find(request_id)
    now = await desk.store.now()
    why_not = desk.inbox.may_decide(person, request) if request.state is State.PENDING else None
    if why_not is not None:
        raise NotAllowed(f"{person.name} may not decide request {request.code}: {why_not}", principal=person.name)
    if request.state is State.PENDING and request.abandoned_at is not None and not denies:
        raise not_waited_for(request)
    return person, request, desk.inbox.card(request, now), now


def standing(desk: Desk, request: Request) -> tuple[Principal | None, str]:
    """Who sits here, and why they may not decide this request (empty: they may)."""
    try:
        person = desk.person()
    except NotAllowed as problem:
        return None, str(problem)
    return person, desk.inbox.may_decide(person, request) or ""


def states(names: Sequence[str]) -> tuple[State, ...]:
    """The states by these names; `all` is every one."""
    if EVERY_STATE in names:
        return ()
    known = {state.value.replace(" ", "-"): state for state in State}
    wanted = [name.strip().lower().replace(" ", "-") for name in names]
    for name in wanted:
        if name not in known:
            raise no_state(name, [*known, EVERY_STATE])
    return tuple(known[name] for name in wanted)


def no_state(name: str, known: Sequence[str]) -> typer.BadParameter:
    """The mistake on the command line, with what there is."""
    there = ", ".join(f"'{each}'" for each in known)
    return typer.BadParameter(f"{name!r} is not one of {there}.", param_hint="--state")


async def run_named(desk: Desk, prefix: str) -> str:
    """The id of the run whose code begins like that; a run that agents only name is found by its whole name."""
    found = await desk.store.find_runs(desk.settings.workspace, prefix.strip().lower(), limit=2)
    if len(found) > 1:
        return (await desk.oversight.find(prefix)).id
    return found[0].id if found else prefix


async def run_codes(desk: Desk, cards: Sequence[Briefing]) -> dict[str, str]:
    """What to call the runs of these requests, where there is room to say it."""
    runs = {card.run for card in cards if card.run}
    if not runs or console(table=True).width < _ROOMY:
        return {}
    known = await desk.chronicle.codes(runs)
    return {run: known.get(run) or short_run(run) for run in runs}


def table(
    cards: Sequence[Briefing], now: datetime, nothing: str, following: str, runs: Mapping[str, str] | None = None
) -> None:
    """One line each: risk, code, title, agent, when asked, time left and what then; the run, where `runs` names it."""
    if not cards:
        return say(nothing)
    waits = any(card.state is State.PENDING for card in cards)
    names = ["RISK", "CODE", "WHAT", "AGENT", "ASKED", "TIME LEFT" if waits else "STATE"]
    roomy = console(table=True).width >= _ENOUGH
    if not roomy:
        names.remove("ASKED")
    if runs:
        names.insert(4, "RUN")
    rows = []
    for card in cards:
        row = [
            mark_of(card),
            Text(card.code, style="bold"),
            inert(card.title),
            inert(card.agent),
            *([Text(ago(now - card.asked_at))] if roomy else []),
            inert(time_words(card)),
        ]
        if runs:
            row.insert(4, inert(runs.get(card.run, "")))
        rows.append(row)
    listing(names, rows, flexible=2, narrow=(3, 4) if runs else (3,))
    if following:
        console().print(inert(f"more: --after {following}", "dim"), soft_wrap=True)
    return None


def request_document(desk: Desk, card: Briefing, **more: Json) -> dict[str, Json]:
    """The document that `show` and every decision print for scripts."""
    return {"mode": str(desk.judgement.policy.mode), **more, "request": document(card)}


def hint(card: Briefing, why_not: str) -> str:
    """What the reader may do now."""
    if card.state is not State.PENDING:
        return ""
    if why_not:
        return f"You may not decide this: {why_not}"
    if card.abandoned_at is not None:
        return f"assentry deny {card.code}   (dismisses it)"
    if card.kind is Kind.QUESTION:
        return f'assentry answer {card.code} "…"'
    code = card.code
    go_on = f"assentry choose {code} N" if card.options else f"assentry approve {code}"
    words = [go_on, f'assentry deny {code} --reason "…"']
    if card.editable:
        words.append(f"assentry modify {code} --edit")
    if card.can_send_back:
        words.append(f'assentry revise {code} "…"')
    return "   ".join(words)


async def told(desk: Desk, after: Request, did: str, *, as_json: bool) -> None:
    """The person knows what their word has led to."""
    card = desk.inbox.card(after, await desk.store.now())
    if as_json:
        return print_json(request_document(desk, card, did=did))
    banner(desk.judgement.policy, desk.judgement.switches)
    say(mark_of(card), f"  {card.code}  ", inert(card.title, "bold"))
    run = await desk.chronicle.run_of(after)
    return say(f"   {_sentence(card, after, did, run)}")


def _sentence(card: Briefing, after: Request, did: str, run: Run | None) -> str:
    match card.state:
        case State.PENDING if card.differences and did in ("modify", "choose") and not _counted(card):
            return f"changed; the change makes it a matter for {', '.join(card.reviewers) or 'others'}, and it waits"
        case State.PENDING:
            return f"counted: {_counted(card)} of {card.needs} approvals; it waits for the rest"
        case State.APPROVED:
            return f"approved{' with changes' if card.differences else ''}; {_who_runs(after, run)}"
        case State.DENIED:
            stop = "; its run ends" if after.stop else ""
            return f"{'denied' if did == 'deny' else 'nothing runs'}; the agent is told why{stop}"
        case State.CANCELLED if after.word == "dismiss":
            return "dismissed; nobody was waiting for it"
        case State.ANSWERED:
            return "answered"
        case State.REVISED:
            return "sent back with your instructions"
        case State.UNDO_ASKED:
            return "whoever has the function takes it back: the agent, or a worker, once one runs"
        case _ if did == "review":
            return f"review: {card.review.value}"
        case _:
            return f"it is {card.state} now"


def _who_runs(after: Request, run: Run | None) -> str:
    if after.ask.executor is Executor.WORKER:
        return "a worker runs it"
    if run is not None and run.state is RunState.PARKED and run.host:
        return f"its run goes on with a worker that has the host {run.host!r}"
    return "its caller runs it"


def _counted(card: Briefing) -> int:
    return sum(vote.word in ("approve", "modify", "choose") for vote in card.votes)
