"""Commands in processes of their own, without the second that loading takes: forked from a process that has loaded them.

What ends a process, what it prints and what it reads are as in a shell; there is no terminal.
"""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["tests.forked", "assentry.cli.app", "assentry.assemble", "assentry.remote.desk", "httpx"]
)


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    problem: str


def assentry(*words: str, cwd: Path, env: Mapping[str, str], said: str = "") -> Done:
    """`assentry WORDS…`, with `said` on its standard input."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("in", "out", "problem")]
        places[0].write_text(said)
        process = _CONTEXT.Process(target=_run, args=(words, str(cwd), dict(env), [str(each) for each in places]))
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode
        assert code is not None
        return Done(code, places[1].read_text(), places[2].read_text())


def _run(words: tuple[str, ...], cwd: str, env: dict[str, str], places: list[str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, place in enumerate(places):
        opened = os.open(place, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  for as long as the process lives
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["assentry", *words]
    from assentry.cli import main

    main()
