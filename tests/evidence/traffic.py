"""What the processes of a trial do: an agent that calls, a person who decides, workers that run. Nobody cleans up."""

import asyncio
import random
from typing import Any

import assentry
from assentry.assemble import desk
from assentry.core.canonical import restore
from assentry.core.request import Request, State
from assentry.errors import ActionFailed, AlreadyDecided, Conflict, Denied, NotFound, OutcomeUnknown, Parked, StoreError
from assentry.settings import load
from tests.evidence.processes import Say
from tests.evidence.world import DANGEROUS, Ledger, Place, Step, guarded

LANES = 3
"""How many calls an agent has under way at once."""


async def perform(gate: assentry.Gate, tools: dict[str, Any], ledger: Ledger, run: str, step: Step, say: Say) -> None:
    """The step, called as an agent would; everything that the API acknowledges is said."""
    args = (step.key, step.word, step.before, step.after)
    try:
        if step.kind == "proposed":
            await _proposed(gate, ledger, run, step, say)
            return
        call = tools[step.kind].with_(run=run, key=step.key)
        try:
            value = await (asyncio.to_thread(call, *args) if step.kind == "blocking" else call.acall(*args))
        except Parked as parked:
            say("submitted", id=parked.request_id, step=step.key)
            value = await gate.resume(parked.request_id, patience=None)
        if value is None:
            say("finished without a result", step=step.key)  # found done by `verify`; nobody saw what came back
        else:
            say("finished", id=value.partition(".")[0], step=step.key, key=value)
    except Denied as denied:
        say("denied", id=denied.request_id, step=step.key)
    except OutcomeUnknown as unknown:
        say("unknown", id=unknown.request_id, step=step.key)
    except ActionFailed as failed:
        say("failed", id=failed.request_id, step=step.key)
    except NotFound as lost:
        say("lost", step=step.key, text=str(lost))
    except Conflict as conflict:
        say("conflict", id=conflict.request_id, step=step.key, text=str(conflict))
    except StoreError as problem:
        say("trouble", step=step.key, kind=type(problem).__name__, text=str(problem))


async def _proposed(gate: assentry.Gate, ledger: Ledger, run: str, step: Step, say: Say) -> None:
    given = {"step": step.key, "word": step.word, "before": step.before, "after": step.after}
    proposal = await gate.propose("proposed", given, declared=DANGEROUS, run=run, key=step.key)
    assert proposal.request is not None
    say("submitted", id=proposal.request.id, step=step.key)
    if proposal.request.state is State.DONE:
        return
    async with proposal.execution() as running:
        say("trace", at="acting")
        await asyncio.sleep(step.before / 1000)
        running.result = ledger.write(running.key, step.key, running.args["word"])
        say("trace", at="acted")
        await asyncio.sleep(step.after / 1000)
    say("finished", id=running.key.partition(".")[0], step=step.key, key=running.key)


def act(place: Place, run: str, steps: tuple[Step, ...], say: Say, *, work: bool = False, decide: bool = False) -> None:
    """An agent takes its steps, a few at a time; with `work` and `decide` everybody lives in this one process."""
    place.enter()
    gate = place.gate()
    ledger = Ledger(place.ledger)
    tools = guarded(gate, ledger, lambda at: say("trace", at=at))
    say("ready")

    async def main() -> None:
        left = list(steps)

        async def lane() -> None:
            while left:
                await perform(gate, tools, ledger, run, left.pop(0), say)

        others = [asyncio.create_task(_decide(place, say))] if decide else []
        async with asyncio.TaskGroup() as lanes:
            worker = gate.worker()
            if work:
                await worker.__aenter__()
            for _ in range(LANES):
                lanes.create_task(lane())
        say("end")
        for task in others:
            task.cancel()

    asyncio.run(main())


def work(place: Place, say: Say) -> None:
    """A worker runs what is approved, until it is killed."""
    place.enter()
    gate = place.gate()
    guarded(gate, Ledger(place.ledger), lambda at: say("trace", at=at))
    say("ready")

    async def main() -> None:
        async with gate.worker():
            await asyncio.Event().wait()

    asyncio.run(main())


def decide(place: Place, say: Say) -> None:
    """A person decides whatever comes, until killed."""
    place.enter()
    asyncio.run(_decide(place, say))


async def _decide(place: Place, say: Say) -> None:
    here = await desk(load({"database": place.database}))
    loop = asyncio.get_running_loop()
    news = asyncio.Event()
    here.store.watch(lambda _: loop.call_soon_threadsafe(news.set))
    say("ready")
    while True:
        news.clear()
        try:
            for request in (await here.inbox.page()).requests:
                await decided(here, request, say)
        except StoreError as problem:
            say("trouble", step="", kind=type(problem).__name__, text=str(problem))
        try:
            await asyncio.wait_for(news.wait(), 0.5)
        except TimeoutError:
            continue


async def decided(here: Any, request: Request, say: Say, word: str = "") -> None:
    """The request is decided in the way its step suggests."""
    inbox, me = here.inbox, here.person()
    word = word or random.Random(request.ask.step).choices(["approve", "modify", "deny"], [6, 2, 2])[0]
    shown = {"seen_digest": request.candidate.permit_digest}
    try:
        match word:
            case "approve":
                after = await inbox.approve(me, request.id, **shown)
            case "modify":
                args = restore(request.candidate.args_text)
                after = await inbox.modify(me, request.id, {**args, "word": args["word"] + "!"}, **shown)
            case _:
                after = await inbox.deny(me, request.id, "not today", **shown)
    except AlreadyDecided:
        return
    said = restore(after.candidate.args_text)["word"]
    say("decided", id=after.id, step=after.ask.step, word=word, by=me.name, state=str(after.state), runs=said)
