"""The mailers in `examples/`: each parks in one process and is gone on with by a worker in another."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from assentry.core.run import RunState
from tests.stage import stage
from tests.test_docs import ROOT

pytestmark = pytest.mark.proof

EXAMPLES = ROOT / "examples"
MAILERS = sorted(file.stem for file in EXAMPLES.glob("*_mail.py"))


@pytest.mark.parametrize("name", MAILERS)
async def test_a_mailer_parks_and_a_worker_that_knows_its_name_goes_on(
    name: str, tmp_path: Path, assentry_home: Path
) -> None:
    path = os.pathsep.join(filter(None, (str(EXAMPLES), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "ASSENTRY_HOME": str(assentry_home), "HOME": str(assentry_home), "PYTHONPATH": path}

    async def begun(*words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=tmp_path, env=environment, stdout=-1, stderr=asyncio.subprocess.STDOUT
        )

    async def parks() -> None:
        program = await begun(str(EXAMPLES / f"{name}.py"))
        told, _ = await program.communicate()
        assert told.decode().startswith("parked: "), told.decode()

    await parks()
    async with stage(str(tmp_path / "assentry.db")) as person:
        (request,) = await person.waiting()
        await person.modify(request, to=["ann@example.com"])
        worker = await begun("-m", "assentry", "worker", f"{name}:gate")
        try:
            run = await person.until_run(RunState.FINISHED)
        finally:
            worker.terminate()
            told, _ = await worker.communicate()
        await parks()  # it begins anew
    assert "Done." in str(run.outcome)
    assert told.decode().count("mailed ann@example.com about Sale") == 1
