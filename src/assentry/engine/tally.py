"""What a run uses up: its steps, its share of the scope, its cost and what its agent has cost that day."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from assentry.core.decision import Candidate
from assentry.core.judge import run_triggers
from assentry.core.request import Request, State
from assentry.core.run import Run
from assentry.core.run_life import Progress, advance_run
from assentry.core.scope import cost, uses
from assentry.core.situation import Standing
from assentry.engine.office import Held, Office, Outpaced
from assentry.ports import View


class Tally:
    """The counts of one run, for policy and for the record."""

    def __init__(self, office: Office, record: Run) -> None:
        self._office, self._id, self._agent = office, record.id, record.agent
        self.reads = 0
        """Calls that simply ran since a step was last put on record."""
        self._spent_elsewhere = Decimal(0)
        """What the agent's other runs of this day had cost when this one last put a step on record."""

    def standing(self, run: Run, now: datetime) -> Standing:
        """Where the run stands, for policy."""
        return Standing(
            run=run.id,
            goal=run.goal,
            agent=run.agent,
            steps=run.steps + self.reads,
            spend=float(run.spend),
            spent_today=float(self._spent_elsewhere + run.spend),
            scope=run.scope,
            used=run.used,
            unchecked_steps=run.steps + self.reads - run.checked_steps,
            unchecked=now - (run.checked_at or run.created_at),
        )

    def progress(self, view: View, candidate: Candidate, fence: int) -> Run | None:
        """The run with one step more, inside the transaction that records the step.

        What must wait uses up nothing yet, and what is forbidden never does.
        """
        if view.run is None:
            return None
        if view.run.is_held:
            raise Held(view.run)
        steps, action = 1 + self.reads, candidate.action
        made = Progress(fence, steps=steps, confidence=action.confidence)
        if candidate.verdict.gate.runs_at_once:
            # Calls beside it may have used up since what was still there when it was judged.
            standing = self.standing(view.run, view.now)
            known = {trigger.name for trigger in candidate.verdict.triggers}
            fired = run_triggers(self._office.limits(), action, candidate.assessment, standing)
            if any(trigger.name not in known for trigger in fired):
                raise Outpaced(view.run)
            made = replace(made, spend=cost(action), used=uses(action, candidate.assessment))
        change = advance_run(view.run, made, view.now)
        return change.run if change is not None else None

    def begins(self, view: View, request: Request, fence: int, *, counts: bool = True) -> Run | None:
        """The run when something begins that was on record before, inside the transaction that records the intent.

        Unless it did so when it was proposed, or is tried again, it uses up its share of the scope and costs what it
        costs. Whoever allowed it has looked in at the run.
        """
        if view.run is None:
            return None
        if view.run.is_held:
            raise Held(view.run)
        made = Progress(fence, checked_in=bool(request.votes))
        is_first = view.request is None or view.request.state is State.APPROVED
        if counts and is_first and not request.ask.candidate.verdict.gate.runs_at_once:
            candidate = request.candidate
            made = replace(made, used=uses(candidate.action, candidate.assessment), spend=cost(candidate.action))
        change = advance_run(view.run, made, view.now)
        return change.run if change is not None else None

    async def count_the_day(self) -> None:
        """Where policy looks at what an agent costs in a day, what its other runs that began today have cost is known.

        By the database's clock, and in UTC.
        """
        office = self._office
        if office.counts_days():
            today = (await office.store.now()).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            self._spent_elsewhere = await office.store.spent(office.workspace, self._agent, today, self._id)
