"""What `policy check` refuses and warns about, and that the gate behaves as it says."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from assentry.core.audit import Entry
from assentry.core.policy_file import load_policy
from assentry.engine.gate import os_user
from tests.cli.terminal import Agent, Assentry

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"]
DOCUMENTED = [
    *(text for page in PAGES for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)),
    *(path.read_text() for path in sorted(ROOT.glob("examples/*.yaml"))),
    (ROOT / "src" / "assentry" / "demo" / "assentry.yaml").read_text(),
]

PEOPLE = """\
people:
  ann: {roles: [dba]}
  bob: {roles: [dba]}
  cy: {roles: [dba]}
  dan: {roles: [boss]}
  eve: {roles: [boss]}
"""
OVER = '{turns: [{person: ann, from: "2020-01-01T00:00:00+00:00", to: "2020-01-02T00:00:00+00:00"}]}'


def rule(text: str, before: str = PEOPLE) -> str:
    """A policy with one rule, whose keys stand on its last line."""
    return f"{before}rules:\n  - {{name: r, {text}}}\n"


@pytest.mark.parametrize("text", DOCUMENTED)
def test_what_the_docs_and_examples_say_is_checked_without_warnings(assentry: Assentry, here: Path, text: str) -> None:
    (here / "p.yaml").write_text(text)
    done = assentry("policy", "check", "--strict", "p.yaml")
    assert done.out.startswith("p.yaml: OK")
    assert done.err == ""


UNMEETABLE = [
    (rule("gate: hard, reviewers: [role:dba], quorum: 4"), 8,
     'rule "r": its requests can never be approved: needs 4 of role:dba: ann, bob, cy, so only 3 can decide'),
    (rule("gate: hard, quorum: 6"), 8, "ann, bob, cy, dan, eve, so only 5 can decide"),
    (rule("gate: watch, reviewers: [ann], quorum: 2"), 8, "needs 2 of ann: ann, so only 1 can decide"),
    (rule("gate: hard, reviewers: [role:dba], quorum: {roles: [boss]}"), 8,
     "needs 1 of role:dba, including role:boss: ann, bob, cy, and there is nobody for each of the roles boss"),
    (rule("gate: hard, reviewers: [role:dba], quorum: 3", f"{PEOPLE}agents: {{bot: {{owner: cy}}}}\n"), 9,
     ('can never be approved for the agent "bot": needs 3 of role:dba: ann, bob (cy is excluded: owner of the agent), '
     "so only 2 can decide; add reviewers, or write self_review: allow")),
    ("people: {ann: }\nagents: {bot: {owner: ann}}\n", 1,
     ('requests that no rule matches can never be approved for the agent "bot": needs 1 of everyone listed under '
     "people: nobody (ann is excluded: owner of the agent)")),
    (f"{PEOPLE}reviewers: [dan]\nagents: {{bot: {{owner: dan}}}}\nself_review: deny\n", 7,
     "nobody (dan is excluded: owner of the agent)"),
    (rule("gate: hard, reviewers: ['rota:gone']", f"{PEOPLE}rotas:\n  gone: {OVER}\n"), 10,
     "needs 1 of rota:gone: nobody"),
    (rule("gate: hard, reviewers: [role:dba], quorum: 4, limit: 2h, ladder: [{after: 1h, tell: [ann]}]"), 8,
     "so only 3 can decide"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "says"), UNMEETABLE)
def test_a_quorum_that_can_never_be_met_is_refused_by_check_and_apply(
    assentry: Assentry, here: Path, text: str, line: int, says: str
) -> None:
    (here / "p.yaml").write_text(text)
    for command in (("check",), ("apply", "--yes"), ("apply", "--dry-run")):
        done = assentry("policy", *command, "p.yaml", code=1)
        assert f"p.yaml:{line}: " in done.err
        assert says in done.err
    assert not (here / "assentry.db").exists()


@pytest.mark.parametrize(
    "text",
    [
        rule("gate: hard, reviewers: [role:dba], quorum: 4, ladder: [{after: 1h, tell: [dan, eve]}]"),
        rule("gate: hard, reviewers: [role:dba], quorum: 3", f"{PEOPLE}self_review: allow\nagents: {{b: {{owner: cy}}}}\n"),
        rule("gate: hard, agents: [other], reviewers: [role:dba], quorum: 2", f"{PEOPLE}agents: {{b: {{owner: cy}}}}\n"),
        rule("gate: forbid", PEOPLE),
        "rules: [{name: r, gate: hard}]",
        "autonomy: balanced",
    ],
)  # fmt: skip
def test_a_quorum_that_can_be_met_is_not_complained_about(assentry: Assentry, here: Path, text: str) -> None:
    (here / "p.yaml").write_text(text)
    assert assentry("policy", "check", "--strict", "p.yaml").err == ""


TWO = "people: {ann: , bob: }\nagents: {bot: {owner: ann}}\n"
PAYS = "  - {name: r, actions: [pay], gate: hard, quorum: 2}\n"


@pytest.mark.parametrize(
    "above",
    [
        "  - {name: own, agents: [bot], gate: hard, reviewers: [bob]}\n",
        "  - {name: own, agents: ['b*'], actions: ['p*'], gate: run}\n",
        "  - {name: never, agents: [bot], gate: forbid}\n",
        "  - {name: all, when: true, gate: watch}\n",
    ],
)
def test_an_agent_whose_calls_a_rule_above_takes_is_not_complained_about(
    assentry: Assentry, here: Path, above: str
) -> None:
    (here / "p.yaml").write_text(f"{TWO}rules:\n{PAYS}")
    assert 'can never be approved for the agent "bot"' in assentry("policy", "check", "p.yaml", code=1).err
    (here / "p.yaml").write_text(f"{TWO}rules:\n{above}{PAYS}")
    assert "never be approved" not in assentry("policy", "check", "p.yaml").err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("  - {name: all, gate: hard}\n  - {name: r, gate: hard, quorum: 3}\n", "is never reached"),
        ("  - {name: r, gate: hard, quorum: 3, when: false}\n", '"false" is never true'),
    ],
)
def test_a_rule_that_nothing_gets_to_may_want_whom_it_will(
    assentry: Assentry, here: Path, text: str, says: str
) -> None:
    (here / "p.yaml").write_text(f"people: {{ann: , bob: }}\nself_review: allow\nrules:\n{text}")
    done = assentry("policy", "check", "p.yaml")
    assert says in done.err
    assert "never be approved" not in done.err


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("  - {name: r, when: args.x > 1, gate: run}\n  - {name: s, gate: hard, quorum: 3}\n", 'rule "s": its requests can'),
        ("  - {name: r, gate: hard, quorum: 2, when: 'action.agent != \"bot\"'}\n", 'approved for the agent "bot"'),
        ("  - {name: r, agents: [bot], gate: run}\n", 'rule "r": its requests can never be approved for the agent "bot"'),
    ],
)  # fmt: skip
def test_what_may_never_come_to_it_is_a_warning(assentry: Assentry, here: Path, rules: str, says: str) -> None:
    people = TWO if "quorum: 3" in rules or "quorum: 2" in rules else TWO.replace(", bob: ", "")
    (here / "p.yaml").write_text(f"{people}rules:\n{rules}")
    assert says in assentry("policy", "check", "p.yaml").err


def test_what_no_rule_matches_is_not_complained_about_where_a_rule_takes_all_that_the_agent_asks(
    assentry: Assentry, here: Path
) -> None:
    one = TWO.replace(", bob: ", "")
    (here / "p.yaml").write_text(one)
    assert "no rule matches can never be approved" in assentry("policy", "check", "p.yaml", code=1).err
    (here / "p.yaml").write_text(f"{one}rules: [{{name: r, agents: [bot], gate: forbid}}]\n")
    assert "never be approved" not in assentry("policy", "check", "p.yaml").err


SHOP = """\
people:
  alice: {roles: [manager], os_users: [root]}
  bob: {roles: [finance]}
  carol: {roles: [finance]}
agents:
  shop: {owner: bob}
rules:
  - {name: r, actions: ["pay_*"], gate: hard, reviewers: [role:finance, role:manager], quorum: {count: 2, roles: [finance]}}
"""


def test_who_owns_the_agent_and_who_asked_are_excluded_together(assentry: Assentry, here: Path) -> None:
    (here / "p.yaml").write_text(SHOP)
    assert (
        'p.yaml:8: rule "r": if alice or carol made a request of the agent "shop", it cannot be approved (needs 2 of '
        "role:finance or role:manager, including role:finance: alice, carol (bob is excluded: owner of the agent)); add "
        "reviewers, or write self_review: allow"
    ) in assentry("policy", "check", "p.yaml").err
    (here / "p.yaml").write_text(SHOP.replace("agents:", "  dora: {roles: [finance]}\nagents:"))
    assert "shop" not in assentry("policy", "check", "p.yaml").err


def test_reviewers_without_people_are_warned_about_where_they_stand(assentry: Assentry, here: Path) -> None:
    first = "rules:\n  - {name: a, gate: run, actions: [x]}\n"
    (here / "p.yaml").write_text(f"{first}  - name: b\n    gate: hard\n    reviewers: [ann]\n")
    assert 'p.yaml:5: rule "b": reviewers are named but there' in assentry("policy", "check", "p.yaml").err


def test_a_rota_that_is_wrong_itself_is_complained_about_once(assentry: Assentry, here: Path) -> None:
    rota = "rotas:\n  nights: {members: [ann]}\n"
    (here / "p.yaml").write_text(rule("gate: hard, reviewers: ['rota:nights']", f"{PEOPLE}{rota}"))
    done = assentry("policy", "check", "p.yaml", code=1)
    assert 'unknown key "members"' in done.err
    assert "never be approved" not in done.err


def test_explain_names_nobody_where_nothing_waits(assentry: Assentry, here: Path) -> None:
    (here / "p.yaml").write_text(rule("gate: watch, actions: [x]", f"{PEOPLE}actions: {{x: {{risk: risky}}}}\n"))
    done = assentry("policy", "explain", "p.yaml", "--action", "x")
    assert "nothing waits" in done.out
    assert "approvals" not in done.out
    assert not any(
        "approvals" in each for each in assentry("policy", "explain", "p.yaml", "--action", "x", "--json").json["lines"]
    )
    assert "approvals" in assentry("policy", "explain", "p.yaml", "--action", "drop_table").out


def test_one_person_without_a_people_section_still_decides(assentry: Assentry, agent: Agent, here: Path) -> None:
    (here / "p.yaml").write_text("rules: [{name: r, gate: hard}]\n")
    assentry("policy", "apply", "p.yaml")
    asked = agent.asks()
    assert "any user who can sign in" in assentry("policy", "explain", "--action", "delete_files").out
    assert "approved" in assentry("approve", asked.code).out


def test_whose_request_nobody_else_could_approve_is_warned_about_by_name(assentry: Assentry, here: Path) -> None:
    (here / "p.yaml").write_text(rule("gate: hard, reviewers: [role:boss], quorum: 2"))
    done = assentry("policy", "check", "p.yaml")
    assert (
        'p.yaml:8: rule "r": if dan or eve owns the agent or made the request, its requests cannot be approved '
        "(needs 2 of role:boss: dan, eve); add reviewers, or write self_review: allow"
    ) in done.err
    (here / "p.yaml").write_text("people: {ann: }\n")
    assert "p.yaml:1: if ann owns the agent or made the request" in assentry("policy", "check", "p.yaml").err


def test_what_was_warned_about_happens(assentry: Assentry, agent: Agent, here: Path) -> None:
    me = os_user()
    (here / "p.yaml").write_text(f"people: {{ann: {{os_users: [{me}]}}}}\nrules: [{{name: r, gate: hard}}]\n")
    assert "if ann owns the agent or made the request" in assentry("policy", "apply", "--yes", "p.yaml").err
    asked = agent.asks()
    assert "made this request, so someone else must decide" in assentry("approve", asked.code, code=4).err


WARNED = [
    (("actions: {publish_draft: {reversible: true, reach: service}}\n"
     "rules:\n  - {name: r, actions: [publish_draft], gate: soft}\n"), 3,
     ('"publish_draft" (as far as is known here: can be undone, reaches service, leaves our systems) never gets the gate '
     "soft, because it is dangerous, so silence does not let it pass; it waits for a person instead; say what it does "
     "under actions:, or use hard")),
    (rule("gate: soft, actions: [frobnicate]", ""), 2, "never gets the gate soft, because nothing is known of it"),
    (rule("gate: soft, actions: ['x*'], when: '!effect.reversible'", ""), 2,
     "this rule never gets the gate soft, because it cannot be undone"),
    (rule("gate: watch, when: effect.risk == 'critical'", ""), 2,
     "this rule never gets the gate watch, because critical actions never pass below hard"),
    (rule("gate: run, actions: [refund_order]", ""), 2,
     "never gets the gate run, because critical actions never pass below hard"),
    (rule("gate: run", "floor: {safe: hard, risky: hard, dangerous: hard}\ndefaults: {safe: hard, risky: hard}\n"), 4,
     "this rule never gets the gate run, because safe actions never pass below hard"),
    (rule("gate: watch, actions: [update_x], when: action.confidence < 0.5", ""), 2,
     ("because the agent is 49% sure; below 70% a person decides; it waits for a person instead; change "
     "limits.confidence, or use hard")),
    (rule("gate: watch, actions: [delete_files], when: facts.count > 500", ""), 2,
     "touches 501 things; 100 or more wait for a person; it waits for a person instead; change limits.scale"),
    (rule("gate: run, actions: [frobnicate], agents: [bot]", "agents: {bot: {trusted: false}}\n"), 3,
     "never gets the gate run, because nothing is known of this action, and nobody vouches for where it comes from"),
    (rule("gate: ask", ""), 2, "ask is for questions, which an agent puts itself; use hard"),
    (rule("gate: hard, when: effect.risk >= 'dangerous'", ""), 2,
     'effect.risk is text, and >= compares its letters; write effect.risk in ["dangerous", "critical"]'),
    (rule("gate: hard, when: effect.risk == 'high'", ""), 2,
     'effect.risk is never "high"; known are safe, risky, dangerous, critical'),
    (rule("gate: hard, when: args.x == 1 && effect.reach == 'galaxy'", ""), 2, 'effect.reach is never "galaxy"'),
    (rule("gate: watch, when: facts.external == 0", ""), 2,
     "facts.external is always 0, because no organisation.domains says who is inside"),
    (rule("gate: hard, when: facts.count > 100 && facts.count < 50", ""), 2,
     '"facts.count > 100 && facts.count < 50" is never true, so the rule never matches'),
    (rule("gate: hard, when: false", ""), 2, '"false" is never true, so the rule never matches'),
    (rule("gate: hard, actions: [x], when: action.name == 'y'", ""), 2, "is never true, so the rule never matches"),
    (rule("gate: hard, when: facts.currency > 3", ""), 2,
     ("can never be evaluated, so the action always waits: the types do not fit: > cannot be used between a text and a "
     "whole number")),
    (rule("gate: hard, when: facts.count", ""), 2,
     '"facts.count" can never be evaluated, so the action always waits: it gives neither true nor false'),
    (rule("gate: hard, when: 'facts.unbounded ? 1 : facts.count'", ""), 2, "it gives neither true nor false"),
    (rule("gate: hard, when: facts.recipients", ""), 2, "it gives neither true nor false"),
    (rule("gate: hard, when: facts.cuont > 3", ""), 2, 'without it the action waits; did you mean "facts.count"?'),
    (("rules:\n  - {name: a, actions: [x, 'y*'], gate: hard}\n  - {name: b, actions: [z], gate: hard}\n"
     "  - {name: r, actions: [z, yes], gate: run}\n"), 4,
     'is never reached, because rules "b" and "a" above together match all of it; move it up or remove it'),
    (("rules:\n  - {name: a, when: facts.count > 3, gate: hard}\n"
     "  - {name: r, actions: [z], when: facts.count > 3, gate: run}\n"), 3, 'is never reached, because rule "a" above'),
    (rule("gate: forbid, quorum: 2", PEOPLE), 8, "quorum has no effect: what is forbidden never runs"),
    (rule("gate: soft, window: 5m, limit: 3h, actions: [x]", "actions: {x: {risk: risky}}\n"), 3,
     "limit has no effect on a soft gate, which ends with its window"),
    (rule("gate: soft, window: 5m, ladder: [{after: 10m, remind: true}], actions: [x]",
          "actions: {x: {risk: risky}}\n"), 3,
     "the step of the ladder after 10m is never reached: the window closes after 5m"),
    (rule("gate: hard, loops: 3", ""), 2, "loops has no effect without a ladder"),
    (rule("gate: hard, limit: never, at_end: deny", ""), 2, "at_end: deny never happens, because limit is never"),
    ("limits: {window: 10m}\n", 1, "limits.window has no effect: no rule and no default is soft"),
    ("limits: {time: never}\nat_end: deny\n", 2, "at_end: deny never happens, because limits.time is never"),
    (rule("gate: hard, quorum: 2", ""), 2, "quorum is 2, and there is no people: section, so any 2 users who can sign"),
    (rule("gate: hard, reviewers: ['rota:n'], quorum: 2",
          f"{PEOPLE}rotas:\n  n: {{weekly: [ann, bob, cy], from: '2026-01-05T09:00:00+00:00'}}\n"), 10,
     "quorum is 2, and rota:n never have so many on duty at one time, so it waits until others take over"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "says"), WARNED)
def test_a_rule_that_never_does_what_it_says_is_warned_about(
    assentry: Assentry, here: Path, text: str, line: int, says: str
) -> None:
    (here / "p.yaml").write_text(text)
    done = assentry("policy", "check", "p.yaml")
    assert done.out.startswith("p.yaml: OK (")
    found = [each for each in done.err.splitlines() if says in each]
    assert found, done.err
    assert f"p.yaml:{line}: " in found[0]
    assert 'rule "r": ' in found[0] or "rules:" not in text
    document = assentry("policy", "check", "p.yaml", "--json").json
    assert document["ok"]
    assert any(says in each for each in document["warnings"])
    assert "not OK, because of the warnings" in assentry("policy", "check", "--strict", "p.yaml", code=1).out
    assert not assentry("policy", "check", "--strict", "p.yaml", "--json", code=1).json["ok"]


GATES = [
    (0, "publish_draft", {}, [], "soft", "hard"),
    (1, "frobnicate", {}, [], "soft", "hard"),
    (4, "refund_order", {}, [], "run", "hard"),
    (6, "update_x", {}, ["--confidence", "0.3"], "watch", "hard"),
    (7, "delete_files", {"files": [f"{number}.tmp" for number in range(600)]}, [], "watch", "hard"),
    (8, "frobnicate", {}, ["--agent", "bot"], "run", "hard"),
]


@pytest.mark.parametrize(("which", "action", "args", "more", "written", "gate"), GATES)
def test_the_gate_does_what_the_warning_says(
    assentry: Assentry, here: Path, which: int, action: str, args: object, more: list[str], written: str, gate: str
) -> None:
    text, _, _ = WARNED[which]
    assert f"gate: {written}" in text
    (here / "p.yaml").write_text(text)
    command = ("policy", "explain", "p.yaml", "--action", action, "--args", json.dumps(args), *more, "--json")
    told = assentry(*command).json
    assert (told["rule"], told["gate"]) == ("r", gate)


def test_the_soft_gate_of_the_docs_is_soft(assentry: Assentry, here: Path) -> None:
    (text,) = [text for text in DOCUMENTED if "drafts can be taken back" in text]
    (here / "p.yaml").write_text(text)
    told = assentry("policy", "explain", "p.yaml", "--action", "publish_draft", "--json").json
    assert (told["rule"], told["gate"]) == ("publishing drafts", "soft")


@pytest.mark.parametrize(
    "text",
    [
        rule("gate: watch, actions: [update_x], when: action.confidence < 0.8", ""),
        rule("gate: watch, actions: [delete_files], when: facts.count > 50", ""),
        rule("""gate: watch, when: 'effect.risk in ["dangerous", "critical"]'""", ""),
        rule("gate: watch, when: facts.count * facts.count == 49", ""),
        rule("gate: hard, when: action.cost > 0.001 && action.cost < 0.01", ""),
        rule("gate: hard, when: action.confidence > 0.895 && action.confidence < 0.9", ""),
        rule("gate: hard, when: facts.bytes > 2000000000000", ""),
        rule("gate: hard, when: facts.amount > 1000000.5 && facts.amount < 1000000.504", ""),
        rule("gate: hard, when: facts.amount > 9007199254740993.0", ""),
        rule("gate: hard, when: action.cost >= 1.0e13", ""),
        rule("gate: hard, when: 'facts.unbounded ? true : facts.count > 3'", ""),
        rule("gate: watch, when: facts.count == 1e6 - 3.0", ""),
        rule("gate: soft, actions: [x], when: args.path.startsWith('/tmp')", "actions: {x: {risk: risky}}\n"),
        rule("gate: hard, actions: [send_email], when: effect.outside && !effect.money", ""),
        rule("gate: hard, actions: [tidy], when: effect.outside", "actions: {tidy: {reversible: true}}\n"),
        rule("gate: run, actions: [run_command]", ""),
        rule("gate: soft, window: 5m, ladder: [{after: 1m, remind: true}], actions: [x]",
             "actions: {x: {risk: risky}}\n"),
        rule("gate: hard, limit: never, at_end: stay", ""),
        "autonomy: cautious\nlimits: {window: 10m}\n",
    ],
)  # fmt: skip
def test_what_may_happen_is_not_warned_about(assentry: Assentry, here: Path, text: str) -> None:
    (here / "p.yaml").write_text(text)
    assert assentry("policy", "check", "--strict", "p.yaml").err == ""


CONDITIONS = [
    ("facts.count >", "column 14: the condition ends too early"),
    ("fact.count > 1", 'column 1: unknown name "fact.count"; did you mean facts.count?'),
    ("facts.count > 1 and facts.sudo", "column 17: write && instead of and"),
    ("effect.reversable", 'column 1: effect has no field "reversable"; did you mean effect.reversible?'),
    ("true > 3", "column 6: > cannot be used between true or false and a whole number"),
    ("size(facts.paths)", "the condition gives a whole number, not true or false; compare it"),
]


@pytest.mark.parametrize(("when", "says"), CONDITIONS)
def test_an_error_in_a_condition_is_one_plain_sentence(assentry: Assentry, here: Path, when: str, says: str) -> None:
    (here / "p.yaml").write_text(f"rules:\n  - name: r\n    gate: hard\n    when: {json.dumps(when)}\n")
    (line,) = assentry("policy", "check", "p.yaml", code=1).err.splitlines()
    assert f'p.yaml:4: rule "r": when: {says}' in line
    assert not re.search(r"<input>|INVALID_ARGUMENT|expecting|\^", line)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- name: r\n  gate: hard\n", "p.yaml:1: the policy is a list, not a mapping; these look like rules; write"),
        ("- a\n", "the policy is a list, not a mapping; write lines of the form `key: value`"),
        ("hello\n", 'the policy is "hello", not a mapping'),
        ("rules:\n\t- name: r\n", "p.yaml:2: not valid YAML: the line is indented with a tab; use spaces"),
        ("mode: enforce\nmode: observe\n", 'p.yaml:2: "mode" is set twice, first on line 1; remove one of them'),
        ("mode: \0PK\n", "p.yaml:1: not a text file: it contains the character U+0000; a policy is YAML or JSON"),
        ("people: {ann: {email: 'ann@'}}", 'ann\'s email is "ann@"; write one address such as ann@example.com'),
        ("people: {ann: {email: 'ann example.com'}}", 'ann\'s email is "ann example.com"; write one address'),
        ("people: {ann: {email: 12}}", 'ann\'s email is "12"; write one address such as ann@example.com'),
        ("people: {ann: {email: }}", "ann's email is empty; write one address such as ann@example.com, or remove"),
        ("people: {ann: {email: [a@b.example, c@b.example]}}", "ann's email is not a text; write one address"),
        ("people: {ann: {slack: 12}}", 'people.ann: unknown key "slack"; known are roles, teams, os_users, email'),
        ("people:\n  ann: {email: x@b.example}\n  bob: {email: X@B.example}\n",
         'p.yaml:3: "X@B.example" is the address of both ann and bob; each belongs to one person'),
        ("people: {ann: {os_users: 12}}", "ann's os_users is \"12\"; write a list"),
        ("rotas: {n: {weekly: [a], from: soon}}",
         'rota "n": from needs a date-time with a UTC offset, such as 2026-01-05T09:00:00+00:00; "soon" is not one'),
        ("self_review: maybe", "self_review must be allow or deny; deny is the safer choice"),
    ],
)  # fmt: skip
def test_what_is_not_a_policy_says_what_to_write(assentry: Assentry, here: Path, text: str, says: str) -> None:
    (here / "p.yaml").write_text(text)
    assert says in assentry("policy", "check", "p.yaml", code=1).err


@pytest.mark.parametrize(("text", "what"), [("", "is empty"), ("# soon\n", "sets nothing"), ("{}", "sets nothing")])
def test_a_file_that_sets_nothing_says_what_it_is_taken_as(
    assentry: Assentry, here: Path, text: str, what: str
) -> None:
    (here / "p.yaml").write_text(text)
    says = f"p.yaml:1: the file {what}, which is the same as no policy: autonomy balanced and no rules; write autonomy:"
    assert says in assentry("policy", "check", "p.yaml").err
    assert says in assentry("policy", "apply", "p.yaml").err
    assert load_policy(text) == load_policy("autonomy: balanced")


def test_a_file_of_bytes_is_said_to_be_no_text(assentry: Assentry, here: Path) -> None:
    (here / "p.yaml").write_bytes(b"\xff\xfe\x00PK")
    assert "it is not UTF-8 text; save it as YAML or JSON in UTF-8" in assentry("policy", "check", "p.yaml", code=1).err


DBAS = rule("gate: manual, actions: ['drop_*'], reviewers: [role:dba], quorum: 2",
            f"{PEOPLE}  me: {{os_users: [{os_user()}]}}\nagents: {{bot: {{owner: cy}}}}\n")  # fmt: skip


def test_explain_and_doctor_say_who_can_decide_by_name(assentry: Assentry, here: Path) -> None:
    (here / "p.yaml").write_text(DBAS)
    says = "needs 2 of role:dba: ann, bob (cy is excluded: owner of the agent)"
    command = ("policy", "explain", "p.yaml", "--action", "drop_table", "--agent", "bot")
    assert says in assentry(*command).out
    told = assentry(*command, "--json").json["deciders"]
    assert (told["able"], told["excluded"], told["enough"]) == (
        ["ann", "bob"], [{"name": "cy", "why": "owner of the agent"}], True
    )  # fmt: skip
    assentry("policy", "apply", "--yes", "p.yaml")
    findings = assentry("doctor", "--json", code=None).json["findings"]
    who = {each["says"]: each["ok"] for each in findings if each["area"] == "reviewers"}
    assert who[f'rule "r", agent "bot": {says}'] is True
    assert who['rule "r": needs 2 of role:dba: ann, bob, cy'] is True


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (rule("gate: hard, actions: ['drop_*'], reviewers: [role:dba], quorum: 9"),
         'rule "r": nobody can ever approve: needs 9 of role:dba: ann, bob, cy, so only 3 can decide'),
        (rule("gate: hard, actions: ['drop_*'], reviewers: ['rota:gone']", f"{PEOPLE}rotas:\n  gone: {OVER}\n"),
         'rule "r": nobody can ever approve: needs 1 of rota:gone: nobody'),
    ],
)  # fmt: skip
def test_an_active_policy_whose_quorum_cannot_be_met_still_judges_and_doctor_names_it(
    assentry: Assentry, agent: Agent, here: Path, text: str, says: str
) -> None:
    """As somebody applied it while it could be met, or with a version that did not look."""

    def entry(version: int, now: datetime) -> Entry:
        return Entry("policy.applied", now, "default", f"policy:{version}", "root", {"version": version})

    agent.gate._portal.run(agent.gate._store.apply_policy("default", text, "root", entry, None))
    findings = assentry("doctor", "--json", code=1).json["findings"]
    assert says in [each["says"] for each in findings if each["area"] == "reviewers" and each["ok"] is False]
    told = assentry("policy", "explain", "--action", "drop_table").out
    assert "as things are it cannot be approved" in " ".join(told.split())
    assert agent.asks("drop_table").candidate.verdict.rule == "r"


def test_what_nobody_can_complete_says_so_on_the_card_and_in_json(assentry: Assentry, agent: Agent, here: Path) -> None:
    (here / "p.yaml").write_text(f"people: {{ann: {{os_users: [{os_user()}]}}}}\nrules: [{{name: r, gate: hard}}]\n")
    assentry("policy", "apply", "--yes", "p.yaml")
    asked = agent.asks()
    says = (
        "nobody can complete this: needs 1 of everyone listed under people: nobody (ann is excluded: made the request)"
    )
    assert says in " ".join(assentry("show", asked.code).out.split())
    assert says in assentry("show", asked.code, "--json").json["request"]["warnings"][0]
    assert says in assentry("pending", "--json").json["requests"][0]["warnings"][0]
