"""The five questions: what is measured, against whom, and what was promised."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from bench.figures import Figure, Measurement, Series, interleaved
from bench.subject import Subject, subjects
from tests import postgres

MICRO, RATE, MILLI = "µs", "/s", "ms"


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how much is measured."""

    directory: Path
    peers: str | None
    server: str | None
    rounds: int = 5
    size: float = 1.0
    """1 for the real thing; a small part of it to see that everything runs."""

    def times(self, number: int) -> int:
        """`number`, scaled down for a quick look."""
        return max(2, round(number * self.size))

    @contextmanager
    def databases(self) -> Iterator[Callable[[str, str], str]]:
        """Gives out a fresh database, by kind and name, each time it is asked; all are gone at the end."""
        numbers = count()
        with _fresh(self.server) as fresh:

            def give(kind: str, name: str) -> str:
                return fresh() if kind == "PostgreSQL" else str(self.directory / f"{name}-{next(numbers)}.db")

            yield give

    @property
    def kinds(self) -> list[str]:
        return ["SQLite", "PostgreSQL"] if self.server is not None else ["SQLite"]


@contextmanager
def _fresh(server: str | None) -> Iterator[Callable[[], str]]:
    """Gives out a new database of the server each time it is asked; all are dropped at the end."""
    with ExitStack() as stack:

        def give() -> str:
            assert server is not None
            return stack.enter_context(postgres.database(server))

        yield give


def allowed(setting: Setting) -> Figure:
    """What is added to a call that policy simply lets run."""
    figure = Figure("1. Time added to a call that is allowed")
    calls, slow = setting.times(5000), setting.times(300)
    with subjects(setting.peers, setting.directory) as those:
        ours = those.ours("ours_allowed")
        tollgate, holdpoint = those.peer("peer_tollgate"), those.peer("peer_holdpoint")
        found: dict[str, Series] = {}
        for kind, number in (("named", 1), ("named", 100), ("conditions", 100)):
            many = calls if kind == "named" else calls // 5
            key = f"{kind} {number}"
            todo: dict[str, Measurement] = {
                f"ours {key}": _micro(ours, "allowed", rules=number, kind=kind, calls=many),
                f"plain {key}": _micro(ours, "allowed_plain", rules=number, kind=kind, calls=many),
            }
            if tollgate is not None:
                todo[f"audited {key}"] = _micro(tollgate, "audited", rules=number, kind=kind, calls=many)
                todo[f"unaudited {key}"] = _micro(tollgate, "unaudited", rules=number, kind=kind, calls=many)
            if holdpoint is not None and kind == "named":
                todo[f"holdpoint {key}"] = _micro(holdpoint, "allowed", rules=number, calls=slow)
            if key == "named 100":
                # Beside each other, so that what a hundred rules cost is not what the machine did meanwhile.
                todo["ours named 1 again"] = _micro(ours, "allowed", rules=1, kind="named", calls=many)
            found |= interleaved(setting.rounds, todo)
    words = {"named 1": "1 rule", "named 100": "100 rules", "conditions 100": "100 rules that all apply, conditions"}
    for key, what in words.items():
        mine = found[f"ours {key}"]
        if f"audited {key}" in found:
            target = 0.5 if key.startswith("named") else None
            figure.add(what, MICRO, mine, against="tollgate", theirs=found[f"audited {key}"], at_most=target)
            figure.add(what, MICRO, mine, against="tollgate, keeping no record", theirs=found[f"unaudited {key}"])
        if f"holdpoint {key}" in found:
            figure.add(what, MICRO, mine, against="holdpoint, rule approves", theirs=found[f"holdpoint {key}"])
        figure.add(f"{what}, plain def", MICRO, found[f"plain {key}"])
    figure.add(
        "100 rules by 1 rule", MICRO, found["ours named 100"],
        against="ours with 1 rule", theirs=found["ours named 1 again"], at_most=2.0,
    )  # fmt: skip
    figure.notes.append(
        "Ours until every line about the calls is in the database and synced; tollgate's file is never synced."
    )
    return figure


def cycles(setting: Setting) -> Figure:
    """Calls that are held, decided by a person and run."""
    figure = Figure("2. Propose, decide, execute")
    with subjects(setting.peers, setting.directory) as those, setting.databases() as database:
        ours, graph, holdpoint = those.ours("ours_cycles"), those.peer("peer_langgraph"), those.peer("peer_holdpoint")
        for kind in setting.kinds:
            mine, theirs = database(kind, "ours"), database(kind, "langgraph")
            for callers in (1, 50):
                each = setting.times(300) if callers == 1 else setting.times(20)
                few = setting.times(100) if callers == 1 else setting.times(4)
                todo: dict[str, Measurement] = {
                    "ours": _rate(ours, "cycles", database=mine, callers=callers, each=each)
                }
                ours.ask("cycles", database=mine, callers=callers, each=2)
                if graph is not None:
                    for mode in ("threads", "asyncio"):
                        order = {"database": theirs, "callers": callers, "each": few, "mode": mode}
                        todo[f"langgraph {mode}"] = _rate(graph, "cycles", **order)
                        todo[f"langgraph {mode} exit"] = _rate(graph, "cycles", **order, durability="exit")
                if holdpoint is not None and kind == "SQLite":
                    for mode in ("threads", "asyncio"):
                        todo[f"holdpoint {mode}"] = _rate(holdpoint, "cycles", callers=callers, each=few, mode=mode)
                found = interleaved(setting.rounds, todo)
                what = f"{kind}, {callers} caller{'s' if callers > 1 else ''}"
                _compare(figure, what, found, kind, callers)
    figure.notes.append(
        "Each peer in the way that was fastest for it, threads or asyncio; LangGraph also with durability=exit, which "
        "writes less than its default. holdpoint with synchronous=FULL, as the others have it."
    )
    return figure


def _compare(figure: Figure, what: str, found: dict[str, Series], kind: str, callers: int) -> None:
    mine = found["ours"]

    def best(names: list[str]) -> tuple[str, Series]:
        return max(((name, found[name]) for name in names), key=lambda pair: pair[1].median)

    if "langgraph threads" in found:
        target = 5.0 if kind == "SQLite" else 3.0
        name, theirs = best(["langgraph threads", "langgraph asyncio"])
        figure.add(what, RATE, mine, against=name, theirs=theirs, at_least=target)
        name, theirs = best(["langgraph threads exit", "langgraph asyncio exit"])
        figure.add(what, RATE, mine, against=name, theirs=theirs)
    if "holdpoint threads" in found:
        name, theirs = best(["holdpoint threads", "holdpoint asyncio"])
        figure.add(what, RATE, mine, against=name, theirs=theirs, at_least=1.0 if callers == 1 else 5.0)
    if len(found) == 1:
        figure.add(what, RATE, mine)


def decisions(setting: Setting) -> Figure:
    """Decisions one at a time beside bare commits."""
    figure = Figure("3. Decisions, one at a time, beside bare commits of the database")
    with subjects(setting.peers, setting.directory) as those, setting.databases() as database:
        ours, raw = those.ours("ours_cycles"), those.ours("raw")
        for kind in setting.kinds:
            mine, bare = database(kind, "decisions"), database(kind, "raw")
            number = setting.times(400)
            commits = "sqlite_commits" if kind == "SQLite" else "postgres_commits"
            ours.ask("decisions", database=mine, number=5)

            found = interleaved(
                setting.rounds,
                {
                    "ours": _rate(ours, "decisions", database=mine, number=number),
                    "raw": _rate(raw, commits, database=bare, number=number),
                },
            )
            figure.add(kind, RATE, found["ours"], against="bare commits", theirs=found["raw"], at_least=0.5)
    figure.notes.append("A bare commit is one row of 200 bytes; a decision is read, judged, stored and logged.")
    return figure


def wakes(setting: Setting) -> Figure:
    """From a committed decision to the agent running again."""
    figure = Figure("4. From the committed decision to the agent running")
    number = setting.times(40)
    with subjects(setting.peers, setting.directory) as those, setting.databases() as database:
        agent, person = those.ours("ours_wake"), those.ours("ours_wake")
        listener, speaker = those.ours("bare_wake"), those.ours("bare_wake")
        for kind in setting.kinds:
            shared = database(kind, "wake")
            place = shared if kind == "PostgreSQL" else str(setting.directory / "bare-wake")
            for subject in (agent, person):
                subject.ask("alone", database=shared, until="returned", number=2)
            todo: dict[str, Measurement] = {"bare": partial(_bare, listener, speaker, place, number)}
            for until in ("returned", "ran"):
                todo[f"elsewhere {until}"] = partial(_elsewhere, agent, person, shared, until, number)
                todo[f"here {until}"] = partial(_here, agent, shared, until, number)
            found = interleaved(setting.rounds, todo)
            bare = "LISTEN/NOTIFY" if kind == "PostgreSQL" else "inotify"
            rows = {
                "here returned": (f"{kind}, same process, await returned", None),
                "here ran": (f"{kind}, same process, function runs", None),
                "elsewhere returned": (f"{kind}, other process, await returned", 2.0),
                "elsewhere ran": (f"{kind}, other process, function runs", None),
            }
            for key, (what, target) in rows.items():
                figure.add(what, MICRO, found[key], against=f"bare {bare}", theirs=found["bare"], at_most=target)
    figure.notes.append("“Function runs” contains one durable commit: intent is on record before the function begins.")
    return figure


FASTMCP = {"fastmcp": "fastmcp proxy", "fastmcp shared": "fastmcp proxy, one session for all"}
"""It opens a session with the server for each call by itself; with one for all it is faster."""


def mcp(setting: Setting) -> Figure:
    """What standing before an MCP server adds to a call that is allowed."""
    figure = Figure("5. Time added to an MCP call that is allowed")
    calls, ways = setting.times(1000), ("direct", "ours", *(FASTMCP if setting.peers is not None else {}))
    with subjects(setting.peers, setting.directory) as those:
        subject = those.ours("mcp_calls")
        todo: dict[str, Measurement] = {way: _micro(subject, "one_by_one", way=way, calls=calls) for way in ways}
        found = interleaved(setting.rounds, todo)
        added = {way: _less(found[way], found["direct"]) for way in ways[1:]}
        figure.add("through the proxy", MICRO, found["ours"], against="the server itself", theirs=found["direct"])
        for way in ways[2:]:
            figure.add("added by the proxy", MICRO, added["ours"], against=FASTMCP[way], theirs=added[way], at_most=0.5)
        many = setting.times(10_000)
        beside = interleaved(1, {way: _rate(subject, "beside", way=way, calls=many) for way in ways})
        what = f"{many:,} calls, 20 at a time, none lost"
        figure.add(what, RATE, beside["ours"], against="the server itself", theirs=beside["direct"])
        for way in ways[2:]:
            figure.add(what, RATE, beside["ours"], against=FASTMCP[way], theirs=beside[way])
    figure.notes.append(
        "The official client, standard input and output, a tool of a server that we vouch for; the database is SQLite. "
        "Every answer is compared with its call."
    )
    return figure


def _less(series: Series, floor: Series) -> Series:
    return Series(tuple(mine - bare for mine, bare in zip(series.values, floor.values, strict=True)))


def _bare(listener: Subject, speaker: Subject, place: str, number: int) -> float:
    def once() -> float:
        listener.ask("listen", place=place)
        listener.tell("heard")
        time.sleep(0.01)
        sent = speaker.ask("tell", place=place)
        return float(listener.heard()) - float(sent)

    return statistics.median(once() for _ in range(number)) * 1e6


def _elsewhere(agent: Subject, person: Subject, database: str, until: str, number: int) -> float:
    def once() -> float:
        request_id = agent.ask("propose", database=database, until=until)
        agent.tell("awoken")
        time.sleep(0.01)
        committed = person.ask("approve", database=database, request_id=request_id)
        return float(agent.heard()) - float(committed)

    return statistics.median(once() for _ in range(number)) * 1e6


def _here(agent: Subject, database: str, until: str, number: int) -> float:
    found: list[float] = agent.ask("alone", database=database, until=until, number=number)
    return statistics.median(found) * 1e6


def _micro(subject: Subject, do: str, **order: object) -> Measurement:
    return lambda: float(subject.ask(do, **order)) * 1e6


def _rate(subject: Subject, do: str, **order: object) -> Measurement:
    return lambda: float(subject.ask(do, **order))


SECTIONS: dict[str, Callable[[Setting], Figure]] = {
    "allowed": allowed,
    "cycles": cycles,
    "decisions": decisions,
    "wakes": wakes,
    "mcp": mcp,
}
