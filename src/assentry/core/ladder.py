"""What happens as time passes without a decision: a reminder falls due, more people may decide, waiting ends."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from assentry.core.verdict import Ladder, Rung


@dataclass(frozen=True, slots=True)
class Climb:
    """One rung reached: when, which, and who may decide from then on as well."""

    at: datetime
    rung: Rung
    adds: tuple[str, ...]


def climb(ladder: Ladder, start: datetime, number: int) -> Climb | None:
    """The climb with this number (from 0, counted through all loops), or none if the ladder has no more."""
    if not ladder.rungs:
        return None
    loop, position = divmod(number, len(ladder.rungs))
    if loop > ladder.loops:
        return None
    rung = ladder.rungs[position]
    offset = rung.after + loop * ladder.rungs[-1].after
    if ladder.limit is not None and offset >= ladder.limit:
        return None
    turn = (rung.rota[loop % len(rung.rota)],) if rung.rota else ()
    return Climb(start + offset, rung, rung.tell + turn)


def joining(rungs: tuple[Rung, ...], loops: int) -> list[tuple[timedelta, tuple[str, ...]]]:
    """Who may decide as well and after what time, each when they come first, in order; a limit cuts it short.

    A rung tells all of `tell` when it is first climbed, and one more of its `rota` in each loop.
    """
    if not rungs:
        return []
    once = rungs[-1].after
    found = [(rung.after, rung.tell + rung.rota[:1]) for rung in rungs]
    for rung in rungs:
        found += [(rung.after + loop * once, (each,)) for loop, each in enumerate(rung.rota[: loops + 1]) if loop]
    return sorted((each for each in found if each[1]), key=lambda each: each[0])


def due(ladder: Ladder, start: datetime, number: int, ends_at: datetime | None) -> datetime | None:
    """When time next moves a waiting request: the next rung or the end, whichever comes first."""
    following = climb(ladder, start, number)
    moments = [moment for moment in (following.at if following else None, ends_at) if moment is not None]
    return min(moments, default=None)


def end(limit: timedelta | None, start: datetime, needed_by: datetime | None) -> datetime | None:
    """When waiting ends: the ladder's limit, or earlier if the answer is needed earlier."""
    moments = [moment for moment in (None if limit is None else start + limit, needed_by) if moment is not None]
    return min(moments, default=None)
