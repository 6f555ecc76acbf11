"""What happened in a run, read for people: its steps, the runs that worked for it, and the drafts of a request.

Reading only, and always bounded: whatever an agent made of its runs and drafts, a surface gets its answer.
"""

from dataclasses import dataclass

from assentry.core.request import Request, State
from assentry.core.run import Run
from assentry.ports import Filter, RunFilter, Store

RECENT = 8
"""How many of the last steps a check-in shows."""
MOST_STEPS = 500
MOST_RUNS = 40
DEEPEST = 5
MOST_DRAFTS = 20
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Branch:
    """A run with its steps, oldest first, and the runs that worked for it."""

    run: Run
    steps: tuple[Request, ...]
    children: tuple["Branch", ...] = ()
    earlier: bool = False
    """There are steps before these that were not read."""
    more: bool = False
    """There are runs that worked for it, or for those, that were not read."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """The requests that one request revises, oldest first, without itself."""

    before: tuple[Request, ...] = ()
    missing: str = ""
    """What the oldest of them says it revises, if that is not on record."""
    cut: bool = False
    """There are more than were read, or the chain leads back to itself."""


class Chronicle:
    """What a surface holds to tell the story of a run or a draft."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace

    async def run_of(self, request: Request) -> Run | None:
        """The run that the request belongs to; none where it only names something as its run."""
        return await self.run(request.ask.run) if request.ask.run else None

    async def run(self, run_id: str) -> Run | None:
        """The run with this id."""
        return await self._store.run(self._workspace, run_id)

    async def recent(self, run: Run, *, without: str = "", limit: int = RECENT) -> tuple[Request, ...]:
        """The last requests of the run, oldest first, leaving one out."""
        page = await self._store.requests(self._workspace, Filter(run=run.id), limit=limit + 1)
        found = [request for request in page.requests if request.id != without]
        return tuple(reversed(found[:limit]))

    async def waiting(self) -> dict[str, int]:
        """How many requests of each run wait for a person, of the most urgent ones."""
        page = await self._store.requests(self._workspace, Filter(states=(State.PENDING,)), limit=_PAGE)
        counted: dict[str, int] = {}
        for request in page.requests:
            counted[request.ask.run] = counted.get(request.ask.run, 0) + 1
        return counted

    async def codes(self, run_ids: set[str]) -> dict[str, str]:
        """The codes by which these runs are named; those that are not on record have none."""
        found = [await self.run(run_id) for run_id in sorted(run_ids) if run_id]
        return {run.id: run.code for run in found if run is not None}

    async def tree(self, run: Run, *, most: int = MOST_STEPS) -> Branch:
        """The run with everything that happened in it, and in the runs that worked for it."""
        return await self._branch(run, most, DEEPEST, {run.id})

    async def _branch(self, run: Run, most: int, depth: int, met: set[str]) -> Branch:
        steps, earlier = await self._steps(run, most)
        found = await self._store.runs(self._workspace, RunFilter(parent=run.id), limit=MOST_RUNS + 1)
        children: list[Branch] = []
        more = False
        for child in reversed(found):
            if child.id in met or depth <= 1 or len(met) > MOST_RUNS:
                more = True
                continue
            met.add(child.id)
            children.append(await self._branch(child, most, depth - 1, met))
        return Branch(run, steps, tuple(children), earlier, more)

    async def _steps(self, run: Run, most: int) -> tuple[tuple[Request, ...], bool]:
        """The newest `most` steps, oldest first, and whether there were others before."""
        found: list[Request] = []
        after = ""
        while True:
            limit = min(_PAGE, most - len(found))
            page = await self._store.requests(self._workspace, Filter(run=run.id), after=after, limit=limit)
            found += page.requests
            after = page.next
            if not after or len(found) >= most:
                return tuple(reversed(found)), bool(after)

    async def drafts(self, request: Request) -> Drafts:
        """What the request revises, and what that revised, as far back as it goes."""
        found: list[Request] = []
        met = {request.id}
        wanted = request.ask.draft_of
        while wanted:
            if wanted in met or len(found) >= MOST_DRAFTS:
                return Drafts(tuple(reversed(found)), cut=True)
            met.add(wanted)
            before = await self._store.request(self._workspace, wanted)
            if before is None:
                return Drafts(tuple(reversed(found)), missing=wanted)
            found.append(before)
            wanted = before.ask.draft_of
        return Drafts(tuple(reversed(found)))
