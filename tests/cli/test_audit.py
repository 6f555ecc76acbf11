"""The record from a terminal: the log in words, and its proofs."""

import sqlite3
import subprocess
from pathlib import Path

from tests.cli.terminal import COMMAND, Agent, Assentry, defenceless, spawned


def test_the_log_tells_what_happened_newest_first(assentry: Assentry, either: Agent) -> None:
    request, other = either.asks(), either.asks(args={"files": ["c.tmp"]})
    assentry("approve", request.code)
    lines = assentry("log").out.splitlines()
    assert f"{request.code} delete_files: approved by" in lines[0]
    assert f"{other.code} delete_files: asked by cleanup, gate hard" in lines[1]
    assert [each["kind"] for each in assentry("log", "--request", request.code, "--json").json["entries"]] == [
        "request.decided", "request.asked",
    ]  # fmt: skip
    assert len(assentry("log", "--kind", "request.asked", "--json").json["entries"]) == 2
    assert len(assentry("log", "--kind", "request", "--limit", "1", "--json").json["entries"]) == 1
    assert assentry("log", "--agent", "nobody").out == "nothing is on record that fits\n"


def test_follow_prints_what_is_added(agent: Agent) -> None:
    agent.asks()
    with subprocess.Popen([*COMMAND, "log", "-f", "--json"], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            assert "request.asked" in following.stdout.readline()
            later = agent.asks(args={"files": ["c.tmp"], "root": "~/projects"})
            assert later.id in following.stdout.readline()
            following.send_signal(2)
            assert following.wait(60) == 130
        finally:
            following.kill()


def test_a_whole_log_verifies_here_and_elsewhere(assentry: Assentry, either: Agent, here: Path) -> None:
    either.asks()
    assert "1 entry sealed" in assentry("audit", "seal").out
    assert "whole: 1 entry," in assentry("audit", "verify").out
    assert assentry("audit", "verify", "--json").json["ok"] is True
    assert "1 entry in out.jsonl" in assentry("audit", "export", "-o", "out.jsonl").out
    (here / "pub.pem").write_text(assentry("keys", "show").out)
    assert "whole" in assentry("audit", "verify", "out.jsonl", "--key", "pub.pem").out
    assert "came from the file itself" in assentry("audit", "verify", "out.jsonl").out
    assert "exists" in assentry("audit", "export", "-o", "out.jsonl", code=1).err


def test_an_offline_check_needs_no_database(assentry: Assentry, agent: Agent, here: Path) -> None:
    agent.asks()
    assentry("audit", "export", "-o", "out.jsonl")
    assert "whole" in assentry("--database", str(here / "none.db"), "audit", "verify", "out.jsonl").out
    assert not (here / "none.db").exists()


def test_tampering_is_found_and_named_with_exit_code_5(assentry: Assentry, agent: Agent, here: Path) -> None:
    for number in range(3):
        agent.asks(args={"files": [f"{number}.tmp"], "root": "~/projects"})
    assentry("audit", "export", "-o", "out.jsonl")
    agent.close()
    with sqlite3.connect(here / "assentry.db") as database:
        defenceless(database)
        database.execute("UPDATE entries SET text = replace(text, 'cleanup', 'someone') WHERE idx = 1")
    done = assentry("audit", "verify", code=5)
    assert "TAMPERED: entry changed: entry 1" in done.err
    assert assentry("audit", "verify", "--json", code=5).json["faults"][0]["first"] == 1
    export = here / "out.jsonl"
    export.write_bytes(export.read_bytes().replace(b"cleanup", b"cleanuq", 1))
    assert "TAMPERED" in assentry("audit", "verify", "out.jsonl", code=5).err


def test_a_receipt_proves_a_decision_to_a_stranger(assentry: Assentry, agent: Agent, here: Path) -> None:
    request = agent.asks()
    assert "no receipt yet" in assentry("receipt", request.code, code=1).err
    assentry("approve", request.code)
    assentry("receipt", request.code[:6], "-o", "r.json")
    (here / "pub.pem").write_text(assentry("keys", "show").out)
    assert "genuine: Request" in assentry("receipt", "verify", "r.json", "--key", "pub.pem").out
    assert "genuine" in assentry("receipt", "verify", "r.json").out
    assert assentry("receipt", "verify", "r.json", "--key", "pub.pem", "--json").json["request"] == request.id
    text = (here / "r.json").read_text()
    (here / "r.json").write_text(text.replace("approve", "approvf", 1))
    assert assentry("receipt", "verify", "r.json", "--json", code=5).json["error"]["kind"] == "TamperFound"
    assert "neither a file" in assentry("receipt", "verify", "r.json", "--key", "no.pem", code=1).err


def test_keys_rotate_and_what_the_old_one_signed_still_verifies(assentry: Assentry, agent: Agent) -> None:
    agent.asks()
    assentry("audit", "seal")
    old = assentry("keys", "show", "--json").json["key"]
    new = assentry("keys", "rotate", "--json").json["key"]
    assert new != old
    assert "whole" in assentry("audit", "verify").out
    assert "seals secrets" in assentry("keys", "rotate", "--sealing").out


def test_another_machines_key_is_trusted_for_once_or_for_good(assentry: Assentry, agent: Agent, here: Path) -> None:
    agent.asks()
    assentry("audit", "seal")
    (here / "pub.pem").write_text(assentry("keys", "show").out)
    home = str(here / "elsewhere")
    assert "not known here" in assentry("--home", home, "audit", "verify", code=5).err
    assert "whole" in assentry("--home", home, "audit", "verify", "--key", "pub.pem").out
    assentry("--home", home, "audit", "verify", code=5)
    assentry("--home", home, "keys", "trust", "pub.pem")
    assert "whole" in assentry("--home", home, "audit", "verify").out


def test_an_export_into_a_pipe_is_the_same_bytes_whatever_the_code_page_is(
    assentry: Assentry, agent: Agent, here: Path
) -> None:
    agent.asks("lösche_dateien")
    written = spawned("audit", "export", PYTHONIOENCODING="latin-1").stdout
    (here / "piped.jsonl").write_bytes(written)
    assert "lösche_dateien" in written.decode()
    assentry("audit", "verify", "piped.jsonl")
