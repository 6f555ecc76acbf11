"""Changes of the policy that wait for a second person, from a terminal."""

import asyncio
import os
import pwd
from pathlib import Path

import pytest

from assentry.assemble import store_for
from assentry.core.authority import Principal
from assentry.core.policy_proposal import PolicyProposal
from assentry.engine.policies import apply_policy
from assentry.settings import load
from tests.cli.terminal import Assentry, at_terminal

ME = pwd.getpwuid(os.getuid()).pw_name
TWO = f"""second_person: true
people:
  ann: {{roles: [operator], os_users: [{ME}]}}
  bob: {{roles: [operator], os_users: [somebody-else]}}
"""
NEW = f"{TWO}rules: [{{name: no shredding, actions: ['shred_*'], gate: forbid}}]\n"


@pytest.fixture
def file(assentry: Assentry, here: Path) -> Path:
    """A policy file; what it says is active, and wants two people."""
    path = here / "assentry.yaml"
    path.write_text(TWO)
    assert "changes need a second person" in assentry("policy", "apply", "assentry.yaml").out
    path.write_text(NEW)
    return path


def bob_applies(here: Path, text: str = NEW) -> PolicyProposal:
    async def work() -> PolicyProposal:
        store = store_for(load({"database": str(here / "assentry.db")}))
        await store.open()
        made = await apply_policy(store, "default", text, Principal("bob"), "bobs.yaml")
        await store.close()
        assert isinstance(made, PolicyProposal)
        return made

    return asyncio.run(work())


def test_apply_says_that_it_waits_and_what_the_other_person_types(assentry: Assentry, file: Path) -> None:
    out = assentry("policy", "apply", "assentry.yaml").out
    (code,) = [line.split()[-1] for line in out.splitlines() if "assentry policy confirm" in line]
    assert 'rule "no shredding" is new' in out
    assert "NOTHING IS CHANGED YET" in out
    told = assentry("policy", "apply", "assentry.yaml", "--json").json
    assert (told["version"], told["applied"], told["proposal"]["code"]) == (1, False, code)
    assert assentry("policy", "show").out == TWO
    done = assentry("policy", "confirm", code, "--yes", code=4)
    assert "ann proposed this, so another person confirms it" in done.err
    assert "ann proposed this" in assentry("policy", "proposals").out
    assert f"rejected: the change {code}" in assentry("policy", "reject", code[:6]).out
    assert "no change of the policy waits" in assentry("policy", "proposals").out
    assert "rejected by ann" in assentry("policy", "confirm", code, "--yes", code=4).err
    assert "proposed by ann; a second person is needed" in assentry("log").out
    assert "was rejected by ann" in assentry("log").out


def test_confirm_shows_what_it_changes_and_asks(assentry: Assentry, file: Path, here: Path) -> None:
    proposal = bob_applies(here)
    listed = assentry("policy", "proposals", "--json").json["proposals"]
    assert [(each["code"], each["digest"], each["why_not"]) for each in listed] == [
        (proposal.code, proposal.digest, "")
    ]
    assert f"assentry policy confirm {proposal.code}" in assentry("policy", "proposals").out
    assert "--yes" in assentry("policy", "confirm", proposal.code, code=6).err
    assert "--yes" in assentry("policy", "confirm", proposal.code, "--json", code=6).json["error"]["message"]
    assert "not what you saw" in assentry("policy", "confirm", proposal.code, "--yes", "--digest", "0", code=3).err
    ended, seen = at_terminal(["policy", "confirm", proposal.code], [("Type confirm", "yes\n")])
    assert ended != 0
    for words in ("bob proposed this", "bobs.yaml", 'rule "no shredding" is new', "+rules: [{name: no shredding"):
        assert words.encode() in seen, words
    assert assentry("policy", "show").out == TWO
    ended, seen = at_terminal(["policy", "confirm", proposal.code], [("Type confirm", "confirm\n")])
    assert (ended, b"version 2 is active now: proposed by bob, confirmed by ann" in seen) == (0, True)
    assert assentry("policy", "show").out == NEW
    assert "proposed by bob, confirmed by ann" in assentry("log").out


def test_a_script_confirms_what_it_names(assentry: Assentry, file: Path, here: Path) -> None:
    proposal = bob_applies(here)
    done = assentry("policy", "confirm", proposal.code, "--yes", "--digest", proposal.digest, "--json").json
    assert (done["version"], done["applied"], done["proposed_by"], done["confirmed_by"]) == (2, True, "bob", "ann")
    ended = assentry("policy", "reject", proposal.code, "--json", code=3).json["error"]
    assert (ended["kind"], ended["state"], ended["by"]) == ("AlreadyDecided", "applied", "ann")
    assert "begin with 'zz'" in assentry("policy", "confirm", "zz", "--yes", code=1).err


def test_what_was_made_from_an_older_version_says_so(assentry: Assentry, file: Path, here: Path) -> None:
    first, second = bob_applies(here), bob_applies(here, f"{NEW}# later\n")
    assentry("policy", "confirm", first.code, "--yes")
    assert "proposed again" in assentry("policy", "proposals").out
    done = assentry("policy", "confirm", second.code, code=3)
    assert "propose it again" in done.err
    assert assentry("policy", "show", "--json").json["version"] == 2
