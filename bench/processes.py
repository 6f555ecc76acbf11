"""Processor time of processes: of this one with all that it started, of a tree of others, of a command."""

import os
import resource
import subprocess
import time
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")


class Failed(RuntimeError):
    """A command that was to be measured failed."""


def spent() -> float:
    """Seconds of processor time of this process, all its threads and every process that it started."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = sum(_of(pid) for pid in _below(os.getpid()))
    return time.process_time() + ended.ru_utime + ended.ru_stime + living


def spent_by(pid: int) -> float:
    """Seconds of processor time of a process and those below it, in steps of a hundredth."""
    return _of(pid) + sum(_of(each) for each in _below(pid))


def command(words: list[str], env: dict[str, str], cwd: Path) -> dict[str, float]:
    """What a command takes from its start to its end."""
    start = time.perf_counter()
    process = subprocess.Popen(
        words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace").strip()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(said.splitlines()[-1] if said else f"status {process.returncode}")
    return {"wall": wall, "processor": used.ru_utime + used.ru_stime}


def _of(pid: int) -> float:
    """Of one process and those that it has waited for; nothing where it is gone or the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(each) for each in fields[11:15]) * TICK


def _below(pid: int) -> list[int]:
    """The processes that this one started and that are alive, and theirs."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(each) for each in (task / "children").read_text().split()]
    except OSError:
        return found
    return [*found, *(each for child in found for each in _below(child))]
