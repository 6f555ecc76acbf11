"""Looking after an installation from a terminal."""

import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from assentry.core.request import State
from tests.cli.terminal import COMMAND, Agent, Assentry, defenceless


def test_doctor_finds_nothing_wrong_with_a_fresh_place(assentry: Assentry, either: Agent) -> None:
    either.asks()
    done = assentry("doctor")
    for text in (
        "nothing is wrong",
        "cooperative",
        "the built-in one holds",
        "may decide",
        "not sealed",
        "1 request waits",
    ):
        assert text in done.out, text
    told = assentry("doctor", "--json").json
    assert told["ok"] is True
    assert {"area", "says", "ok", "remedy"} == set(told["findings"][0])
    areas = {finding["area"] for finding in told["findings"]}
    assert {"versions", "home", "database", "trust", "policy", "people", "you", "log", "outcomes", "waiting"} <= areas


def test_doctor_names_what_is_wrong_and_what_to_do(assentry: Assentry, agent: Agent, here: Path) -> None:
    assert "there is no database" in assentry("--database", "none.db", "doctor", code=1).out
    assentry("audit", "seal")
    agent.asks()
    assentry("audit", "seal")
    home = Path(os.environ["ASSENTRY_HOME"])
    key = next((home / "keys").glob("*.key"))
    key.chmod(0o644)
    (here / "assentry.db").chmod(0o666)
    (here / "p.yaml").write_text("mode: observe\npeople: {ann: {os_users: [else]}}\n")
    assentry("policy", "apply", "p.yaml", "--yes")
    done = assentry("doctor", code=1)
    for text in (f"chmod go-rwx '{key}'", "OBSERVE MODE", "is not one of the people in this policy", "and so decide"):
        assert text.replace(" ", "") in done.out.replace("\n", "").replace(" ", ""), text


def test_a_backup_is_restored_verified_and_the_old_file_kept(assentry: Assentry, agent: Agent, here: Path) -> None:
    agent.asks()
    assentry("audit", "seal")
    assentry("backup", "b.db")
    assert "exists" in assentry("backup", "b.db", code=1).err
    later = agent.asks(args={"files": ["later.tmp"]})
    assentry("audit", "seal")
    assert "--force" in assentry("restore", "b.db", code=1).err
    assert "another process uses" in assentry("restore", "b.db", "--force", code=1).err
    agent.close()
    done = assentry("restore", "b.db", "--force")
    assert "this backup lacks 1 entry signed after it" in done.err
    assert len(list(here.glob("assentry.db.before-restore-*"))) == 1
    assentry("show", later.code, code=1)
    assert "restored from a backup" in assentry("log", "--limit", "1").out
    assentry("audit", "seal")
    assert "whole: 2 entries" in assentry("audit", "verify").out
    assert list((Path(os.environ["ASSENTRY_HOME"]) / "checkpoints").glob("*.before-restore-*.jsonl"))


def test_a_forged_backup_is_not_restored(assentry: Assentry, agent: Agent, here: Path) -> None:
    request = agent.asks()
    assentry("audit", "seal")
    assentry("backup", "b.db")
    agent.close()
    with sqlite3.connect(here / "b.db") as copy:
        defenceless(copy)
        copy.execute("UPDATE entries SET text = replace(text, 'cleanup', 'someone')")
    copy.close()
    for leftover in here.glob("b.db-*"):
        leftover.unlink()
    before = (here / "assentry.db").stat().st_ino
    assert "nothing was replaced" in assentry("restore", "b.db", "--force", code=5).err
    assert (here / "assentry.db").stat().st_ino == before
    assert request.code in assentry("pending").out
    assert not list(here.glob(".*part*"))


def test_a_place_that_lost_its_database_is_restored_without_force(assentry: Assentry, agent: Agent, here: Path) -> None:
    request = agent.asks()
    assentry("backup", "b.db")
    assert (
        request.code
        in assentry("--database", "new.db", "restore", "b.db", code=0).out
        + assentry("--database", "new.db", "pending").out
    )
    assert "no file" in assentry("--database", "x.db", "restore", "none.db", code=1).err
    (here / "junk").write_text("not a database at all" * 100)
    assert "not a database" in assentry("--database", "x.db", "restore", "junk", code=1).err
    assert not (here / "x.db").exists()


def test_purge_erases_payloads_and_the_log_still_verifies(assentry: Assentry, either: Agent) -> None:
    assert "no retention" in assentry("purge", code=1).err
    request = either.asks(why="private reasons")
    assentry("deny", request.code, "--reason", "no")
    assentry("audit", "seal")
    assert assentry("purge", "--older-than", "1d", "--json").json["purged"] == 0
    time.sleep(1.1)
    assert assentry("purge", "--older-than", "1s", "--json").json["purged"] == 1
    out = assentry("show", request.code).out
    assert "purged after its retention" in out
    assert "private reasons" not in out
    assert "whole" in assentry("audit", "verify").out
    assert "payloads of 1 request purged" in assentry("log", "--limit", "1").out


def test_on_postgresql_doctor_names_the_schema_and_backups_are_made_with_its_own_tools(
    assentry: Assentry, agent: Agent, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENTRY_DATABASE", postgres_database)
    told = assentry("doctor").out
    assert "schema assentry_data" in told
    assert "whoever can open the database is trusted" in " ".join(told.split())
    assert "pg_dump -Fc -n assentry_data" in assentry("backup", "x", code=1).err
    assert "pg_restore --clean --if-exists --single-transaction" in assentry("restore", "x", "--force", code=1).err


WORKER = """\
import pathlib, assentry

gate = assentry.open()

@gate.guard(reversible=False, reach="local", detached=True, patience=0)
def note(text: str) -> str:
    pathlib.Path("noted").write_text(text)
    return text
"""


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_runs_what_is_approved_and_stops_in_order(
    assentry: Assentry, here: Path, monkeypatch: pytest.MonkeyPatch, stop: signal.Signals
) -> None:
    (here / "shop.py").write_text(WORKER)
    asked = subprocess.run(
        [COMMAND[0], "-c", "import shop, assentry\ntry: shop.note('hello')\nexcept assentry.Parked as p: print(p.code)"],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    code = asked.stdout.strip()
    with subprocess.Popen([*COMMAND, "worker", "shop:gate"], stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        assert "working for shop:gate" in worker.stderr.readline()
        assentry("approve", code)
        end = time.monotonic() + 60
        while assentry("show", code, "--json").json["request"]["state"] != str(State.DONE):
            assert time.monotonic() < end
            time.sleep(0.05)
        worker.send_signal(stop)
        assert worker.wait(60) == 0
    assert (here / "noted").read_text() == "hello"


def test_a_worker_says_that_its_database_is_new(here: Path) -> None:
    (here / "shop.py").write_text(WORKER)
    with subprocess.Popen([*COMMAND, "worker", "shop:gate"], stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        assert "working for shop:gate" in worker.stderr.readline()
        told = worker.stderr.readline()
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=20)
    assert f"no agent has asked for anything yet in workspace default of {here / 'assentry.db'}" in told


def test_a_worker_does_not_call_a_database_new_where_a_policy_was_applied(
    assentry: Assentry, here: Path, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENTRY_DATABASE", postgres_database)
    (here / "p.yaml").write_text("autonomy: cautious\n")
    assentry("policy", "apply", "p.yaml")
    with subprocess.Popen([*COMMAND, "worker"], stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        told = worker.stderr.readline() + worker.stderr.readline()
        worker.send_signal(signal.SIGTERM)
        told += worker.communicate(timeout=20)[1]
    assert "no agent has asked for anything yet" in told
    assert "new and empty" not in told


@pytest.mark.parametrize(
    ("target", "complaint"),
    [("shop", "MODULE:GATE"), ("nowhere:gate", "no module 'nowhere'"), ("os:path", "is not a gate")],
)
def test_a_worker_needs_a_gate(assentry: Assentry, target: str, complaint: str) -> None:
    assert complaint in assentry("worker", target, code=1).err


def test_a_worker_without_a_module_moves_deadlines(assentry: Assentry, agent: Agent, here: Path) -> None:
    (here / "p.yaml").write_text("limits: {time: 1s}\n")
    assentry("policy", "apply", "p.yaml")
    agent.gate._portal.run(agent.gate._judgement.refresh())
    request = agent.asks()
    with subprocess.Popen([*COMMAND, "worker"], stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        assert "without a module" in worker.stderr.readline()
        end = time.monotonic() + 60
        while agent.now(request).state is State.PENDING:
            assert time.monotonic() < end
            time.sleep(0.05)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert agent.now(request).state is State.EXPIRED


AT_THE_TOP = {
    "a call": "delete('a')",
    "a call that parks": "delete.with_(wait=0)('a')",
    "an awaited call": "asyncio.run(delete.acall('a'))",
    "a call whose error is swallowed": "try: delete('a')\nexcept Exception: pass",
    "a question": "asyncio.run(gate.ask('Which one?'))",
    "a proposal": "asyncio.run(gate.propose('delete_all', {}))",
    "a request that is resumed": "asyncio.run(gate.resume('no such request'))",
    "a run": "async def main():\n    async with gate.run('Tidy up'): pass\nasyncio.run(main())",
}


@pytest.mark.parametrize("what", AT_THE_TOP)
def test_a_module_that_acts_when_it_is_imported_is_told_so(
    assentry: Assentry, here: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    name = f"acts_{list(AT_THE_TOP).index(what)}"
    (here / f"{name}.py").write_text(
        "import asyncio, assentry\ngate = assentry.open()\n\n"
        "@gate.guard(reversible=False)\ndef delete(name: str) -> None: ...\n\n"
        f"{AT_THE_TOP[what]}\n"
    )
    monkeypatch.syspath_prepend(here)
    told = assentry("worker", f"{name}:gate", code=1).err
    assert f"at the top level of {name}" in told
    assert '`if __name__ == "__main__":`' in told
    assert assentry("pending", "--json").json["requests"] == []


def test_version(assentry: Assentry) -> None:
    assert assentry("--version").out.startswith("assentry ")
    assert {"assentry", "python", "apsw"} <= set(assentry("version", "--json").json)
    assert "textual" in assentry("version").out
