"""The catalogue is complete, unambiguous, and says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import Reach, Risk
from assentry.core.catalogue import CATALOGUE, Entry, find_entry
from assentry.core.names import VERBS, split_name

AREAS = {
    "files",
    "shell",
    "web",
    "mail",
    "chat",
    "calendar",
    "records",
    "databases",
    "cloud",
    "deployments",
    "version control",
    "payments",
    "credentials",
    "users and permissions",
}


def named(entry: Entry) -> list[str]:
    """The names made of one verb and one noun of the entry that can be read in only one way."""
    pairs = [(verb, noun) for verb in sorted(entry.verbs) for noun in sorted(entry.nouns)]
    return [f"{verb}_{noun}" for verb, noun in pairs if split_name(f"{verb}_{noun}").verbs == (verb,)]


def test_there_are_entries_for_every_area() -> None:
    assert len(CATALOGUE) >= 60
    assert {entry.area for entry in CATALOGUE} == AREAS


def test_no_two_entries_share_a_name() -> None:
    assert len({(entry.area, entry.name) for entry in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_entry_says_why_in_one_sentence(entry: Entry) -> None:
    assert entry.because[0].isupper()
    assert entry.because.endswith(".")
    assert len(entry.because) > 20


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_entry_uses_verbs_that_names_can_have(entry: Entry) -> None:
    assert entry.verbs <= VERBS.keys()
    assert named(entry)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_entry_is_found_by_each_of_its_verbs_and_nouns(entry: Entry) -> None:
    for name in named(entry):
        found = find_entry(name)
        assert found is not None, name
        assert (found.effect, found.risk) == (entry.effect, entry.risk), name


@pytest.mark.parametrize("entry", [entry for entry in CATALOGUE if entry.short], ids=lambda entry: entry.name)
def test_every_short_name_leads_to_its_entry(entry: Entry) -> None:
    assert all(find_entry(short) is entry for short in entry.short)


def test_no_two_entries_disagree_about_a_verb_with_a_noun() -> None:
    seen: dict[tuple[str, str], Entry] = {}
    for entry in CATALOGUE:
        for pair in [(verb, noun) for verb in entry.verbs for noun in entry.nouns]:
            other = seen.setdefault(pair, entry)
            assert (other.effect, other.risk) == (entry.effect, entry.risk), (pair, other.name, entry.name)


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("get_secret_value", Risk.CRITICAL),
        ("ReadPassword", Risk.CRITICAL),
        ("list_secrets", Risk.RISKY),
        ("delete_file", Risk.DANGEROUS),
        ("send_email", Risk.DANGEROUS),
        ("draft_email", Risk.RISKY),
        ("send_draft", Risk.DANGEROUS),
        ("search_emails", Risk.SAFE),
        ("make_payment", Risk.CRITICAL),
        ("create_branch", Risk.RISKY),
        ("terminate_instance", Risk.CRITICAL),
        ("disable_mfa", Risk.CRITICAL),
        ("export_customers", Risk.DANGEROUS),
    ],
)
def test_well_known_actions_have_the_risk_people_expect(name: str, risk: Risk) -> None:
    found = find_entry(name)
    assert found is not None
    assert found.risk is risk


def test_the_least_risk_is_only_given_where_the_answers_are_milder() -> None:
    assert all(entry.least is Risk.SAFE or entry.least >= entry.effect.risk for entry in CATALOGUE)


def test_whatever_only_looks_reaches_nothing() -> None:
    assert all(entry.effect.reach is Reach.NOTHING for entry in CATALOGUE if entry.name.startswith("look at"))


def test_a_short_name_at_the_end_does_not_hide_the_verb_before_it() -> None:
    found = find_entry("delete_web_search")
    assert found is None or not found.effect.is_read


def test_a_short_name_is_known_inside_a_namespace() -> None:
    found = find_entry("tools.bash")
    assert found is not None
    assert found.name == "run a command"


def test_what_the_catalogue_does_not_know_is_not_found() -> None:
    assert find_entry("frobnicate_widget") is None


@given(st.text())
def test_looking_up_any_text_is_safe(name: str) -> None:
    assert find_entry(name) is None or find_entry(name) in CATALOGUE
