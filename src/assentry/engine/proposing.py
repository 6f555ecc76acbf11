"""What an agent asks for that is no function here: calls that it carries out itself, and questions to people."""

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from assentry.core.action import Declaration, Fact, Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request
from assentry.core.verdict import GateKind, Trigger
from assentry.engine.calls import Calls
from assentry.engine.guard import CONTEXT, in_run
from assentry.engine.holding import CURRENT
from assentry.engine.judgement import Context, Judgement
from assentry.engine.proposal import Proposal
from assentry.engine.questions import NO_GUESS, answered, question, several
from assentry.engine.sealing import unsealed
from assentry.engine.tool import OptionSpec, tool
from assentry.ports import Store, Vault

_MISSING: Any = object()


class Proposer:
    """Proposes calls and asks questions; there is no method that decides."""

    _store: Store
    _vault: Vault
    _workspace: str
    _context: Context
    _judgement: Judgement
    _calls: Calls

    async def propose(
        self,
        action: str,
        args: Mapping[str, Json],
        *,
        description: str = "",
        schema: Mapping[str, Json] | None = None,
        trusted: bool = True,
        says: str = "",
        options: Iterable[OptionSpec] = (),
        if_denied: str = "",
        needed_by: datetime | timedelta | None = None,
        declared: Declaration | None = None,
        insists: str = "",
        **said: Any,
    ) -> Proposal:
        """A call that is no function, judged and put on record; carry it out inside `proposal.execution()`.

        Where `insists` says why, a person looks at it whatever the policy says of such calls.
        """
        proposed = tool(
            action,
            description=description,
            schema=schema,
            schema_text=canonical(schema) if schema else "",
            declared=declared,
            trusted=trusted,
            says=says,
            options=tuple(options),
            if_denied=if_denied,
            needed_by=needed_by,
        )
        plain = restore(canonical(args))
        context = replace(CONTEXT.get() or self._context, **said)
        active = CURRENT.get()
        if active is not None:
            context = in_run(context, active, action, plain)
        if active is None:
            await self._judgement.until_go(context.agent, 0)
        else:
            await active.until_going()
        fired = (Trigger("asked for", insists, GateKind.HARD),) if insists else ()
        prepared = self._calls.prepare(proposed, plain, context, {}, fired)
        if (known := await self._calls.told_by_its_marks(prepared)) is not None:
            return Proposal(self._calls, prepared, known)
        if self._calls.runs_at_once(prepared):
            self._calls.note(prepared)
            return Proposal(self._calls, prepared, None)
        caller = self._calls.caller_of(prepared.context)

        def put() -> Awaitable[tuple[Request, bool]]:
            return self._calls.submit(prepared, start=False, caller=caller)

        request, _ = await (
            self._judgement.once_going(context.agent, 0, put) if active is None else active.once_going(put)
        )
        return Proposal(self._calls, prepared, await self._calls.callers.waits(request))

    async def on_record(self, key: str) -> Request | None:
        """The request that the step of this name made in the run that the calling code belongs to."""
        active = CURRENT.get()
        return None if active is None else await self._store.by_step(self._workspace, active.id, key)

    def as_asked(self, request: Request) -> Any:
        """The arguments as the agent gave them. Once it has ended, only the marks of its secrets are left of them."""
        return unsealed(self._vault, request.id, restore(request.ask.candidate.args_text), request.sealed)

    async def ask(
        self,
        text: str,
        /,
        *,
        choices: Iterable[str] = (),
        schema: Mapping[str, Json] | None = None,
        best_guess: Any = _MISSING,
        time: timedelta | None = timedelta(hours=1),
        reviewers: Iterable[str] = (),
        patience: float | None = None,
        found: Iterable[Fact] = (),
        shown: Mapping[str, Json] | None = None,
        **said: Any,
    ) -> Any:
        """The answer of a person; after `time` the declared best guess, or `Denied` where there is none.

        `found` are facts for the card that are not the agent's word; `shown` is what the card shows in full, by name.
        """
        request = await self.question(
            text, choices=choices, schema=schema, best_guess=best_guess, time=time, reviewers=reviewers, found=found,
            shown=shown, patience=patience, **said,
        )  # fmt: skip
        return await self.heard(request, patience)

    async def heard(self, request: Request, patience: float | None = None) -> Any:
        """What a person answered to a question that is on record; raises where there is no answer."""
        active = CURRENT.get()
        if active is None:
            return await answered(self._calls, request, patience)
        async with active.waiting():
            return await answered(self._calls, request, active.patience_for(patience))

    async def question(
        self,
        text: str,
        /,
        *,
        choices: Iterable[str] = (),
        schema: Mapping[str, Json] | None = None,
        best_guess: Any = _MISSING,
        time: timedelta | None = timedelta(hours=1),
        reviewers: Iterable[str] = (),
        patience: float | None = None,
        found: Iterable[Fact] = (),
        shown: Mapping[str, Json] | None = None,
        **said: Any,
    ) -> Request:
        """The question as `ask` puts it on record; its answer is not waited for."""
        context = replace(CONTEXT.get() or self._context, **said)
        guess, facts = NO_GUESS if best_guess is _MISSING else (best_guess,), tuple(found)
        active = CURRENT.get()
        if active is None:
            await self._judgement.until_go(context.agent, patience)
        else:
            await active.until_going()
            context = in_run(context, active, "question", {"question": text})
            if active.is_over:
                await active.step_on_record(context.key)
        asked = question(
            self._calls, context, text, several("choices", choices), schema, guess, time,
            several("reviewers", reviewers), facts, shown,
        )  # fmt: skip
        request = await self._calls.put(asked, self._calls.caller_of(context, patience))
        return await self._calls.callers.waits(request)

    async def withdraw(self, request: Request, reason: str) -> Request:
        """The agent no longer wants it: it leaves the inbox, and does not run."""
        return await self._calls.execution.cancel(request, self._context.agent, reason)
