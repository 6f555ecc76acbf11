"""docs/http.md is true: its shell recipe and its Python run against a real server while somebody approves."""

import asyncio
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from assentry.errors import AssentryError
from tests.remote.place import Place

pytestmark = pytest.mark.proof

PAGE = (Path(__file__).parent.parent.parent / "docs" / "http.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def approves(place: Place) -> None:
    """Whatever comes is approved."""
    while True:
        for request in (await place.inbox.page()).requests:
            with suppress(AssentryError):
                await place.approve(request)
        await asyncio.sleep(0.02)


def run(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


async def test_the_recipe_for_other_languages_works(place: Place, tmp_path: Path):
    given, *recipe = blocks("sh")
    assert given.startswith("assentry token give")
    place.start(approves(place))
    script = "set -euo pipefail\n" + "".join(recipe)
    done = await asyncio.to_thread(run, "bash", "-c", script, URL=place.url, TOKEN=await place.token("cleanup"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "finished"
    assert "done" in lines
    assert any("goes on now" in line for line in lines)


async def test_every_python_block_runs(place: Place):
    place.start(approves(place))
    token = await place.token("cleanup")
    made = blocks("py")
    assert len(made) == 2
    for block in made:
        code = block.replace("http://127.0.0.1:8750", place.url)
        done = await asyncio.to_thread(run, sys.executable, "-c", code, ASSENTRY_TOKEN=token)
        assert done.returncode == 0, done.stderr


def test_every_call_of_the_api_is_on_the_page():
    from assentry.server.api.agent_runs import router as runs
    from assentry.server.api.proposals import router as proposals

    for route in (*proposals.routes, *runs.routes):
        path = route.path.removeprefix("/api/v1/agent")  # type: ignore[attr-defined]
        last = path.replace("{request_id}", "{id}").replace("{run_id}", "{id}")
        tail = last if last.count("/") < 3 else f"/{last.rpartition('/')[2]}"
        assert f"{tail}`" in PAGE or f"{tail}?" in PAGE, last
