"""The reviewer's side of runs: what there is, and stopping, pausing and continuing it."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from assentry.core.advance import advance
from assentry.core.authority import ASSENTRY, Principal, may_release
from assentry.core.change import Change
from assentry.core.decision import Cancel, Freeze, Thaw
from assentry.core.policy import Policy
from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.core.run_life import Continue, Pause, RunEvent, Stop, advance_run
from assentry.core.secret_text import without_secrets
from assentry.core.switch import EVERYTHING, Setting, Switch, holding
from assentry.core.switching import counted, turned
from assentry.errors import Conflict, NotAllowed, NotFound, StaleRequest
from assentry.ports import Filter, RunFilter, Step, Store, View


@dataclass(slots=True)
class Withdrawn:
    """How many requests a stop has withdrawn so far."""

    requests: int = 0


OPEN = (RunState.RUNNING, RunState.PARKED, RunState.PAUSED, RunState.ORPHANED, RunState.STOPPING)
_PAGE = 100


class Oversight:
    """What a surface holds to look after runs. Every method that changes something takes the person who does it.

    Everybody may hold something up; by the `policy` not everybody may let it go on.
    """

    def __init__(self, store: Store, workspace: str, policy: Callable[[], Policy] = Policy) -> None:
        self._store, self._workspace, self._policy = store, workspace, policy

    async def page(self, wanted: RunFilter | None = None, *, after: str = "", limit: int = 50) -> tuple[Run, ...]:
        """Runs, newest first; without a filter those that are not over."""
        return await self._store.runs(self._workspace, wanted or RunFilter(states=OPEN), after=after, limit=limit)

    async def find(self, prefix: str) -> Run:
        """The one run whose code or id begins with `prefix`."""
        prefix = prefix.strip().lower()
        found = await self._store.find_runs(self._workspace, prefix, limit=6) if prefix else ()
        if not found:
            raise NotFound(f"no run begins with {prefix!r}; `assentry runs` lists them")
        if len(found) > 1:
            codes = ", ".join(run.code for run in found[:5])
            raise NotFound(f"{prefix!r} fits several runs ({codes}{'…' if len(found) > 5 else ''}); type more of it")
        return found[0]

    async def steps(self, run: Run) -> tuple[Request, ...]:
        """What the run asked for or did on record, oldest first."""
        found: list[Request] = []
        after = ""
        while True:
            page = await self._store.requests(self._workspace, Filter(run=run.id), after=after, limit=_PAGE)
            found += page.requests
            after = page.next
            if not after:
                return tuple(sorted(found, key=lambda request: request.id))

    async def children(self, run: Run) -> tuple[Run, ...]:
        """The runs of agents that worked for this one."""
        return await self._store.runs(self._workspace, RunFilter(parent=run.id), limit=_PAGE)

    async def pause(self, by: Principal, run: Run, reason: str = "", *, switch: str = "") -> Run:
        """The run goes no further than its next gate, until it is continued; time stands still for what it asked.

        `switch` is whose, where it is not about this run alone.
        """
        paused = await self._moved(run, Pause(by.name, without_secrets(reason), switch))
        await self._each_pending(run, Freeze(by.name))
        for child in await self._open_children(run):
            if child.state not in (RunState.PAUSED, RunState.STOPPING):
                with suppress(Conflict):
                    await self.pause(by, child, reason, switch=switch)
        return paused

    async def go(self, by: Principal, run: Run, *, switch: bool = False) -> Run:
        """What was paused goes on, and so does time; of the runs inside only what a `switch` held, if that is over."""
        if run.switch and not switch and (held := holding(await self.switches(), run.agent)) is not None:
            raise NotAllowed(f"{held.says}; that has to be lifted first", principal=by.name)
        await self._each_pending(run, Thaw(by.name))
        # First those inside, so that whoever goes on with the outer one does not find them paused.
        for child in await self._open_children(run):
            if child.state is RunState.PAUSED and (child.switch or not switch):
                with suppress(Conflict):
                    await self.go(by, child, switch=switch)
        return await self._moved(run, Continue(by.name))

    async def _open_children(self, run: Run) -> tuple[Run, ...]:
        found: list[Run] = []
        after = ""
        while page := await self.page(RunFilter(states=OPEN, parent=run.id), after=after, limit=_PAGE):
            found += page
            after = page[-1].id
        return tuple(found)

    async def stop(self, by: Principal, run: Run, reason: str = "", *, withdrawn: Withdrawn | None = None) -> Run:
        """The run ends at its next gate; what it still waits for is withdrawn. So are the runs that work for it."""
        stopped = await self._moved(run, Stop(by.name, without_secrets(reason)))
        await self.ends_with(by, run, reason, withdrawn)
        return stopped

    async def ends_with(self, by: Principal, run: Run, reason: str, withdrawn: Withdrawn | None = None) -> None:
        """What a run that was stopped still waits for is withdrawn, and the runs that work for it are stopped too."""
        moved = await self._each_pending(run, Cancel(by.name, "its run was stopped"))
        if withdrawn is not None:
            withdrawn.requests += moved
        for child in await self._open_children(run):
            if child.state is not RunState.STOPPING:
                with suppress(Conflict):
                    await self.stop(by, child, reason, withdrawn=withdrawn)

    async def switches(self) -> tuple[Switch, ...]:
        """The stop switches that hold somebody up."""
        return tuple(switch for switch in await self._store.switches(self._workspace) if switch.is_held)

    async def hold(
        self, by: Principal, agent: str, setting: Setting, reason: str = "", *, withdrawn: Withdrawn | None = None
    ) -> AsyncIterator[Run]:
        """An agent, or everything, does nothing more until somebody says go; each run that was held is given.

        The switch is set first: from then on every process turns it away or lets it wait. Its runs and whatever else
        it waits for follow. What a stop withdraws is counted in `withdrawn`.
        """
        await self._turn(by, agent, setting, reason)
        for run in await self.everything("" if agent == EVERYTHING else agent):
            with suppress(Conflict):  # it ended, or was held, by itself meanwhile
                if setting is Setting.STOP and run.state is not RunState.STOPPING:
                    yield await self.stop(by, run, reason, withdrawn=withdrawn)
                elif setting is Setting.PAUSE and run.state in (RunState.RUNNING, RunState.PARKED, RunState.ORPHANED):
                    yield await self.pause(by, run, reason, switch=agent)
        event = Freeze(by.name) if setting is Setting.PAUSE else Cancel(by.name, "its agent was stopped")
        moved = await self._each_waiting(agent, event)
        if withdrawn is not None and setting is Setting.STOP:
            withdrawn.requests += moved

    async def release(self, by: Principal, agent: str) -> AsyncIterator[Run]:
        """What was held goes on, and so does time, except where another switch holds it; gives each run that does.

        A run that somebody paused by itself stays paused, and so does what it asked.
        """
        await self._turn(by, agent, Setting.GO, "")
        still, whose = await self.switches(), "" if agent == EVERYTHING else agent
        for run in await self.everything(whose):
            if run.state is RunState.PAUSED and run.switch and holding(still, run.agent) is None:
                with suppress(Conflict):
                    yield await self.go(by, run, switch=True)
        paused = {run.id for run in await self.everything(whose) if run.state is RunState.PAUSED}
        await self._each_waiting(agent, Thaw(by.name), still, paused)

    async def denied(self, by: Principal, agent: str, most: int) -> None:
        """Somebody denied the agent something; after so many times in a row it is paused."""
        denials = await self._count(by, agent, 1)
        if denials >= most and not (await self._switch(agent)).is_held:
            reason = f"{denials} of its requests in a row were denied"
            async for _ in self.hold(Principal(ASSENTRY), agent, Setting.PAUSE, reason):
                pass

    async def allowed(self, by: Principal, agent: str) -> None:
        """Somebody allowed the agent something, so that denials are counted anew."""
        await self._count(by, agent, 0)

    async def _count(self, by: Principal, agent: str, more: int) -> int:
        while True:
            switch = await self._switch(agent)
            denials = switch.denials + more if more else 0
            if denials == switch.denials:
                return denials

            def step(view: View, switch: Switch = switch, denials: int = denials) -> Change:
                return counted(switch, denials, by.name, view.now)

            with suppress(StaleRequest):  # somebody else decided at the same moment
                await self._store.transact(self._workspace, None, step)
                return denials

    async def _switch(self, agent: str) -> Switch:
        known = {switch.agent: switch for switch in await self._store.switches(self._workspace)}
        return known.get(agent) or Switch(self._workspace, agent, Setting.GO, "", await self._store.now())

    async def _turn(self, by: Principal, agent: str, setting: Setting, reason: str) -> None:
        while True:
            switch, why = await self._switch(agent), without_secrets(reason)
            if setting is Setting.GO and not switch.is_held:
                return
            if switch.is_held and by.name == ASSENTRY:
                return  # a person holds it up already, and says when it goes on
            holder, why_not = by.name, may_release(self._policy(), by, switch.by) if switch.is_held else None
            if why_not is not None and switch.is_eased_by(setting):
                raise NotAllowed(why_not, principal=by.name)
            if why_not is not None and setting is switch.setting:
                return
            if why_not is not None:
                # Made stricter by somebody who may not let it go: whoever held it before says when it goes on.
                holder, why = switch.by, f"{by.name} made this a stop{f': {why}' if why else ''}"

            def step(view: View, switch: Switch = switch, why: str = why, holder: str = holder) -> Change:
                return turned(switch, setting, by.name, why, view.now, holder=holder)

            with suppress(StaleRequest):  # somebody else set it at the same moment: once more, from there
                await self._store.transact(self._workspace, None, step)
                return

    async def _each_waiting(
        self,
        agent: str,
        event: Cancel | Freeze | Thaw,
        still: tuple[Switch, ...] = (),
        but: Collection[str] = (),
    ) -> int:
        """The same happens to everything that waits for people for this agent, or at all, but not for some runs.

        How many requests it happened to.
        """
        moved = 0
        wanted = Filter(states=(State.PENDING,), agent="" if agent == EVERYTHING else agent)
        after = ""
        while True:
            page = await self._store.requests(self._workspace, wanted, after=after, limit=_PAGE)
            for request in page.requests:
                if holding(still, request.ask.agent) is None and request.ask.run not in but:
                    moved += await self._happens(event, request)
            after = page.next
            if not after:
                return moved

    async def everything(self, agent: str = "") -> tuple[Run, ...]:
        """Every run that is not over, of one agent or of all."""
        found: list[Run] = []
        after = ""
        while page := await self.page(RunFilter(states=OPEN, agent=agent), after=after, limit=_PAGE):
            found += page
            after = page[-1].id
        return tuple(found)

    async def _moved(self, run: Run, event: RunEvent) -> Run:
        def step(view: View) -> Change | None:
            if view.run is None:
                raise NotFound(f"there is no run {run.code} in workspace {self._workspace}")
            return advance_run(view.run, event, view.now)

        awaiting = run.waits if isinstance(event, Continue) else ()
        change = await self._store.transact(self._workspace, None, step, run=run.id, awaiting=awaiting)
        return change.run if change is not None and change.run is not None else run

    async def _each_pending(self, run: Run, event: Cancel | Freeze | Thaw) -> int:
        """The same happens to everything that the run waits for: how many requests that was."""
        pending = [request for request in await self.steps(run) if request.state is State.PENDING]
        return sum([await self._happens(event, request) for request in pending])

    async def _happens(self, event: Cancel | Freeze | Thaw, request: Request) -> bool:
        """Whether the request was still pending, so that the event changed it."""
        return await self._store.transact(self._workspace, request.id, _if_pending(event)) is not None


def _if_pending(event: Cancel | Freeze | Thaw) -> Step:
    def step(view: View) -> Change | None:
        current = view.request
        return None if current is None or current.state is not State.PENDING else advance(current, event, view.now)

    return step
