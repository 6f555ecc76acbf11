"""The whole terminal over HTTP: a server in a process of its own, and commands that have nothing but its address."""

import asyncio
import getpass
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import assentry
from assentry.core.authority import Principal
from assentry.core.briefing import brief
from assentry.engine.identity import Identities
from assentry.engine.policies import apply_policy
from tests import forked
from tests.cli.test_elsewhere import THERE

pytestmark = pytest.mark.proof

ASSENTRY = [sys.executable, "-m", "assentry"]
SECONDS = 60


class Terminal:
    """A terminal on another machine: its own home, no database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        (folder / "elsewhere").mkdir(exist_ok=True)
        self._folder = folder / "elsewhere"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ASSENTRY_")},
            "ASSENTRY_HOME": str(folder / "elsewhere" / "home"),
            "ASSENTRY_SERVER": url,
        }

    async def run(self, *words: str, code: int = 0, said: str = "") -> str:
        """What the command printed."""
        done = await asyncio.to_thread(forked.assentry, *words, cwd=self._folder, env=self._environment, said=said)
        assert done.code == code, done.out + done.problem
        return done.out + done.problem if code else done.out

    def does(self, *words: str) -> forked.Done:
        """How the command ended."""
        return forked.assentry(*words, cwd=self._folder, env=self._environment)

    async def read(self, *words: str) -> Any:
        return json.loads(await self.run(*words, "--json"))


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a server, and a one-time link into it."""
    command = [*ASSENTRY, "--database", database, "serve", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        while "sign-in link" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        link = re.search(r"(http://\S+)/enter\?link=(\S+)", said)
        assert link is not None, said
        yield link[1], link[2]
        process.terminate()


@pytest.fixture
async def gate(database: str, server: tuple[str, str]) -> AsyncIterator[assentry.Gate]:
    gate = assentry.open(database, agent="cleanup")
    yield gate
    await gate.close()


async def test_every_command_reads_and_decides_through_the_server(
    gate: assentry.Gate, server: tuple[str, str], tmp_path: Path
) -> None:
    url, link = server
    terminal = Terminal(tmp_path, url)

    @gate.guard(reversible=False, says="Delete {files.count} files")
    async def delete_files(files: list[str]) -> int:
        return len(files)

    assert "nobody is logged in" in await terminal.run("pending", code=4)
    assert "you are" in await terminal.run("login", url, link)
    assert "used" in await terminal.run("login", url, link, code=4)  # it worked once
    first = asyncio.create_task(delete_files(["a", "b"]))
    second = asyncio.create_task(delete_files(["c"]))
    while len((await terminal.read("pending"))["requests"]) < 2:
        await asyncio.sleep(0.05)
    cards = {card["args"]["files"][0]: card for card in (await terminal.read("pending"))["requests"]}
    shown = await terminal.read("show", cards["a"]["code"])
    assert shown["request"]["title"] == "Delete 2 files"
    await terminal.run("modify", cards["a"]["code"], "--set", 'files=["a"]')
    assert await first == 1
    await terminal.run("deny", cards["c"]["code"], "--reason", "not that one")
    with pytest.raises(assentry.Denied, match="not that one"):
        await second
    assert "already" in (await terminal.run("approve", cards["c"]["code"], code=3)).lower()
    assert "denied by" in await terminal.run("log", "--request", cards["c"]["code"])
    given = await terminal.read("grants", "give", "delete_*", "--for", "1h", "--limit", "3")
    assert await delete_files(["d"]) == 1
    await terminal.run("grants", "revoke", given["grant"]["id"])
    (tmp_path / "elsewhere" / "assentry.yaml").write_text("rules: [{name: none, actions: ['shred_*'], gate: forbid}]\n")
    await terminal.run("policy", "apply", "assentry.yaml")
    assert (await terminal.read("policy", "show"))["version"] == 1
    await terminal.run("pause", "--agent", "cleanup", "--reason", "lunch")
    assert (await gate._store.switches("default"))[0].is_held
    await terminal.run("go", "--agent", "cleanup")
    async with gate.run("Tidy up"):
        assert "Tidy up" in await terminal.run("runs")
    waits = asyncio.create_task(delete_files(["e", "f"]))
    while not (await terminal.read("pending"))["requests"]:
        await asyncio.sleep(0.05)
    assert "1 request was withdrawn" in await terminal.run("stop", "--all")
    await asyncio.wait([waits])
    assert waits.exception() is not None
    await terminal.run("go", "--all")
    assert "on the server's machine" in await terminal.run("backup", "copy.db", code=1)
    await terminal.run("logout", url)
    assert "nobody is logged in" in await terminal.run("pending", code=4)


async def test_a_server_does_whatever_is_not_refused_before_it_is_asked(
    gate: assentry.Gate, server: tuple[str, str], tmp_path: Path
) -> None:
    url, link = server
    terminal = Terminal(tmp_path, url)
    (tmp_path / "elsewhere" / "p.yaml").write_text("rules: [{name: none, actions: ['shred_*'], gate: forbid}]\n")
    await terminal.run("login", url, link)
    for name, words in THERE.items():
        done = await asyncio.to_thread(terminal.does, *name.split(), *words)
        said = done.out + done.problem
        assert "where the database is" not in said, f"{name}: {said}"
        assert done.code == 0 or re.search(r"no (request|run|grant|change) |there is no", said), f"{name}: {said}"


@pytest.mark.parametrize("words", [("link",), ("token", "give", "cleanup"), ("token", "list"), ("password",)])
async def test_no_way_in_is_made_that_the_server_does_not_know(
    server: tuple[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    url, link = server
    terminal = Terminal(tmp_path, url)
    await terminal.run("login", url, link)
    said = await terminal.run(*words, code=1, said="correct horse battery\n")
    assert "on the server's machine" in " ".join(said.split())
    assert not re.search("aat_|apl_", said)


async def test_two_people_elsewhere_change_the_policy_together(
    gate: assentry.Gate, server: tuple[str, str], database: str, tmp_path: Path
) -> None:
    url, _ = server
    text = "second_person: true\npeople: {ada: {roles: [operator]}, bob: {roles: [operator]}}\n"
    await apply_policy(gate._store, "default", text, Principal("root"))
    people = {}
    for name in ("ada", "bob"):
        (tmp_path / name).mkdir()
        people[name] = Terminal(tmp_path / name, url)
        link = await Identities(gate._store, "default").link(Principal("ada"), name)
        assert f"you are {name}" in await people[name].run("login", url, link)
    ada, bob = people.values()
    (tmp_path / "ada" / "elsewhere" / "new.yaml").write_text(f"{text}mode: observe\n")
    waits = await ada.read("policy", "apply", "new.yaml")
    code = waits["proposal"]["code"]
    assert not waits["applied"]
    assert waits["warnings"] == []  # ada may, whoever the operating system says is here
    assert "NOTHING IS CHANGED YET" in await ada.run("policy", "apply", "new.yaml")
    assert "ada proposed this" in await ada.run("policy", "confirm", code, "--yes", code=4)
    assert "mode: (unset) -> observe" in await bob.run("policy", "proposals")
    assert "not what you saw" in await bob.run("policy", "confirm", code, "--yes", "--digest", "0", code=3)
    assert "proposed by ada, confirmed by bob" in await bob.run("policy", "confirm", code[:6], "--yes")
    assert (await ada.read("policy", "show"))["version"] == 2
    assert "applied by bob" in await bob.run("policy", "reject", code, code=3)
    (tmp_path / "ada" / "elsewhere" / "new.yaml").write_text(f"{text}# later\n")
    code = (await ada.read("policy", "apply", "new.yaml"))["proposal"]["code"]
    assert (await bob.read("policy", "reject", code, "--reason", "no"))["proposal"]["reason"] == "no"
    assert "no change of the policy waits" in await ada.run("policy", "proposals")


async def test_somebody_logs_in_with_a_password(server: tuple[str, str], database: str, tmp_path: Path) -> None:
    url, _ = server
    made = await asyncio.create_subprocess_exec(
        *ASSENTRY, "--database", database, "password", cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    await made.communicate(b"correct horse battery\n")
    assert made.returncode == 0
    terminal = Terminal(tmp_path, url)
    name = getpass.getuser()
    await terminal.run("login", url, "--name", name, said="wrong password\n", code=4)
    assert f"you are {name}" in await terminal.run("login", url, "--name", name, said="correct horse battery\n")
    assert (await terminal.read("pending"))["requests"] == []


async def test_what_is_critical_wants_a_proof_at_a_terminal_too(
    gate: assentry.Gate, server: tuple[str, str], database: str, tmp_path: Path
) -> None:
    url, link = server
    name = getpass.getuser()
    terminal = Terminal(tmp_path, url)
    await terminal.run("login", url, link)
    made = await asyncio.create_subprocess_exec(
        *ASSENTRY, "--database", database, "password", cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    await made.communicate(b"correct horse battery\n")
    fresh = await asyncio.create_subprocess_exec(
        *ASSENTRY, "--database", database, "link", "--url", url, cwd=tmp_path, stdout=subprocess.PIPE
    )
    made_link, _ = await fresh.communicate()
    await terminal.run("login", url, made_link.decode().strip())
    proposal = await gate.propose("pay", {"to": "Nordwind", "amount": 12400, "currency": "EUR"})
    assert proposal.request is not None
    phrase = brief(proposal.request, await gate._store.now()).phrase
    words = ("approve", proposal.request.code, "--confirm", phrase)
    assert f"assentry login URL --name {name}" in " ".join((await terminal.run(*words, code=4)).split())
    await terminal.run("login", url, "--name", name, said="correct horse battery\n")
    await terminal.run(*words)
    found = await gate._store.request("default", proposal.request.id)
    assert found is not None
    assert str(found.state) == "approved"
