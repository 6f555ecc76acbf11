"""Real processes that can be killed: forked from a warm parent that has opened nothing, heard through a pipe.

A child never outlives its parent: the kernel kills it when the parent dies, and `end_all` when the parent ends.
"""

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
Say = Callable[..., None]
_DIE_WITH_PARENT = 1
_alive: dict[int, "Child"] = {}


class TookTooLong(Exception):
    """Something that must happen did not happen within its time."""


@dataclass(slots=True)
class Child:
    """A forked process and everything it said so far."""

    name: str
    pid: int
    pipe: int
    heard: list[Message] = field(default_factory=list)
    rest: bytes = b""
    ended: bool = False

    def fileno(self) -> int:
        return self.pipe

    def hear(self) -> bool:
        """Whatever is in the pipe was read; false at its end."""
        said = os.read(self.pipe, 1 << 16)
        *lines, self.rest = (self.rest + said).split(b"\n")
        self.heard += [json.loads(line) for line in lines]
        return bool(said)

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self) -> list[Message]:
        """Killed if it still lives, reaped, and heard to the end."""
        if not self.ended:
            self.ended = True
            self.signal(signal.SIGKILL)
            os.waitpid(self.pid, 0)
            _alive.pop(self.pid, None)
            while self.hear():
                pass
            os.close(self.pipe)
        return self.heard

    def said(self, what: str) -> list[Message]:
        return [message for message in self.heard if message["what"] == what]


def fork(name: str, work: Callable[[Say], None]) -> Child:
    """A child that does `work`, which is given the way to say things to us."""
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writer)
        child = _alive[pid] = Child(name, pid, reader)
        return child
    os.close(reader)
    _alive.clear()
    _be_a_child(parent)

    def say(what: str, **more: Any) -> None:
        # One write of less than a page: whole or not at all, and out of this process when it returns.
        os.write(writer, json.dumps({"what": what, **more}).encode() + b"\n")

    code = 0
    try:
        work(say)
    except BaseException:
        say("crash", trace=traceback.format_exc()[-2500:])
        code = 1
    os._exit(code)


def _be_a_child(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)


def warmed() -> None:
    """What is imported so far is shared with children instead of copied into each."""
    gc.collect()
    gc.freeze()


def listen(children: Iterable[Child], until: float, enough: Callable[[], bool] = lambda: False) -> bool:
    """Heard what they say until that moment (monotonic), or until it is enough or all ended: whether it was enough."""
    open_ones = {child.pipe: child for child in children if not child.ended}
    poll = select.poll()
    for pipe in open_ones:
        poll.register(pipe, select.POLLIN | select.POLLHUP)
    while not enough():
        left = until - time.monotonic()
        if left <= 0 or not open_ones:
            return False
        for pipe, _ in poll.poll(left * 1000):
            if not open_ones[pipe].hear():
                poll.unregister(pipe)
                del open_ones[pipe]
    return True


def answer(child: Child, within: float, what: str = "answer") -> Message:
    """What the child answers; it has ended afterwards."""
    came = listen([child], time.monotonic() + within, lambda: bool(child.said(what) or child.said("crash")))
    child.end()
    if child.said(what):
        return child.said(what)[0]
    crash = child.said("crash")
    if crash:
        raise RuntimeError(f"{child.name} failed:\n{crash[0]['trace']}")
    raise TookTooLong(f"{child.name} {'ended without' if not came else 'gave no'} answer within {within} s")


def end_all() -> None:
    """No child of this process is left."""
    for child in list(_alive.values()):
        child.end()


atexit.register(end_all)
