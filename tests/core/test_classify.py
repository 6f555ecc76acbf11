"""What an action would do: the operator's word first, then the catalogue, then names; arguments may raise it."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assentry.core.action import Action, Basis, Declaration, Effect, Reach, Risk
from assentry.core.catalogue import CATALOGUE, Entry
from assentry.core.classify import FAMILY_EFFECTS, classify, profile
from assentry.core.declared import Said
from assentry.core.names import Family, split_name
from tests.core.values import classified

names = st.text(max_size=30) | st.lists(
    st.sampled_from(
        """get list delete create send pay run query update manage user file email secret payment and or frob
        verify download bulk production""".split()
    ),
    min_size=1,
    max_size=4,
).map("_".join)
descriptions = st.text(max_size=80) | st.sampled_from(
    ["Gets a thing and deletes it.", "Read-only.", "Permanently removes.", "Sends mail.", "Returns all, or drops them"]
)
values = st.sampled_from(
    [
        "all",
        "rm -rf /",
        "ls",
        "DELETE FROM t",
        "select 1",
        "prod",
        "~/.ssh/id_rsa",
        "a@evil.org",
        "list",
        "delete",
        "GET",
    ]
)
arguments = st.dictionaries(
    st.sampled_from("command sql query path env to action method amount ids code otp save_dir body filter".split()),
    values | st.integers(-5, 500) | st.lists(values, max_size=3),
    max_size=4,
)
schemas = st.none() | st.lists(st.sampled_from("command sql path delete code query".split()), max_size=3).map(
    lambda keys: {"properties": {key: {} for key in keys}}
)
declarations = st.builds(
    Declaration,
    reversible=st.none() | st.booleans(),
    reach=st.none() | st.sampled_from(Reach),
    outside=st.none() | st.booleans(),
    money=st.none() | st.booleans(),
    risk=st.none() | st.sampled_from(Risk),
)


def of(name: str, args: dict[str, Any] | None = None, **more: Any) -> Any:
    domains = more.pop("domains", ())
    return classified(Action(name, args or {}, **more), domains=domains)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_catalogue_entry_classifies_to_its_own_answers(entry: Entry) -> None:
    pairs = ((verb, noun) for verb in sorted(entry.verbs) for noun in sorted(entry.nouns))
    name = next(f"{verb}_{noun}" for verb, noun in pairs if split_name(f"{verb}_{noun}").verbs == (verb,))
    found = of(name)
    assert found.effect == entry.effect
    assert found.risk is entry.risk
    assert found.basis is Basis.CATALOGUE
    assert entry.because in found.reasons[0]


@pytest.mark.parametrize(
    ("name", "is_read", "reversible"),
    [
        ("search_emails", True, True),
        ("list_deleted_files", True, True),
        ("get_or_create_user", False, True),
        ("draft_email", False, True),
        ("send_draft", False, False),
        ("update_widget", False, True),
        ("reset_widget", False, False),
        ("run_query", True, True),
        ("execute_sql", False, False),
        ("manage_widgets", False, False),
        ("bulk_update_widgets", False, False),
        ("write_config", False, False),
        ("GmailSendEmail", False, False),
        ("issue_read", True, True),
        ("thermostat_status", True, True),
    ],
)
def test_names_are_judged_by_what_they_mean(name: str, is_read: bool, reversible: bool) -> None:
    found = of(name)
    assert found.effect.is_read is is_read
    assert found.effect.reversible is reversible


@pytest.mark.parametrize("trusted", [True, False])
def test_every_assessment_gives_its_reasons(trusted: bool) -> None:
    for name in ("frob", "get_x", "delete_file", "send_email"):
        reasons = of(name, {"path": "~/.ssh/id_rsa"}, trusted=trusted).reasons
        assert reasons
        assert all(reason[0].isupper() and reason.endswith(".") for reason in reasons)


def test_the_unknown_is_risky_and_from_a_stranger_it_waits() -> None:
    ours, foreign = of("frobnicate"), of("frobnicate", trusted=False)
    assert ours.basis is foreign.basis is Basis.UNKNOWN
    assert ours.risk is Risk.RISKY
    assert foreign.risk is Risk.DANGEROUS


def test_a_description_speaks_where_the_name_is_silent() -> None:
    found = of("midpoint", description="Calculates the point between two others.")
    assert found.effect.is_read
    assert found.basis is Basis.NAMES


def test_a_strangers_harmless_name_is_not_proof() -> None:
    found = of("get_weather", trusted=False)
    assert found.effect.is_read
    assert found.risk is Risk.RISKY
    assert found.basis is Basis.NAMES


@pytest.mark.parametrize(
    ("description", "parameters"),
    [
        ("Gets a file and deletes it afterwards.", ()),
        ("Returns the record, or removes it when stale.", ()),
        ("", ("command",)),
        ("", ("code",)),
        ("", ("id", "delete")),
    ],
)
def test_signs_against_a_strangers_reading_name_are_seen(description: str, parameters: tuple[str, ...]) -> None:
    schema = {"properties": {name: {} for name in parameters}}
    found = of("get_widget", description=description, schema=schema, trusted=False)
    assert not found.effect.reversible
    assert found.risk >= Risk.DANGEROUS


@pytest.mark.parametrize(
    "description", ["Gets a file. Does not delete anything.", "Get widgets; never sends mail.", "Read-only lookup."]
)
def test_a_denied_verb_is_no_sign(description: str) -> None:
    assert of("get_widget", description=description, trusted=False).effect.is_read


def test_a_description_that_says_for_good_raises_a_change() -> None:
    assert not of("archive_widget", description="Permanently archives a widget.").effect.reversible


def test_the_operators_word_comes_first() -> None:
    declared = Declaration(reversible=True, reach=Reach.LOCAL, outside=False, money=False)
    found = of("delete_everything", declared=declared)
    assert found.effect == Effect(reversible=True, reach=Reach.LOCAL)
    assert found.basis is Basis.DECLARED


def test_a_partial_declaration_fills_only_what_it_answers() -> None:
    found = of("delete_file", declared=Declaration(outside=True))
    assert found.effect == Effect(reversible=False, reach=Reach.LOCAL, outside=True)


def test_a_declared_risk_stands_until_an_argument_alarms() -> None:
    declared = Declaration(risk=Risk.SAFE)
    assert of("read_notes", {"path": "a.md"}, declared=declared).risk is Risk.SAFE
    assert of("read_notes", {"path": "~/.ssh/id_rsa"}, declared=declared).risk is Risk.CRITICAL


@pytest.mark.parametrize(
    ("name", "args", "risk"),
    [
        ("run_query", {"sql": "select 1"}, Risk.SAFE),
        ("run_query", {"sql": "delete from t where id = 1"}, Risk.DANGEROUS),
        ("run_query", {"sql": "update t set a = 1 where id = 1"}, Risk.RISKY),
        ("execute_sql", {"sql": "select 1"}, Risk.SAFE),
        ("run_command", {"command": "git status"}, Risk.SAFE),
        ("run_command", {"command": "make"}, Risk.DANGEROUS),
        ("run_command", {"command": "cat ~/.ssh/id_rsa"}, Risk.CRITICAL),
        ("get_report", {"command": "rm -rf /"}, Risk.DANGEROUS),
        ("read_file", {"path": "a.txt"}, Risk.SAFE),
        ("read_file", {"path": "config/.env"}, Risk.CRITICAL),
        ("http_request", {"method": "GET", "url": "https://x.org"}, Risk.SAFE),
        ("http_request", {"method": "DELETE", "url": "https://x.org"}, Risk.DANGEROUS),
        ("manage_widgets", {"action": "list"}, Risk.DANGEROUS),
        ("manage_widgets", {"action": "delete"}, Risk.DANGEROUS),
        ("manage_widgets", {"action": "list", "method": "delete"}, Risk.DANGEROUS),
        ("run_command", {"command": "find", "args": ["-delete"]}, Risk.DANGEROUS),
        ("run_command", {"command": "ls", "timeout": 5}, Risk.SAFE),
        ("update_widget", {"ids": "all"}, Risk.DANGEROUS),
        ("send_crypto", {"amount": 3, "to": "x"}, Risk.CRITICAL),
        ("update_widget", {"action": "delete"}, Risk.DANGEROUS),
        ("delete_widget", {"env": "production"}, Risk.CRITICAL),
        ("update_widget", {"env": "production"}, Risk.DANGEROUS),
        ("get_widget", {"env": "production"}, Risk.SAFE),
        ("download_file", {"url": "https://x.org/a", "save_dir": "/tmp"}, Risk.RISKY),
        ("verify_account", {"otp": "123456"}, Risk.RISKY),
    ],
)
def test_arguments_decide_what_a_name_leaves_open(name: str, args: dict[str, Any], risk: Risk) -> None:
    assert of(name, args).risk is risk


def test_reading_credentials_stays_a_read_and_is_critical() -> None:
    found = of("read_file", {"path": "~/.aws/credentials"})
    assert found.effect.is_read
    assert found.risk is Risk.CRITICAL


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("run_command", {"command": "ls"}),
        ("execute_sql", {"sql": "select 1"}),
        ("http_request", {"method": "GET"}),
        ("manage_widgets", {"action": "list"}),
        ("delete_files", {"path": "a", "dry_run": True}),
    ],
)
def test_arguments_lower_nothing_for_a_stranger(name: str, args: dict[str, Any]) -> None:
    assert of(name, args, trusted=False).risk >= Risk.DANGEROUS


def test_guests_from_outside_turn_an_event_into_one_that_leaves() -> None:
    inside = of("create_event", {"attendees": ["a@example.com"]}, domains=("example.com",))
    outside = of("create_event", {"attendees": ["a@evil.org"]}, domains=("example.com",))
    assert inside.risk is Risk.RISKY
    assert outside.effect.outside
    assert outside.risk is Risk.DANGEROUS


def test_mailing_a_secret_is_critical() -> None:
    assert of("send_email", {"to": "a@b.org", "body": "AKIA" + "IOSFODNN7EXAMPLE"}).risk is Risk.CRITICAL


def test_a_call_without_facts_costs_nothing_new() -> None:
    known = profile("get_widget")
    assert classify(known, {"colour": "red"}) is known.base


def test_every_family_of_verbs_has_an_effect() -> None:
    assert FAMILY_EFFECTS.keys() == set(Family)


@given(names, descriptions, schemas, arguments, st.booleans())
def test_classification_is_total(
    name: str, description: str, schema: dict[str, Any] | None, args: dict[str, Any], trusted: bool
) -> None:
    found = of(name, args, description=description, schema=schema, trusted=trusted, domains=("example.com",))
    assert found.risk >= found.effect.risk
    assert found.reasons


answers = st.sampled_from([None, True, False])
words = st.builds(
    Declaration,
    reversible=answers,
    reach=st.sampled_from([None, *Reach]),
    outside=answers,
    money=answers,
    risk=st.sampled_from([None, None, *Risk]),
)


@example("get_secret", Declaration(outside=True), Declaration(outside=False))
@example("get_secret", Declaration(reversible=False), Declaration(reversible=True))
@given(names, words, words)
def test_what_somebody_claims_never_makes_it_milder(name: str, claimed: Declaration, declared: Declaration) -> None:
    plain = of(name, trusted=False, declared=declared)
    worse = of(name, trusted=False, declared=declared, claimed=claimed)
    assert worse.risk >= plain.risk
    assert worse.effect.reversible <= plain.effect.reversible
    assert worse.effect.reach >= plain.effect.reach
    ours, foreign = (of(name, trusted=each, declared=declared, claimed=claimed) for each in (True, False))
    assert foreign.risk >= ours.risk


@example("GetAndSecret", "", None, {})
@given(names, descriptions, schemas, arguments)
def test_a_stranger_is_never_judged_milder_than_our_own(
    name: str, description: str, schema: dict[str, Any] | None, args: dict[str, Any]
) -> None:
    ours = of(name, args, description=description, schema=schema)
    foreign = of(name, args, description=description, schema=schema, trusted=False)
    assert foreign.risk >= ours.risk
    assert foreign.effect.reach >= ours.effect.reach
    assert foreign.effect.reversible <= ours.effect.reversible


@given(names, arguments, declarations, st.booleans())
def test_what_is_declared_holds_and_is_never_undercut(
    name: str, args: dict[str, Any], declared: Declaration, trusted: bool
) -> None:
    found = of(name, args, declared=declared, trusted=trusted)
    for answer in ("reversible", "reach", "outside", "money"):
        said = getattr(declared, answer)
        assert said is None or getattr(found.effect, answer) == said
    assert declared.risk is None or found.risk >= declared.risk
    assert declared.risk is not None or found.risk >= found.effect.risk


@given(names, arguments, st.booleans())
def test_facts_never_lower_what_a_stranger_is_judged_by(name: str, args: dict[str, Any], money: bool) -> None:
    known = profile(name, said=Said(Declaration(money=money or None), trusted=False))
    assert classify(known, args).risk >= known.base.risk


@pytest.mark.parametrize("stricter", [{"money": True}, {"reach": Reach.SERVICE}, {"outside": True}])
def test_saying_that_a_strangers_read_does_more_never_makes_it_milder(stricter: dict[str, Any]) -> None:
    args = {"amount": 5000, "currency": "EUR"}
    for name in ("export_files", "get_report", "search_invoice"):
        alone = classify(profile(name, said=Said(trusted=False)), args)
        said = classify(profile(name, said=Said(policy=Declaration(**stricter), trusted=False)), args)
        assert said.risk >= alone.risk
