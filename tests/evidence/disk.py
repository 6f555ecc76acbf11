"""No room is left for the database, in the middle of traffic; later there is room again."""

import ctypes
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.evidence import planted, traffic
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Message, Say, answer, fork, listen
from tests.evidence.recovery import recover
from tests.evidence.world import KINDS, Place, Step

SECONDS = 60.0
STEPS = 60
QUIET = 8.0
"""Seconds after which what is full is full, although nobody said so often enough."""
REFUSALS = 3
"""So many calls are told that there is no room before room is made."""


@dataclass(frozen=True, slots=True)
class Plan:
    number: int
    steps: tuple[Step, ...]
    room: int
    """Bytes that are free when traffic begins."""

    @property
    def run(self) -> str:
        return f"f{self.number}"


def plan(seed: int, number: int) -> Plan:
    rng = random.Random(f"{seed}/{number}")
    steps = tuple(
        Step(rng.choice(KINDS), f"f{number}.{place}", "w" * rng.randint(1, 2000), rng.randint(0, 2), rng.randint(0, 2))
        for place in range(STEPS)
    )
    return Plan(number, steps, rng.randint(60_000, 2_000_000))


class Tmpfs:
    """A small file system of our own, and a file in it that takes up the room."""

    how = "a tmpfs of 16 MB with a file that takes up the room"
    clear = ("StoreFull",)

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        mounted = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(directory)]
        subprocess.run(mounted, check=True, capture_output=True)

    def limit(self, room: int) -> None:
        """In the parent: so many bytes are free."""
        found = os.statvfs(self.directory)
        free = found.f_bavail * found.f_frsize
        with (self.directory / "filler").open("wb") as filler:
            filler.write(b"\0" * max(0, free - room))

    def limit_child(self, room: int) -> None:
        """In the child: nothing to do."""

    def free(self, _: int) -> None:
        (self.directory / "filler").unlink()

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.directory)], check=False, capture_output=True)


class Limit:
    """Where nothing can be mounted: files may not grow beyond a size. SQLite is then told EFBIG, not ENOSPC."""

    how = "a limit on the size of files (RLIMIT_FSIZE)"
    clear = ("StoreFull", "StoreError")

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def limit(self, room: int) -> None:
        """In the parent: nothing to do."""

    def limit_child(self, room: int) -> None:
        """In the child: files may grow to so many bytes, until it is told that there is room."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(room, 200_000), resource.RLIM_INFINITY))
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        signal.signal(signal.SIGUSR1, lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, unlimited))

    def free(self, pid: int) -> None:
        os.kill(pid, signal.SIGUSR1)

    def close(self) -> None:
        """Nothing is left to undo."""


def own_mounts() -> bool:
    """Whether this process may mount; what it mounts is then seen by it and its children alone, and ends with them."""
    new_namespace, private = 0x00020000, ["mount", "--make-rprivate", "/"]
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "unshare") or library.unshare(new_namespace):
        return False
    with suppress(OSError):
        return subprocess.run(private, check=False, capture_output=True).returncode == 0
    return False


@contextmanager
def small(root: str, mount: bool) -> Iterator[Tmpfs | Limit]:
    """Room that can be taken away and given back."""
    directory = Path(tempfile.mkdtemp(dir=root))
    made: Tmpfs | Limit = Tmpfs(directory) if mount else Limit(directory)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(directory, ignore_errors=True)


def tried(room: Tmpfs | Limit, outside: str, trial: Plan, plant: planted.Plant) -> tuple[list[str], dict[str, int]]:
    """Traffic until there is no room; then there is, and the same process goes on; then all is checked."""
    place = Place(str(room.directory / "assentry.db"), outside)
    answer(fork("first", lambda say: _first(place, say)), within=SECONDS)
    room.limit(trial.room)

    def work(say: Say) -> None:
        plant()
        room.limit_child(trial.room)
        traffic.act(place, trial.run, trial.steps, say, work=True, decide=True)

    child = fork("agent", work)

    def refused() -> bool:
        return len(child.said("trouble")) >= REFUSALS or bool(child.said("end") or child.said("crash"))

    # Where only workers are refused, which try again and say nothing, it is given room after a while.
    listen([child], time.monotonic() + QUIET, refused)
    before = len(child.said("finished"))
    room.free(child.pid)
    ended = listen([child], time.monotonic() + SECONDS, lambda: bool(child.said("end") or child.said("crash")))
    heard = child.end()

    def check(say: Say) -> None:
        recover(place, trial.run, trial.steps, heard, say, whole_log=True)

    found = answer(fork("recovery", check), within=300)
    trouble = [one for one in heard if one["what"] == "trouble"]
    wrong = found["wrong"] + [one["trace"][-700:] for one in heard if one["what"] == "crash"]
    wrong += unclear(room, trouble)
    after = len([one for one in heard if one["what"] == "finished"]) - before
    if not ended:
        wrong.append("it did not go on when there was room again")
    elif trouble and not after:
        wrong.append("nothing was finished after there was room again")
    counts = {
        "trials": 1, "trials that ran out of room": int(bool(trouble)), "calls refused for want of room": len(trouble),
        "finished before": before, "finished after there was room again": after,
    }  # fmt: skip
    return [f"trial {trial.number}: {what}" for what in wrong], counts | found["counts"]


def _first(place: Place, say: Say) -> None:
    place.enter()
    place.gate()
    say("answer")


def unclear(room: Tmpfs | Limit, trouble: list[Message]) -> list[str]:
    """Whoever was refused was told so in one clear line."""
    wrong = []
    for one in trouble:
        if one["kind"] not in room.clear:
            wrong.append(f"told {one['kind']}: {one['text']}")
        if "\n" in one["text"]:
            wrong.append(f"told in several lines: {one['text']!r}")
    return wrong


@dataclass(frozen=True, slots=True)
class Size:
    trials: int
    control: int


FULL = Size(trials=100, control=30)
SAMPLE = Size(trials=3, control=0)


def trials(seed: int, size: Size, root: str, say: Say, *, mount: bool = True) -> None:
    """The trials and the planted bug, said one by one; a process of its own, since it may mount."""
    mount = mount and own_mounts()
    for number in range(size.trials):
        with small(root, mount) as room, tempfile.TemporaryDirectory(dir=root) as outside:
            wrong, counts = tried(room, outside, plan(seed, number), planted.no_bug)
            say("trial", wrong=wrong, counts=counts, how=room.how)
    for number in range(size.control):
        with small(root, mount) as room, tempfile.TemporaryDirectory(dir=root) as outside:
            wrong, _ = tried(room, outside, plan(seed, 1_000_000 + number), BUG)
            say("control", wrong=wrong[:3])
            if wrong:
                break
    say("answer")


BUG = planted.commit_acknowledged_too_early


def run(seed: int, size: Size, progress: Callable[[str], None], *, mount: bool = True) -> Outcome:
    outcome = Outcome(
        "disk-full",
        "no room for the SQLite database in the middle of traffic: what was acknowledged stays, who is refused is told "
        "so in one line, and the same process goes on when there is room again",
        ("I1", "I4", "I7", "I9"),
        seed,
        sizes={"trials": size.trials},
        bounds={"traffic": f"{STEPS} calls of all kinds", "free when traffic begins": "60 to 2000 kB"},
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assentry-evidence-") as root:
        child = fork("disk", lambda say: trials(seed, size, root, say, mount=mount))

        def look() -> bool:
            progress(f"{len(child.said('trial'))}/{size.trials}, {len(child.said('control'))} with a planted bug")
            return bool(child.said("answer") or child.said("crash"))

        listen([child], time.monotonic() + 60 + 30 * (size.trials + size.control), look)
        answer(child, within=1)
    for one in child.said("trial"):
        outcome.bounds["how"] = one["how"]
        outcome.take(one["counts"], one["wrong"])
    if tries := child.said("control"):
        found = bool(tries[-1]["wrong"])
        name, means = "commit acknowledged too early", (BUG.__doc__ or "").strip()
        said = tries[-1]["wrong"][0] if found else ""
        outcome.controls.append(Control(name, means, found, len(tries) if found else None, said))
    outcome.seconds = time.monotonic() - began
    return outcome
