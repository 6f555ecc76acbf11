"""Who of the people of a policy can meet which quorum, for whole files of rules at once.

`deciders` says the same of one request, with names and reasons. Here people are bits of a number, so that a selector, a
ladder or an exclusion is one operation however many people there are, and each combination is reckoned once.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from operator import or_

from assentry.core.authority import EVERYTHING
from assentry.core.coverage import Work
from assentry.core.ladder import joining
from assentry.core.policy import Policy
from assentry.core.verdict import Ladder, Quorum

People = int
"""A set of people: bit n is the nth of the policy."""
_Key = tuple[tuple[str, ...], Quorum, int, int, timedelta | None]


@dataclass(slots=True)
class Panel:
    """The people of a policy, by everything that can select them.

    A rota means who is on duty `now`; without a time, everybody who is at some time.
    """

    policy: Policy
    work: Work = field(default_factory=Work)
    now: datetime | None = None
    _bits: dict[str, People] = field(init=False)
    _chosen: dict[str, People] = field(init=False)
    _all_roles: People = field(init=False)
    _all_teams: People = field(init=False)
    _climbs: dict[tuple[int, int], tuple[list[timedelta], list[People]]] = field(default_factory=dict)
    _known: dict[_Key, "Circle"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        people = self.policy.people
        self._bits = {person.name: 1 << place for place, person in enumerate(people)}
        gathered: dict[str, list[int]] = {}
        for place, person in enumerate(people):
            for group in (*(f"role:{role}" for role in person.roles), *(f"team:{team}" for team in person.teams)):
                gathered.setdefault(group, []).append(place)
        self._chosen = {group: _people(places) for group, places in gathered.items()}
        self._all_roles = self._chosen.get(f"role:{EVERYTHING}", 0)
        self._all_teams = self._chosen.get(f"team:{EVERYTHING}", 0)
        for rota in self.policy.rotas:
            members = rota.members if self.now is None else rota.on_duty(self.now)
            self._chosen[f"rota:{rota.name}"] = self.named(members)

    def named(self, names: Iterable[str]) -> People:
        """The people with these names; a name that nobody has is nobody."""
        found = 0
        for name in names:
            found |= self._bits.get(name, 0)
        return found

    def names(self, people: People) -> tuple[str, ...]:
        """Their names, in the order of the policy."""
        return tuple(self.policy.people[bit.bit_length() - 1].name for bit in _each(people))

    def selected(self, selector: str) -> People:
        """Whom a reviewer such as `alice` or `role:manager` means, as `authority.selects` says of one person."""
        kind, colon, _ = selector.partition(":")
        if not colon:
            return self._bits.get(selector, 0) | self._all_roles
        found = self._chosen.get(selector, 0) if kind in ("role", "team", "rota") else 0
        return found | (self._all_teams if kind == "team" else self._all_roles if kind in ("role", "rota") else 0)

    def circle(self, reviewers: tuple[str, ...], quorum: Quorum, ladder: Ladder) -> "Circle":
        """Who can decide at some time what is asked of these reviewers."""
        # Ladders that inherit their rungs share them, and comparing long ones would cost more than all the rest.
        key = (reviewers, quorum, id(ladder.rungs), ladder.loops, ladder.limit)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Circle(
                self, quorum, self.asked(reviewers) | (self._added(ladder) if reviewers else 0)
            )
        return found

    def asked(self, reviewers: tuple[str, ...]) -> People:
        """Whom these reviewers mean; no reviewers are everybody."""
        if not reviewers:
            return (1 << len(self.policy.people)) - 1
        self.work.spend(len(reviewers))
        found = 0
        for selector in reviewers:
            found |= self.selected(selector)
        return found

    def _added(self, ladder: Ladder) -> People:
        """Whom the ladder adds before its limit."""
        key = (id(ladder.rungs), ladder.loops)
        if key not in self._climbs:
            self.work.spend(1 + sum(1 + len(rung.tell) + len(rung.rota) for rung in ladder.rungs))
            steps = joining(ladder.rungs, ladder.loops)
            added = [self.selected(each) for _, selectors in steps for each in selectors]
            times = [after for after, selectors in steps for _ in selectors]
            self._climbs[key] = (times, list(accumulate(added, or_)))
        times, together = self._climbs[key]
        reached = len(times) if ladder.limit is None else bisect_left(times, ladder.limit)
        return together[reached - 1] if reached else 0


@dataclass(slots=True)
class Circle:
    """Those who can decide one kind of request at some time, and the quorum that they have to meet."""

    panel: Panel
    quorum: Quorum
    everybody: People
    _needed: dict[People, People | None] = field(default_factory=dict)

    def enough(self, without: People = 0) -> bool:
        """Whether those who are left without some can meet the quorum."""
        return self._reckoned(self.everybody & without) is not None

    def needed(self, without: People = 0) -> People:
        """Those of whom nobody else can be spared, once some cannot decide; nobody, where they are too few already."""
        return self._reckoned(self.everybody & without) or 0

    def _reckoned(self, out: People) -> People | None:
        if out not in self._needed:
            self._needed[out] = self._reckon(self.everybody & ~out)
        return self._needed[out]

    def _reckon(self, able: People) -> People | None:
        """Those who are needed of the able; `None` where even all of them do not suffice."""
        self.panel.work.spend()
        many, wanted = able.bit_count(), max(self.quorum.count, len(self.quorum.roles))
        if many < wanted:
            return None
        seats = _Seats(self.panel.work, [self.panel.selected(f"role:{role}") for role in self.quorum.roles])
        if not seats.filled(able):
            return None
        return able if many == wanted else seats.needed(able)


@dataclass(slots=True)
class _Seats:
    """A person for each role, nobody for two (augmenting paths, as in `authority`)."""

    work: Work
    roles: list[People]
    _seated: dict[People, int] = field(default_factory=dict)

    def filled(self, able: People) -> bool:
        """Every role has a person of its own among the able."""
        return all(self._seat(role, able) for role in range(len(self.roles)))

    def needed(self, able: People) -> People:
        """Those of the seated without whom there would be a seat too many."""
        found = 0
        for person, role in tuple(self._seated.items()):
            moved = _Seats(self.work, self.roles, {each: seat for each, seat in self._seated.items() if each != person})
            if not moved._seat(role, able & ~person):
                found |= person
        return found

    def _seat(self, role: int, able: People) -> bool:
        tried = 0

        def sit(role: int) -> bool:
            nonlocal tried
            self.work.spend(1 + len(self._seated))
            seated = 0
            for each in self._seated:
                seated |= each
            fit = self.roles[role] & able & ~tried
            if free := fit & ~seated:
                self._seated[free & -free] = role
                return True
            for person in _each(fit):
                if tried & person:
                    continue
                tried |= person
                if sit(self._seated[person]):
                    self._seated[person] = role
                    return True
            return False

        return sit(role)


def _people(places: Iterable[int]) -> People:
    """Built from bytes, since a number that grows bit by bit is copied each time."""
    places = tuple(places)
    made = bytearray(max(places, default=0) // 8 + 1)
    for place in places:
        made[place // 8] |= 1 << place % 8
    return int.from_bytes(made, "little")


def _each(people: People) -> Iterator[People]:
    while people:
        bit = people & -people
        yield bit
        people ^= bit
