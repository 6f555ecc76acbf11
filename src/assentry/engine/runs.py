"""An agent's run, as the agent holds it: every reason that it may have to stop for a person.

Each is a stop point: an action that does nothing, so that everything that holds for actions holds for it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from assentry.core.action import Fact, Json
from assentry.core.canonical import canonical, digest, restore
from assentry.core.request import Request, State
from assentry.core.run import PlanStep
from assentry.core.verdict import GateKind
from assentry.engine.appraisal import Assessor, PlainAssessor
from assentry.engine.guard import Guarded
from assentry.engine.holding import CURRENT, EXCERPT, HeldRun
from assentry.engine.office import NotAsked, StopPoint
from assentry.engine.outcomes import refusal
from assentry.engine.sealing import redacted, unsealed
from assentry.engine.tool import OptionSpec, resolved
from assentry.errors import (
    ActionFailed,
    Denied,
    GuardError,
    Interrupt,
    InvalidArguments,
    OutcomeUnknown,
    RunStopped,
    SentBack,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft that a person sent back."""

    number: int
    args: Json
    instructions: str
    request_id: str


@dataclass(slots=True)
class Phase:
    """A part of a run; set `result` to what it made, for whoever looks after it."""

    shown: Json = None
    result: Json = None


class ActiveRun(HeldRun):
    """A run and what its agent can do in it. `async with gate.run(...) as run:`"""

    async def checkpoint(
        self, name: str, show: Json = None, *, soft: bool = False, editable: bool = False, key: str = ""
    ) -> Json:
        """A person looks before the run goes on; what was shown comes back, changed where they changed it.

        A soft one goes on by itself if nobody objects in time. Raises `Denied` or `SentBack` like any call. `key` names
        it where what is shown does not.
        """
        return await self._look_in(name, show, GateKind.SOFT if soft else GateKind.HARD, editable, key)

    async def stands_before(self, name: str, show: Json, *, key: str) -> Request | None:
        """The request of this hard checkpoint, put on record and not waited for, for frameworks that pause by
        themselves; `checkpoint` with the same key takes it up once it is decided."""
        return await self._office.stop_put(self, _checkpoint(name, show, GateKind.HARD, False, key))

    @asynccontextmanager
    async def phase(
        self, name: str, show: Json = None, *, before: bool | str = False, after: bool | str = False
    ) -> AsyncIterator[Phase]:
        """A named part of the work, with a checkpoint before it, after it, or both: `True`, `"hard"` or `"soft"`.

        Where the code asks for none, policy may: a rule for `checkpoint` with `args.checkpoint == "before deploy"`.
        """
        phase = Phase(await self._around(f"before {name}", show, before))
        yield phase
        await self._around(f"after {name}", phase.result, after)
        if any(step.says == name and not step.done for step in self._record.plan):
            await self.plan(PlanStep(step.says, step.done or step.says == name) for step in self._record.plan)

    async def _around(self, name: str, show: Json, wanted: bool | str) -> Json:
        if wanted not in (False, True, "hard", "soft"):
            raise InvalidArguments('a phase has a checkpoint before or after it: True, "hard" or "soft"')
        gate = GateKind.RUN if not wanted else GateKind.SOFT if wanted == "soft" else GateKind.HARD
        return await self._look_in(name, show, gate, False)

    async def _look_in(self, name: str, show: Json, gate: GateKind, editable: bool, key: str = "") -> Json:
        point = _checkpoint(name, show, gate, editable, key)
        _, shown = await self._office.stop_point(self, point)
        return shown.get("show")

    async def revise(
        self,
        call: Guarded[..., Any] | str,
        write: Callable[[Draft | None], Any],
        *,
        rounds: int = 10,
    ) -> Any:
        """What `call` returned for the draft that a person approved; they may send it back as often as `rounds`.

        `write(None)` makes the first draft: the arguments of `call`, or anything JSON where `call` is just a name
        and only the draft is wanted. `write(draft)` makes the next one from the last and its `instructions`. Rounds
        on record are not written again. Raises `Denied` where the draft is not wanted.
        """
        drafted: object = call
        if not isinstance(drafted, str | Guarded) or not callable(write):
            raise InvalidArguments(
                "run.revise takes what is drafted (a guarded function, or a name for a draft that is only wanted) and "
                "a function that writes it: run.revise(send_email, write), where write(None) gives the first draft "
                "and write(draft) the next"
            )
        if type(rounds) is not int or rounds < 1:
            raise InvalidArguments("run.revise goes at least one round; pass rounds=10, or leave it out")
        name = call if isinstance(call, str) else call.name
        series, draft = self.key_for(f"draft {name}", {}), None
        for number in range(1, rounds + 1):
            key = f"{series}:{number}"
            known = await self._office.store.by_step(self._office.workspace, self.id, key)
            if known is not None and known.state is State.REVISED:
                draft = Draft(number, self._written(known, call), known.reason, known.id)
                continue
            if known is not None and not known.state.is_open:
                async with self.waiting():
                    return _came_to(known, call)
            args = restore(canonical(await resolved(write(draft)))) if known is None else self._written(known, call)
            try:
                return await self._drafted(call, name, args, key, "" if draft is None else draft.request_id)
            except SentBack as back:
                if number == rounds:
                    raise
                draft = Draft(number, args, back.reason, back.request_id)
        raise GuardError(f"{name} was sent back {rounds} times already; plan on without it")

    def _written(self, request: Request, call: Guarded[..., Any] | str) -> Json:
        """The draft as it was written."""
        args = unsealed(self._office.vault, request.id, restore(request.ask.candidate.args_text), request.sealed)
        return args.get("draft") if isinstance(call, str) else args

    async def _drafted(self, call: Guarded[..., Any] | str, name: str, args: Json, key: str, earlier: str) -> Any:
        if not isinstance(call, str):
            if not isinstance(args, Mapping):
                raise InvalidArguments(f"write() gives the arguments of {name} by name, such as a dict")
            return await call.with_(key=key, draft_of=earlier).acall(**args)
        point = StopPoint(
            "draft",
            {"what": name, "draft": args},
            f"Draft: {name}",
            "a draft to approve, change, send back with instructions, or drop",
            editable=frozenset({"draft"}),
            key=key,
            draft_of=earlier,
        )
        _, shown = await self._office.stop_point(self, point)
        return shown.get("draft")

    async def ask(self, question: str, **more: Any) -> Any:
        """The answer of a person, as with `gate.ask`; the run parks where it has to wait and has a host."""
        return await self._office.ask(question, **more)

    async def clarify(self, *, assessor: Assessor | None = None) -> dict[str, str]:
        """What the task left open, asked before the work begins: the answers, by what was missing.

        Looks at the original request, or the goal. With nothing to ask it costs nothing. `assessor` may bring a model
        (`ModelAssessor`); without one plain rules look at the words.
        """
        task = self._record.original or self._record.goal
        look = assessor or PlainAssessor()
        found = await look.assess(task, tools=tuple(self._office.tools), scope=self._record.scope)
        reasons = enumerate(found.reasons[:3], 1)
        told = [Fact("reach", found.reach, f"How far the task may reach: {found.reach}")]
        told += [Fact(f"reason {number}", each, each) for number, each in reasons]
        answers = {}
        for missing in found.missing:
            offered = f" (for example: {', '.join(missing.choices)})" if missing.choices else ""
            answers[missing.what] = str(await self.ask(missing.question + offered, found=told))
        return answers

    async def attempt(self, call: Callable[..., Any], /, *, done: Json = None, **args: Any) -> Any:
        """What `call(**args)` returned. Where it fails, a person says: again, again with changes, skip, or abort.

        They see the error and what was `done` already. A skipped step gives `None`; aborting stops the run.
        """
        name = getattr(call, "name", getattr(call, "__name__", "step"))
        while True:
            try:
                return await (call.acall(**args) if isinstance(call, Guarded) else resolved(call(**args)))
            except (Denied, OutcomeUnknown):
                raise  # a step that may have happened is not tried again
            except Exception as problem:
                # Taken again, a failed step is told as on record: the same words, so that the same question is found.
                told = problem.error if isinstance(problem, ActionFailed) else f"{type(problem).__name__}: {problem}"
                error = str(redacted(self._office.vault, told))[:EXCERPT]
                point = StopPoint(
                    "exception",
                    {"step": name, "error": error, "args": restore(canonical(args)), "done": done},
                    f"{name} failed",
                    "a step failed, and a person says how to go on; approving tries it again",
                    editable=frozenset({"args"}),
                    options=(
                        OptionSpec("Skip this step", "the run goes on without it"),
                        OptionSpec("Abort the run", "the run ends here; what was done stays done"),
                    ),
                    insists=True,
                )
                try:
                    chosen, shown = await self._office.stop_point(self, point)
                except NotAsked:
                    raise problem from None
                if chosen == "Skip this step":
                    return None
                if chosen:
                    await self._stop("a person", f"{name} failed")
                    raise RunStopped(self.code, "a person", f"{name} failed") from problem
                args = dict(shown["args"])

    async def sampled(self, number: int, given: Json, made: Json, *, every: int = 0, share: float = 0.0) -> bool:
        """Whether a person looked at this item of a batch: every so manieth, or a share of them.

        Which ones a share takes is settled by the run and the number, so that a run that is taken again asks for the
        same. Raises `Denied` where they found a problem; what was processed before stays as it is.
        """
        taken = (every > 0 and number % every == 0) or _share(self.id, number) < share
        if not taken:
            return False
        point = StopPoint(
            "sample",
            {"number": number, "input": given, "output": made},
            f"Sample: item {number}",
            f"item {number} was drawn to be looked at; denying it stops the batch",
        )
        await self._office.stop_point(self, point)
        return True

    async def cannot_go_on(self, reason: str, *, without: str = "") -> str:
        """The agent reports that it cannot go on; the instructions it gets, or none where it is allowed after all.

        `without` is what it was denied. The person may allow it after all, give other instructions, or stop the run.
        """
        point = StopPoint(
            "cannot_go_on",
            {"reason": str(redacted(self._office.vault, reason)), "denied": without},
            "The agent says that it cannot go on",
            "the agent says that it cannot go on without what was denied; approving allows it after all",
            options=(OptionSpec("Stop the run", "it ends here"),),
        )
        try:
            chosen, _ = await self._office.stop_point(self, point)
        except SentBack as instructions:
            return instructions.reason
        if chosen:
            await self._stop("a person", reason)
            raise RunStopped(self.code, "a person", reason)
        return ""

    async def interrupted(self, asked: Interrupt) -> None:
        """The agent itself wants a person: what it planned and why is asked, and the run parks on it."""
        if not self._record.host:
            raise GuardError("only a run with a host can be interrupted like this: nobody could resume it")
        self.snapshot(restore(canonical(asked.state)))
        told = redacted(
            self._office.vault,
            {"reason": asked.reason, "planned_action": asked.planned_action, "impact": asked.impact},
        )
        options = tuple(OptionSpec(label, "the agent is told that this was chosen") for label in asked.options)
        # Its words are among what is shown; the headline and the reason are ours.
        point = StopPoint(
            "interrupt", told, "The agent stopped itself and asks for a person", "the agent wants a person first",
            options=options, key=self.key_for(f"interrupt {self._fence}", told),
        )  # fmt: skip
        await self._office.stop_point(self, point)


def _checkpoint(name: str, show: Json, gate: GateKind, editable: bool, key: str) -> StopPoint:
    return StopPoint(
        "checkpoint",
        {"checkpoint": name, "show": show},
        f"Checkpoint: {name}",
        f"the run stops here for a look: {name}",
        gate,
        frozenset({"show"} if editable else ()),
        key=key,
    )


def _share(run_id: str, number: int) -> float:
    return int(digest(run_id, str(number))[:8], 16) / 0x1_0000_0000


def _came_to(request: Request, call: Guarded[..., Any] | str) -> Any:
    """What an ended draft came to, by the record."""
    if not isinstance(call, str):
        return call.result_of(request)
    if request.state is State.DONE:
        return restore(request.candidate.args_text)["draft"]
    raise refusal(request)


def current_run() -> ActiveRun:
    """The run that the calling code belongs to, in a host's function as well."""
    active = CURRENT.get()
    if not isinstance(active, ActiveRun):
        raise GuardError("this code is not inside a run; begin one: async with gate.run(...)")
    return active
