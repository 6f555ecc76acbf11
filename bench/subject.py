"""The parent's side of a measuring process: start it, give it orders, end it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent


class Failed(RuntimeError):
    """A measuring process could not do what it was told."""


def environment(directory: Path) -> dict[str, str]:
    """The environment of a measured process: nothing of ours steers it, and it compiles its modules once only."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ASSENTRY_")}
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**ours, "ASSENTRY_HOME": str(directory / "home"), "LANGSMITH_TRACING": "false"}


class Subject:
    """One measuring process. It sleeps while another is asked."""

    def __init__(self, script: str, python: str, directory: Path, source: Path = ROOT / "src") -> None:
        self.script = script
        places = [str(ROOT), str(source)] if python == sys.executable else [str(ROOT)]
        self._process = subprocess.Popen(
            [python, str(HERE / f"{script}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=directory,
            env={**environment(directory), "PYTHONPATH": os.pathsep.join(places)},
            text=True,
            # Ctrl-C is for whoever measures, who ends it.
            start_new_session=True,
        )

    def ask(self, do: str, **order: Any) -> Any:
        """What the process answers."""
        self.tell(do, **order)
        return self.heard()

    def tell(self, do: str, **order: Any) -> None:
        """The order is given; `heard` waits for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()

    def heard(self) -> Any:
        """The answer to the order given last."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self.script} ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.script}: {answer['error']}")
        return answer["is"]

    def stop(self) -> None:
        """The process was killed in the middle of its work, and has gone."""
        self._process.kill()
        self.end()

    def end(self) -> None:
        """The process has gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Subjects:
    """Those that take part in one figure."""

    def __init__(self, peers: str | None, directory: Path) -> None:
        self._peers, self._directory = peers, directory
        self._stack = ExitStack()

    @property
    def with_peers(self) -> bool:
        return self._peers is not None

    def ours(self, script: str) -> Subject:
        """A process of our own interpreter."""
        return self._started(script, sys.executable)

    def peer(self, script: str) -> Subject | None:
        """A process of the peers' interpreter, unless peers are left out."""
        return None if self._peers is None else self._started(script, self._peers)

    def _started(self, script: str, python: str) -> Subject:
        subject = Subject(script, python, self._directory)
        self._stack.callback(subject.end)
        return subject

    def end(self) -> None:
        self._stack.close()


@contextmanager
def subjects(peers: str | None, directory: Path) -> Iterator[Subjects]:
    """Processes that are gone at the end."""
    made = Subjects(peers, directory)
    try:
        yield made
    finally:
        made.end()
