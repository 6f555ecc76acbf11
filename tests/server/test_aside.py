"""What somebody sends to be looked at: who may, and what happens where it would take too much."""

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from assentry.server import aside
from assentry.server.premises import Premises
from tests.server.reception import Reception

NASTY = "args.x.all(a, args.x.all(b, args.x.all(c, a + b + c > -1)))"
GRANT = {"actions": ["tidy_*"], "agents": ["sweeper"], "life": "2h", "limit": 2, "condition": NASTY}


async def test_a_condition_that_takes_too_much_for_a_preview_is_told_and_the_server_goes_on(
    desk: Reception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "PROCESSOR_SECONDS", 1)
    for number in range(3):
        await desk.asked(shelf=number, x=list(range(200)))
    premises: Premises = desk.app.state.premises
    page = await desk.desk.inbox.page()
    grant = (await desk.post("/grants", GRANT, "operator", 201))["grant"]
    (given,) = await desk.desk.store.grants("default")
    assert given.id == grant["id"]
    now = await desk.desk.store.now()
    seen = await premises.aside.reasons(given, page.requests, now)
    assert all("it takes too many steps" in each for each in seen)
    with pytest.raises(aside.PolicyError, match="too long or too much memory"):
        await premises.aside.reasons(given, page.requests * 8, now)
    monkeypatch.setattr(aside, "MEMORY", 8 << 20)
    told = await desk.post("/grants/preview", GRANT, "operator", 422)
    assert told["detail"] == aside.TOO_MUCH
    checked = await desk.post("/policy/check", {"text": "autonomy: cautious"}, "operator")
    assert (checked["ok"], checked["complaints"]) == (False, [aside.TOO_MUCH])
    await desk.post("/policy", {"text": "autonomy: cautious"}, "operator", 422)
    assert (await desk.get("/policy"))["version"] == 1


async def test_so_many_at_once_are_sent_away(desk: Reception) -> None:
    premises: Premises = desk.app.state.premises
    premises.aside._waiting = aside.MOST_WAITING
    await desk.post("/policy/check", {"text": "autonomy: cautious"}, "operator", 429)
    premises.aside._waiting = 0
    texts = [desk.post("/policy/check", {"text": f"autonomy: cautious # {n}"}, "operator") for n in range(2)]
    assert all(each["ok"] for each in await asyncio.gather(*texts))
    assert not premises.aside._waiting


def test_the_process_knows_nothing_of_the_servers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENTRY_DATABASE", "postgresql://somewhere")
    seen: dict[str, Any] = {}

    def run(command: list[str], **more: Any) -> subprocess.CompletedProcess[bytes]:
        seen.update(more["env"])
        return subprocess.CompletedProcess(command, 0, b'{"made": []}')

    monkeypatch.setattr(aside.subprocess, "run", run)
    assert aside._answered(b"{}") == {"made": []}
    assert set(seen) <= {"PYTHONPATH", *aside._KEPT}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits; the process is killed instead")
@pytest.mark.parametrize(
    "what", ["while True: pass", "x = 'a' * (300 << 20)", "import pathlib; pathlib.Path('written').write_text('a')"]
)
def test_the_limits_end_what_goes_beyond_them(what: str, tmp_path: Any) -> None:
    program = f"from assentry.server.aside_process import limited\nlimited(1, 256 << 20)\n{what}"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=dict(os.environ), check=False)
    assert done.returncode != 0


def test_every_job_answers_in_json() -> None:
    question = {"job": "hold", "condition": "args.a.matches('x+')", "views": ['{"args":{"a":"x"}}', '{"args":{}}']}
    made = aside._answered(json.dumps(question).encode())["made"]
    assert made[0] is True
    assert "not there" in made[1]
