"""`assentry serve` as a process: where it is, whom it lets in, and what other commands know of it."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from assentry.engine.gate import os_user
from tests.cli.terminal import COMMAND, Assentry, spawned

pytestmark = pytest.mark.proof


@contextmanager
def serving(*options: str, kill: bool = False) -> Iterator[str]:
    """What a server said when it answered."""
    with subprocess.Popen([*COMMAND, "serve", "--no-browser", *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        while "agents connect" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        try:
            yield said
        finally:
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            process.communicate(timeout=60)


def link_in(said: str) -> tuple[str, str]:
    found = re.search(r"sign-in link \(one use, valid 10 minutes\): (http://\S+:(\d+)/enter\?link=\S+)", said)
    assert found is not None, said
    return found[1], found[2]


def answers(url: str) -> bool:
    with urllib.request.urlopen(url) as answer:
        return answer.status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_sign_in_link_knows_the_port_that_was_free(here: Path, host: str) -> None:
    with serving("--port", "0", "--host", host) as said:
        link, port = link_in(said)
        assert port != "0"
        assert f"http://{host}:{port}/" in link
        assert answers(link)


def test_the_sign_in_link_is_how_people_reach_the_server(here: Path) -> None:
    with serving("--port", "0", "--url", "https://assentry.example.com/") as said:
        assert "sign-in link (one use, valid 10 minutes): https://assentry.example.com/enter?link=" in said


def test_a_link_made_later_knows_where_the_server_is(here: Path, assentry: Assentry) -> None:
    with serving("--port", "0") as said:
        made = assentry("link", "--json").json["link"]
        assert made.split("/enter")[0] == link_in(said)[0].split("/enter")[0]
        assert answers(made)
    ended = assentry("link")
    assert ended.out.startswith("http://127.0.0.1:8750/"), "it has ended, and is not known any more"
    assert "found no running server of this database here" in ended.err


def test_a_server_that_ends_takes_nothing_from_another_of_the_same_database(here: Path, assentry: Assentry) -> None:
    with serving("--port", "0") as first:
        with serving("--port", "0") as second:
            assert link_in(second)[1] in assentry("link").out
        made = assentry("link")
    assert f"http://127.0.0.1:{link_in(first)[1]}/" in made.out
    assert made.err == ""


def test_a_server_that_was_killed_is_not_taken_for_one_that_runs(
    here: Path, assentry: Assentry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "new" / "home"
    monkeypatch.setenv("ASSENTRY_HOME", str(home))
    with serving("--port", "0", kill=True) as said:
        port = link_in(said)[1]
        assert home.stat().st_mode & 0o777 == 0o700
    made = assentry("link")
    assert made.out.startswith("http://127.0.0.1:8750/")
    assert "found no running server of this database here" in made.err
    assert not list(home.rglob(f"*{port}*"))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/\x1b[2J", "javascript:alert(1)", "http://a b", "http://[", ""])
def test_what_is_no_address_is_not_printed_as_one(here: Path, assentry: Assentry, url: str) -> None:
    with serving("--port", "0"):
        (file,) = (Path(os.environ["ASSENTRY_HOME"]) / "servers").iterdir()
        file.write_text(json.dumps({**json.loads(file.read_text()), "url": url}))
        assert assentry("link").out.startswith("http://127.0.0.1:8750/")


def test_a_link_that_says_where_people_reach_the_server_is_believed(here: Path, assentry: Assentry) -> None:
    with serving("--port", "0"):
        made = assentry("link", "--url", "https://assentry.example.com").out
    assert made.startswith("https://assentry.example.com/enter?link=")


def test_once_somebody_can_sign_in_no_link_is_printed(here: Path) -> None:
    with serving("--port", "0") as said:
        link_in(said)
    assert spawned("password", os_user(), stdin="correct horse battery\n").returncode == 0
    with serving("--port", "0") as said:
        assert "enter?link=" not in said
        assert re.search(r"people sign in at http://127\.0\.0\.1:\d+/login", said)


def test_a_port_that_is_taken_is_named_and_no_link_is_made(here: Path, assentry: Assentry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = assentry("serve", "--no-browser", "--port", str(port), code=1).err
    assert f"127.0.0.1:{port} cannot be listened on" in told
    assert "enter?link=" not in told
