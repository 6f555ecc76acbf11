"""What every agent of the demo is: a process of its own with a gate, that says what it does and stays until let go.

It runs inside the demo's folder and finds its database and policy in the `assentry.toml` there. It holds a gate and
nothing that decides. What it says goes to standard output, one JSON object a line; what was decided it learns through
the database alone.
"""

import argparse
import asyncio
import json
import signal
import smtplib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from email.message import EmailMessage
from typing import Any, TypeVar

import assentry
from assentry.engine.runs import ActiveRun

T = TypeVar("T")

LEASE = timedelta(seconds=8)
"""How long a run is kept for a process that shows no life; short, so that the demo can show what comes then."""

Work = Callable[[assentry.Gate, argparse.Namespace], Awaitable[None]]


def tell(kind: str, **said: Any) -> None:
    """One line for whoever watches the agent."""
    print(json.dumps({"kind": kind, **said}), flush=True)


def play(work: Work) -> None:
    """The agent worked in the current directory, which must be a demo's folder, until its work is done and beyond."""
    parser = argparse.ArgumentParser(description=work.__doc__)
    parser.add_argument("--smtp-port", type=int, required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    # Whoever watches decides what an interrupt means; it closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_attended(work, parser.parse_args()))


async def _attended(work: Work, given: argparse.Namespace) -> None:
    """The work was done; until standard input closes, a worker takes back what people want undone."""
    gate = assentry.open(lease=LEASE)
    watching = asyncio.create_task(_input_closed())
    try:
        async with gate.worker():
            working = asyncio.create_task(_worked(work, gate, given))
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
                await watching
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    finally:
        await gate.close()


async def _worked(work: Work, gate: assentry.Gate, given: argparse.Namespace) -> None:
    try:
        await work(gate, given)
    except assentry.RunStopped:
        tell("stopped")


@asynccontextmanager
async def going(gate: assentry.Gate, goal: str, *, key: str, **described: Any) -> AsyncIterator[ActiveRun]:
    """The run, begun; or gone on with, once the process that had it before has shown no life for a while."""
    async with AsyncExitStack() as stack:
        run: ActiveRun | None = None
        while run is None:
            try:
                run = await stack.enter_async_context(gate.run(goal, key=key, **described))
            except assentry.Conflict:
                await asyncio.sleep(0.2)
        yield run


async def step(action: str, call: Awaitable[T], did: Callable[[T], str], pause: float) -> T | None:
    """What the call gave, or `None` where it was not allowed; both are told."""
    tell("step", action=action)
    try:
        made = await call
    except assentry.Denied as denied:
        tell("skipped", action=action, reason=denied.reason)
        return None
    tell("ran", action=action, did=did(made))
    await asyncio.sleep(pause)
    return made


async def _input_closed() -> None:
    """Whoever started the agent has let go of it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


def post(sender: str, to: list[str], subject: str, body: str, server: tuple[str, int]) -> None:
    """The mail was handed to the demo's mail server."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, ", ".join(to), subject
    message["Message-ID"] = f"<{assentry.idempotency_key()}@example.org>"
    message.set_content(body)
    with smtplib.SMTP(*server, timeout=10) as connection:
        connection.send_message(message)
