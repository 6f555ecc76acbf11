"""The mailers in `examples/`: each parks in one process and is gone on with by a worker in another."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from assentry.assemble import desk
from assentry.core.run import RunState
from assentry.ports import RunFilter
from assentry.settings import load
from tests.at_desk import PATIENCE, AtDesk
from tests.test_docs import ROOT

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
    place = await desk(load({"database": str(tmp_path / "assentry.db")}))
    person = AtDesk(str(tmp_path / "assentry.db"), place)
    (request,) = await person.waiting()
    changed = {**request.candidate.action.args, "to": ["ann@example.com"]}
    await place.inbox.modify(person.me, request.id, changed, confirm=(await place.inbox.brief(request.id)).phrase)
    worker = await begun("-m", "assentry", "worker", f"{name}:gate")
    try:
        async with asyncio.timeout(PATIENCE):
            while (await place.store.runs("default", RunFilter(), limit=1))[0].state is not RunState.FINISHED:
                await asyncio.sleep(0.02)
    finally:
        worker.terminate()
        told, _ = await worker.communicate()
    (run,) = await place.store.runs("default", RunFilter(), limit=1)
    await parks()  # it begins anew
    await place.store.close()
    assert "Done." in str(run.outcome)
    assert told.decode().count("mailed ann@example.com about Sale") == 1
