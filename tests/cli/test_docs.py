"""docs/terminal.md is true: every shell block in it is run, in order, against requests with the codes it names."""

import re
import shlex
from pathlib import Path

import pytest

from assentry import option
from assentry.engine import asking, gate, questions
from tests.cli.terminal import Agent, Assentry
from tests.cli.test_app import DOCS
from tests.cli.test_deciding import CARD

POLICY = "rules: [{name: bulk delete, actions: ['delete_*'], when: facts.count > 100, gate: hard}]\n"


def test_every_command_in_the_page_works(
    assentry: Assentry, agent: Agent, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = iter(["7kq2", "3mpx", "5wtz", "8nhd", "6cjf", "2ryv", "9fbk"])
    for module in (asking, gate, questions):
        monkeypatch.setattr(module, "new_code", lambda: next(codes))
    for number in range(5):
        offered = [option("One", "", {"files": ["a.tmp"]}), option("Cancel")] if number == 3 else []
        agent.asks(args={"files": ["a.tmp", f"{number}.tmp"], "root": "~/projects"}, options=offered)
    agent.wonders(choices=["the newer one", "the older one"])
    agent.gate.guard(lambda path: path, name="tidy", reversible=True, reach="local", undo=lambda path: None)("a")
    (here / "assentry.yaml").write_text(POLICY)
    blocks = re.findall(r"^```sh\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(lines) >= 20
    for program, *words in lines:
        assert program == "assentry"
        command, file = (words[: words.index(">")], words[-1]) if ">" in words else (words, "")
        out = assentry(*command).out
        if file:
            (here / file).write_text(out)


def test_the_page_names_every_field_of_a_card() -> None:
    [sentence] = re.findall(r"^A card holds .*$", DOCS.read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", sentence)) >= CARD
