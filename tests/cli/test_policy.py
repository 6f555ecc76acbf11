"""Policy and grants from a terminal."""

import json
import os
import pwd
import re
from pathlib import Path

import pytest

from tests.cli.terminal import Agent, Assentry

POLICY = """\
rules:
  - name: bulk delete
    actions: ["delete_*"]
    when: facts.count > 100
    gate: hard
    because: more than 100 files wait for a person
    reviewers: [role:platform]
    ladder: [{after: 15m, remind: true}]
  - name: every delete
    actions: ["delete_*"]
    gate: manual
"""


@pytest.fixture
def file(here: Path) -> Path:
    path = here / "assentry.yaml"
    path.write_text(POLICY)
    return path


def me() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def test_check_says_every_complaint_with_its_line(assentry: Assentry, here: Path, file: Path) -> None:
    assert "assentry.yaml: OK (2 rules, autonomy balanced" in assentry("policy", "check", "assentry.yaml").out
    assert assentry("policy", "check", "assentry.yaml", "--json").json["ok"] is True
    (here / "bad.yaml").write_text("mode: maybe\nrules:\n  - name: x\n    gate: softly\n")
    done = assentry("policy", "check", "bad.yaml", code=1)
    assert [line.split(": ")[1] for line in done.err.splitlines()] == ["bad.yaml:1", "bad.yaml:4"]
    assert len(assentry("policy", "check", "bad.yaml", "--json", code=1).json["error"]["complaints"]) == 2
    assert "cannot be read" in assentry("policy", "check", "none.yaml", code=1).err


def test_apply_says_what_changes_and_the_new_version(assentry: Assentry, file: Path) -> None:
    done = assentry("policy", "apply", "assentry.yaml")
    assert 'rule "bulk delete" is new: hard for delete_* when facts.count > 100' in done.out
    assert "version 1 is active now" in done.out
    assert "already" in assentry("policy", "apply", "assentry.yaml").out
    file.write_text(POLICY.replace("gate: manual", "gate: hard") + "autonomy: cautious\nlimits: {scale: 7}\n")
    dry = assentry("policy", "apply", "assentry.yaml", "--dry-run")
    assert "nothing was changed" in dry.out
    changed = assentry("policy", "apply", "assentry.yaml", "--json").json
    assert changed["version"] == 2
    assert 'rule "every delete" changes: gate manual -> hard' in changed["changes"]
    assert any("autonomy" in sentence for sentence in changed["changes"])
    assert any("limits: scale" in sentence for sentence in changed["changes"])
    file.write_text("rules: [{name: every delete, actions: ['delete_*'], gate: hard}]\n")
    assert 'rule "bulk delete" is gone' in assentry("policy", "apply", "assentry.yaml").out
    history = assentry("policy", "history", "--json").json["versions"]
    assert [each["version"] for each in history] == [3, 2, 1]
    assert 'rule "bulk delete" is gone' in history[0]["changes"]
    assert "is gone" in assentry("policy", "history").out


def test_show_prints_the_text_as_applied(assentry: Assentry, file: Path) -> None:
    assentry("policy", "apply", "assentry.yaml")
    file.write_text("mode: enforce\n")
    assentry("policy", "apply", "assentry.yaml")
    assert assentry("policy", "show").out == "mode: enforce\n"
    assert assentry("policy", "show", "--version", "1").out == POLICY
    assert "no version 9" in assentry("policy", "show", "--version", "9", code=1).err
    assert assentry("policy", "show", "--json").json["version"] == 2


def test_only_an_operator_applies_where_there_are_any(assentry: Assentry, file: Path) -> None:
    file.write_text(f"people: {{ann: {{os_users: [{me()}]}}, bob: {{os_users: [x], roles: [operator]}}}}\n")
    assert "pass --yes" in assentry("policy", "apply", "assentry.yaml", code=6).err
    assert assentry("policy", "show", "--json").json["version"] == 0
    assert "after this you may not change the policy again" in assentry("policy", "apply", "assentry.yaml", "--yes").err
    assert "does not have the role operator" in assentry("policy", "apply", "assentry.yaml", code=4).err
    assentry("grants", "give", "x", "--for", "1h", code=4)
    assentry("keys", "rotate", code=4)
    assentry("purge", "--older-than", "1d", code=4)


def test_check_refuses_a_replacement_without_an_answer_and_warns_about_one_for_a_pattern(
    assentry: Assentry, here: Path
) -> None:
    (here / "own.yaml").write_text("actions:\n  sync: {instead_of_code: true, confidence: 0.5}\n")
    assert "own.yaml:2" in (refused := assentry("policy", "check", "own.yaml", code=None)).err + refused.out
    assert refused.code != 0
    assert "no answer to replace the code's" in refused.err + refused.out
    (here / "own.yaml").write_text('actions:\n  "sync_*": {risk: safe, instead_of_code: true}\n')
    warned = assentry("policy", "check", "own.yaml", code=None)
    assert "overrides what the code declares of every action that matches" in warned.err + warned.out


def test_explain_tells_rule_reason_next_effect_triggers_gate_reviewers_and_ladder(
    assentry: Assentry, file: Path
) -> None:
    files = [f"{number}.tmp" for number in range(120)]
    args = ["--action", "delete_files", "--args", json.dumps({"files": files}), "--irreversible"]
    out = assentry("policy", "explain", "assentry.yaml", *args).out
    for text in (
        "gate        hard", "more than 100 files wait for a person", 'rule "bulk delete", line 2', 'rule "every delete"',
        "cannot be undone", "scale", "role:platform", "a reminder is due", "120 files",
    ):  # fmt: skip
        assert text in out, text
    told = assentry("policy", "explain", "assentry.yaml", *args, "--json").json
    assert (told["gate"], told["rule"], told["next_rule"]) == ("hard", "bulk delete", "every delete")
    assert [rule["match"] for rule in told["rules"]] == ["chose", "would match, but a rule before it chose"]
    for wrong, said in (
        ("[", "--args is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"a":1,"a":2}', "names 'a' twice"),
    ):
        assert said in assentry("policy", "explain", "assentry.yaml", "--action", "x", "--args", wrong, code=1).err


def test_explain_without_a_file_uses_the_active_policy_and_its_grants(
    assentry: Assentry, agent: Agent, file: Path
) -> None:
    assert "the built-in policy" in assentry("policy", "explain", "--action", "delete_files").out
    assentry("policy", "apply", "assentry.yaml")
    assentry("grants", "give", "delete_*", "--for", "1h", "--max-risk", "critical")
    out = assentry("policy", "explain", "--action", "delete_files", "--args", '{"files": ["a"]}').out
    assert "policy version 1" in out
    assert "covers it" in out


def test_a_grant_is_given_listed_used_and_revoked(assentry: Assentry, either: Agent) -> None:
    done = assentry(
        "grants", "give", "delete_*", "--for", "2h", "--agent", "cleanup", "--when", "facts.count < 50", "--limit", "3",
        "--budget", "99.50", "--currency", "eur", "--json",
    )  # fmt: skip
    grant = done.json["grant"]
    assert grant["budget"] == "99.50"
    assert grant["currency"] == "EUR"
    assert "0 of 3 uses, 0 of 99.50 EUR" in assentry("grants", "list").out
    assert "no grant begins" in assentry("grants", "revoke", "zzz", code=1).err
    assert "revoked" in assentry("grants", "revoke", grant["id"][:8]).out
    assert assentry("grants", "list").out == "there are no standing permissions\n"
    assert "revoked" in assentry("grants", "list", "--all").out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--for", "soon"], "--for must be a duration such as 90s"),
        (["--for", "1h", "--budget", "lots"], "--budget is a number"),
        (["--for", "1h", "--when", "facts.count <"], ""),
    ],
)
def test_a_grant_that_cannot_be_is_refused(
    assentry: Assentry, agent: Agent, options: list[str], complaint: str
) -> None:
    done = assentry("grants", "give", "x", *options, code=1)
    assert complaint in done.err
    assert done.err.count("\n") == 1
    assert "Unexpected" not in done.err


def test_a_grant_says_what_it_covers_when_it_is_given(assentry: Assentry, agent: Agent) -> None:
    bounds = ("--limit", "3", "--budget", "99.50")
    done = assentry("grants", "give", "pay_*", "--for", "2h", "--agent", "shop", *bounds, "--currency", "eur")
    assert "pay_* by shop, up to dangerous; at most 3 uses, at most 99.50 EUR in all" in done.out
    assert re.search(r"granted until \d{4}-\d\d-\d\d \d\d:\d\d UTC", done.out)
    assert done.err == ""
    done = assentry("grants", "give", "tidy", "--for", "2h")
    assert "any number of uses; without a budget it covers nothing that spends money" in done.out
    done = assentry("grants", "give", "pay_*", "--for", "2h", *bounds)
    assert "99.50 without a currency in all" in done.out
    assert "covers none in EUR or any other; say --currency" in done.err


def test_without_a_budget_a_grant_covers_no_payment(assentry: Assentry, agent: Agent) -> None:
    def covered(**args: object) -> bool:
        words = ("policy", "explain", "--action", "pay_invoice", "--args", json.dumps(args))
        return "covers it" in assentry(*words).out

    bill = {"to": "x", "amount": 20, "currency": "EUR"}
    assentry("grants", "give", "pay_*", "--for", "2h", "--limit", "5", "--max-risk", "critical")
    assentry("grants", "give", "pay_*", "--for", "2h", "--budget", "100", "--max-risk", "critical")
    assert not covered(**bill)
    words = ("--budget", "100", "--currency", "EUR", "--max-risk", "critical")
    assentry("grants", "give", "pay_*", "--for", "2h", *words)
    assert covered(**bill)
    assert not covered(**bill | {"currency": "USD"})
    assert not covered(to="x")


def test_a_broad_grant_is_warned_about(assentry: Assentry, agent: Agent) -> None:
    assert "this is broad" in assentry("grants", "give", "*", "--for", "1h").err
