"""The PostgreSQL server is stopped at once, as in a crash, while everybody works, and is started again."""

import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests import postgres
from tests.evidence import traffic
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, TookTooLong, answer, fork, listen
from tests.evidence.recovery import recover
from tests.evidence.world import KINDS, Place, Step

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    number: int
    steps: tuple[Step, ...]
    instant: float
    """Seconds after everybody is at work."""

    @property
    def run(self) -> str:
        return f"p{self.number}"


def plan(seed: int, number: int) -> Plan:
    rng = random.Random(f"{seed}/{number}")
    steps = tuple(
        Step(rng.choice(KINDS), f"p{number}.{place}", f"w{place}", rng.randint(0, 8), rng.randint(0, 8))
        for place in range(16)
    )
    return Plan(number, steps, rng.random() * 0.25)


def tried(cluster: postgres.Cluster, place: Place, trial: Plan) -> tuple[list[str], dict[str, int]]:
    """Everybody works, the server is gone and comes back, everybody goes on; then all is checked."""
    children = [
        fork("agent", lambda say: traffic.act(place, trial.run, trial.steps, say)),
        fork("person", lambda say: traffic.decide(place, say)),
        *(fork("worker", lambda say: traffic.work(place, say)) for _ in range(2)),
    ]
    agent = children[0]
    if not listen(children, time.monotonic() + SECONDS, lambda: all(child.said("ready") for child in children)):
        raise TookTooLong("the processes did not get ready")
    listen(children, time.monotonic() + trial.instant, lambda: bool(agent.said("end")))
    at_work = not agent.said("end")
    cluster.stop(signal.SIGQUIT)
    cluster.start()
    ended = listen(children, time.monotonic() + SECONDS, lambda: bool(agent.said("end") or agent.said("crash")))
    heard = [message for child in children for message in child.end()]

    def check(say: Say) -> None:
        recover(place, trial.run, trial.steps, heard, say, whole_log=True)

    found = answer(fork("recovery", check), within=300)
    wrong = [f"trial {trial.number}: {what}" for what in found["wrong"]]
    wrong += [f"trial {trial.number}: {one['trace'][-700:]}" for one in heard if one["what"] == "crash"]
    if not ended:
        wrong.append(f"trial {trial.number}: the agent did not come to its end after the server was back")
    trouble = [one for one in heard if one["what"] == "trouble"]
    counts = {"restarts": 1, "restarts while at work": int(at_work), "calls told of the trouble": len(trouble)}
    return wrong, counts | found["counts"]


@dataclass(frozen=True, slots=True)
class Size:
    restarts: int
    control: int


FULL = Size(restarts=50, control=30)
SAMPLE = Size(restarts=2, control=0)


def run(seed: int, size: Size, progress: Callable[[str], None]) -> Outcome:
    outcome = Outcome(
        "postgres-restart",
        "the server stopped at once in the middle of traffic: what was acknowledged is there afterwards, clients go on "
        "by themselves, nothing runs twice",
        ("I1", "I4", "I7", "I9"),
        seed,
        sizes={"restarts": size.restarts},
        bounds={"traffic": "an agent with 16 calls, a person, two workers", "instants": "uniform over 0.25 s of work"},
    )
    began = time.monotonic()
    with postgres.cluster() as cluster, here(cluster) as place:
        for number in range(size.restarts):
            outcome.take(*reversed(tried(cluster, place, plan(seed, number))))
            progress(f"{number + 1}/{size.restarts}, {len(outcome.wrong)} violations")
    if size.control:
        progress("planted: commits not synced")
        outcome.controls.append(_control(seed, size.control))
    outcome.seconds = time.monotonic() - began
    return outcome


@contextmanager
def here(cluster: postgres.Cluster):  # type: ignore[no-untyped-def]
    """A database on this server, and a directory for what is outside."""
    with tempfile.TemporaryDirectory(prefix="assentry-evidence-") as directory, postgres.database(cluster.url) as url:
        (Path(directory) / "home").mkdir()
        yield Place(url, directory)


def _control(seed: int, most: int) -> Control:
    """The server acknowledges commits before they are on disk, as with `synchronous_commit = off`."""
    name, means = "commits not synced", (_control.__doc__ or "").strip()
    with postgres.cluster() as cluster, here(cluster) as place:
        database = str(conninfo_to_dict(place.database)["dbname"])
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            statement = sql.SQL("ALTER DATABASE {} SET synchronous_commit = off")
            connection.execute(statement.format(sql.Identifier(database)))
        for number in range(most):
            wrong, _ = tried(cluster, place, plan(seed, 1_000_000 + number))
            if wrong:
                return Control(name, means, True, number + 1, wrong[0])
    return Control(name, means, False, None)
