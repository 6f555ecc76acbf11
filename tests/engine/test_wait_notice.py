"""Whoever runs a program without a terminal reads in its log why it hangs, and how to go on."""

import asyncio
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import assentry
from assentry.errors import GuardError
from tests.stage import PATIENCE


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


async def test_a_call_that_waits_without_a_terminal_says_so_once(house, caplog):
    @house.gate.guard(reversible=False, says="Delete {name}")
    async def delete(name: str, body: str) -> str:
        return name

    call = house.start(delete.with_(why="the agent's own words")("old\nfile", body="a long payload"))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    (told,) = warnings(caplog)
    assert request.code in told
    assert "Delete old" in told
    for command, words in (("show", ""), ("approve", ""), ("deny", ' --reason "…"')):
        assert f"`assentry {command} {request.code}{words}`" in told
    assert "\n" not in told
    assert "payload" not in told
    assert "own words" not in told
    await house.inbox.approve(house.me, request.id)
    assert await call == "old\nfile"
    assert len(warnings(caplog)) == 1


async def test_whoever_looks_again_and_again_is_told_once(house, caplog):
    @house.gate.guard(reversible=False)
    async def delete(name: str) -> None: ...

    for _ in range(3):
        with pytest.raises(assentry.Parked):
            await delete.with_(key="one", wait=0.01)("a")
    assert len(warnings(caplog)) == 1


async def test_a_question_is_answered_and_not_approved(house, caplog):
    asked = house.start(house.gate.ask("Which region?", choices=["eu", "us"]))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    (told,) = warnings(caplog)
    assert f'`assentry answer {request.code} "…"`' in told
    assert "approve" not in told
    await house.inbox.answer(house.me, request.id, "eu")
    assert await asked == "eu"


async def test_a_call_that_parks_at_once_waits_for_nobody_and_says_nothing(house, caplog):
    @house.gate.guard(reversible=False)
    async def delete(name: str) -> str:
        return name

    with pytest.raises(assentry.Parked):
        await delete.with_(wait=0)("a")
    assert warnings(caplog) == []


async def test_a_call_may_park_although_its_function_waits(house):
    @house.gate.guard(reversible=False)
    async def delete(name: str) -> str:
        return f"{name} is gone"

    step = delete.with_(key="one", wait=0)
    with pytest.raises(assentry.Parked) as parked:
        await asyncio.wait_for(step("a"), PATIENCE)
    (request,) = await house.waiting()
    assert parked.value.request_id == request.id
    with pytest.raises(assentry.Parked) as again:
        await step("a")
    assert again.value.request_id == request.id, "the same key finds the same request"
    await house.inbox.approve(house.me, request.id)
    assert await step("a") == "a is gone"
    assert await step("a") == "a is gone"


async def test_a_call_may_wait_although_its_function_parks(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete(name: str) -> str:
        return name

    call = house.start(delete.with_(wait=None)("a"))
    (request,) = await house.waiting()
    await house.waited_for(request.id, 1)
    await house.inbox.approve(house.me, request.id)
    assert await call == "a"


async def test_in_a_run_too_a_call_may_park_at_once(house):
    @house.gate.guard(reversible=False)
    async def delete(name: str) -> str:
        return name

    async def work() -> None:
        async with house.gate.run("Tidy up", key="tidy"):
            await delete.with_(wait=0)("a")

    with pytest.raises(assentry.Parked):
        await asyncio.wait_for(work(), PATIENCE)


@pytest.mark.parametrize("wait", [-1, "soon", True, float("nan"), float("inf")])
def test_a_wait_that_is_no_length_of_time_is_refused(house, wait):
    @house.gate.guard(reversible=False)
    async def delete(name: str) -> None: ...

    with pytest.raises(GuardError, match="wait="):
        delete.with_(wait=wait)


SCRIPT = """
import assentry
gate = assentry.open()

@gate.guard(reversible=False, patience=0.05, says="Delete {name}")
def delete(name: str) -> None: ...

try:
    delete("one")
except assentry.Parked:
    pass
"""


@pytest.mark.proof
def test_a_plain_script_says_why_it_hangs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"request (\w+) waits for a person: Delete one\. .*`assentry approve \1`.*\n", done.stderr)


@pytest.mark.proof
def test_at_a_terminal_a_script_names_the_commands_that_decide(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    try:
        subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, stderr=theirs, check=True)
        told = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    first, *commands = told.splitlines()
    found = re.fullmatch(r"assentry: (\w+) waits for a person: Delete one", first)
    assert found is not None, told
    code = found[1]
    assert commands == [f"  assentry show {code}", f"  assentry approve {code}", f'  assentry deny {code} --reason "…"']
