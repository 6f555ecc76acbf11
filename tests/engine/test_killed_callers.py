"""Real processes that wait for a person, killed with SIGKILL or stopped with SIGSTOP for longer than their lease."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assentry.core.request import State
from assentry.engine.callers import clear
from assentry.errors import CallerGone
from tests.stage import PATIENCE

pytestmark = [pytest.mark.both_databases, pytest.mark.proof]

PROGRAM = """
import sys
from datetime import timedelta
import assentry

gate = assentry.open(sys.argv[1], agent="cleanup", lease=timedelta(seconds=2))

@gate.guard(reversible=False)
def delete_files(files):
    return "ran"

try:
    print(delete_files(["a"]), flush=True)
except assentry.Denied as denied:
    print("denied:", denied, flush=True)
"""


@contextmanager
def waiting(database: str) -> Iterator[subprocess.Popen[str]]:
    """A process that calls the function and waits."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, database], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def until(house, request_id, is_so, *, looks=True):
    async with asyncio.timeout(PATIENCE):
        while True:
            if looks:
                await clear(house.desk.store, "default")
            request = await house.desk.store.request("default", request_id)
            if is_so(request):
                return request
            await asyncio.sleep(0.05)


async def approve(house, request_id):
    phrase = (await house.inbox.brief(request_id)).phrase
    return await house.inbox.approve(house.me, request_id, confirm=phrase)


async def test_what_a_killed_process_asked_for_is_never_approved(house):
    with waiting(house.database) as process:
        (request,) = await house.waiting()
        process.kill()
        process.wait()
        await until(house, request.id, lambda now: now.abandoned_at is not None)
        with pytest.raises(CallerGone):
            await approve(house, request.id)
        assert (await house.inbox.deny(house.me, request.id, "")).state is State.CANCELLED


async def test_a_process_that_was_stopped_for_longer_than_its_lease_goes_on_and_is_approved(house):
    with waiting(house.database) as process:
        (request,) = await house.waiting()
        process.send_signal(signal.SIGSTOP)
        await until(house, request.id, lambda now: now.abandoned_at is not None)
        process.send_signal(signal.SIGCONT)
        await until(house, request.id, lambda now: now.abandoned_at is None)
        await approve(house, request.id)
        assert await asyncio.to_thread(process.stdout.readline) == "ran\n"


async def test_a_process_whose_approval_ended_while_it_was_stopped_is_refused_and_told_why(house):
    with waiting(house.database) as process:
        (request,) = await house.waiting()
        process.send_signal(signal.SIGSTOP)
        await approve(house, request.id)
        await until(house, request.id, lambda now: now.state is State.EXPIRED)
        process.send_signal(signal.SIGCONT)
        said = await asyncio.to_thread(process.stdout.readline)
        assert "the approval of delete_files ended before it began" in said
        assert (await house.desk.store.request("default", request.id)).state is State.EXPIRED


async def test_a_process_whose_request_was_dismissed_while_it_was_stopped_is_told_so(house):
    with waiting(house.database) as process:
        (request,) = await house.waiting()
        process.send_signal(signal.SIGSTOP)
        await until(house, request.id, lambda now: now.abandoned_at is not None)
        await house.inbox.deny(house.me, request.id, "")
        process.send_signal(signal.SIGCONT)
        assert "was dismissed" in await asyncio.to_thread(process.stdout.readline)
