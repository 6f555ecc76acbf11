"""Rotas: who is on duty when. The time comes from outside."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

WEEK = timedelta(weeks=1)


@dataclass(frozen=True, slots=True)
class Turn:
    """Somebody is on duty from one moment until another."""

    person: str
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Rota:
    """Turns that were written down one by one, or people who take a week each, in order."""

    name: str
    turns: tuple[Turn, ...] = ()
    weekly: tuple[str, ...] = ()
    begins: datetime | None = None
    """When the first week of `weekly` begins; before that nobody is on duty by it."""

    @property
    def members(self) -> tuple[str, ...]:
        """Everybody who is on duty at some time."""
        return tuple(dict.fromkeys((*(turn.person for turn in self.turns), *self.weekly)))

    def since(self, now: datetime) -> "Rota":
        """The rota without the turns that are over."""
        return replace(self, turns=tuple(turn for turn in self.turns if turn.ends > now))

    def on_duty(self, now: datetime) -> tuple[str, ...]:
        """Who is on duty now; nobody, where nobody was written down for it."""
        found = [turn.person for turn in self.turns if turn.begins <= now < turn.ends]
        if self.weekly and self.begins is not None and now >= self.begins:
            found.append(self.weekly[(now - self.begins) // WEEK % len(self.weekly)])
        return tuple(dict.fromkeys(found))
