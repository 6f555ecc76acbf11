"""Whose word counts about an action: code, policy, source, catalogue and name, in every combination."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.action import NOTHING_DECLARED, QUESTIONS, Assessment, Declaration, Reach, Risk
from assentry.core.classify import classify, profile
from assentry.core.declared import Said, stricter_answer, who_said

KNOWN, GUESSED, MYSTERY = "delete_file", "send_frobs", "frobnicate"
NAMES = (KNOWN, GUESSED, MYSTERY, "get_widget")
answers = st.sampled_from([None, True, False])
declarations = st.builds(
    Declaration,
    reversible=answers,
    reach=st.sampled_from([None, *Reach]),
    outside=answers,
    money=answers,
    risk=st.sampled_from([None, None, *Risk]),
)


def of(name: str, said: Said) -> Assessment:
    return profile(name, said=said).base


NO, YES = Declaration(reversible=False), Declaration(reversible=True)
SAFE, RISKY, CRITICAL = (Declaration(risk=risk) for risk in (Risk.SAFE, Risk.RISKY, Risk.CRITICAL))
MAIL = Declaration(reversible=False, outside=True)
ALL_MILD = Declaration(reversible=True, reach=Reach.NOTHING, outside=False, money=False)


@pytest.mark.parametrize(
    ("name", "said", "reversible", "risk"),
    [
        # The code alone, the policy alone, both at once.
        ("sync_frobs", Said(NO), False, Risk.DANGEROUS),
        ("sync_frobs", Said(policy=NO), False, Risk.DANGEROUS),
        ("sync_frobs", Said(NO, YES), False, Risk.DANGEROUS),
        ("sync_frobs", Said(YES, NO), False, Risk.DANGEROUS),
        ("sync_frobs", Said(NO, YES, instead_of_code=True), True, Risk.RISKY),
        ("sync_frobs", Said(YES, NO, instead_of_code=True), False, Risk.DANGEROUS),
        # What one leaves open the other fills, before the catalogue and the name.
        ("delete_file", Said(Declaration(outside=False), YES), True, Risk.RISKY),
        ("delete_file", Said(Declaration(outside=False), RISKY), False, Risk.RISKY),
        # A risk outright: the higher of two, and never below what the other's answers come to.
        ("send_email", Said(CRITICAL, SAFE), False, Risk.CRITICAL),
        ("send_email", Said(SAFE, CRITICAL), False, Risk.CRITICAL),
        ("send_email", Said(CRITICAL, SAFE, instead_of_code=True), False, Risk.SAFE),
        ("send_email", Said(MAIL, SAFE), False, Risk.DANGEROUS),
        ("send_email", Said(MAIL, SAFE, instead_of_code=True), False, Risk.SAFE),
        ("send_email", Said(SAFE, Declaration(money=True)), False, Risk.CRITICAL),
        ("send_email", Said(SAFE, Declaration(money=False)), False, Risk.SAFE),
        ("send_email", Said(Declaration(reversible=False, risk=Risk.RISKY)), False, Risk.RISKY),
        ("send_email", Said(CRITICAL, YES, instead_of_code=True), True, Risk.CRITICAL),
        ("send_email", Said(CRITICAL, ALL_MILD, instead_of_code=True), True, Risk.SAFE),
        # Whoever offers it: believed below the operator where trusted, and only ever raising where not.
        ("delete_file", Said(source=SAFE), False, Risk.SAFE),
        ("delete_file", Said(source=SAFE, trusted=False), False, Risk.DANGEROUS),
        ("delete_file", Said(NO, source=SAFE), False, Risk.DANGEROUS),
        ("sync_frobs", Said(policy=YES, source=NO), True, Risk.RISKY),
        ("sync_frobs", Said(policy=NO, source=YES), False, Risk.DANGEROUS),
        ("get_widget", Said(source=CRITICAL, trusted=False), True, Risk.CRITICAL),
    ],
)
def test_examples_of_whose_word_counts(name: str, said: Said, reversible: bool, risk: Risk) -> None:
    found = of(name, said)
    assert (found.effect.reversible, found.risk) == (reversible, risk)


@given(st.sampled_from(NAMES), declarations, declarations, declarations, st.booleans())
def test_the_policy_never_loosens_what_the_code_declares_unless_it_says_so(
    name: str, code: Declaration, policy: Declaration, source: Declaration, trusted: bool
) -> None:
    both = of(name, Said(code, policy, source=source, trusted=trusted))
    for question in QUESTIONS[:4]:
        mine, theirs, held = (getattr(each, question) for each in (code, policy, both.effect))
        if mine is not None and theirs is not None:
            assert held == stricter_answer(question, mine, theirs)
        elif mine is not None or theirs is not None:
            assert held == (theirs if mine is None else mine)
    for word in (code.risk, policy.risk):
        assert word is None or both.risk >= word
    for one, other in ((code, policy), (policy, code)):
        strict = one.reversible is False or one.outside or one.money or one.reach not in (None, Reach.NOTHING)
        if strict and one.risk is None and other.risk is not None:
            assert both.risk >= both.effect.risk


@given(st.sampled_from(NAMES), declarations, declarations)
def test_only_answers_that_stand_instead_of_the_code_replace_it(
    name: str, code: Declaration, policy: Declaration
) -> None:
    found = of(name, Said(code, policy, instead_of_code=True))
    for question in QUESTIONS[:4]:
        theirs, mine = getattr(policy, question), getattr(code, question)
        if theirs is not None or mine is not None:
            assert getattr(found.effect, question) == (mine if theirs is None else theirs)
    if policy.risk is not None:
        assert found.risk is policy.risk


@given(st.sampled_from(NAMES), declarations, declarations, st.booleans())
def test_more_words_from_a_stranger_never_make_it_milder(
    name: str, policy: Declaration, claim: Declaration, instead: bool
) -> None:
    plain = of(name, Said(policy=policy, instead_of_code=instead, trusted=False))
    worse = of(name, Said(policy=policy, instead_of_code=instead, source=claim, trusted=False))
    assert worse.risk >= plain.risk
    assert worse.effect.reversible <= plain.effect.reversible
    assert worse.effect.reach >= plain.effect.reach
    assert worse.effect.outside >= plain.effect.outside
    assert worse.effect.money >= plain.effect.money


@given(st.sampled_from(NAMES), declarations, declarations, declarations, st.booleans(), st.booleans())
def test_every_answer_is_told_with_whether_it_counts(
    name: str, code: Declaration, policy: Declaration, source: Declaration, trusted: bool, instead: bool
) -> None:
    said = Said(code, policy, instead, "because", source, trusted)
    found = of(name, said)
    given_by = {"code": code, "policy": policy, "source": source}
    told = {(word.by.value, word.about): word for word in found.words}
    for (speaker, declaration), question in product(given_by.items(), QUESTIONS):
        answer = getattr(declaration, question)
        word = told.pop((speaker, question), None)
        assert (word is None) == (answer is None)
        if word is not None and word.counts:
            held = found.risk if question == "risk" else getattr(found.effect, question)
            assert answer == held
    assert not told
    asked = {word.about for word in found.words}
    assert len(who_said(found.words)) == len(asked)
    for sentence in who_said(found.words):
        assert ("not counted" in sentence or "instead of" in sentence) == any(
            not word.counts
            for word in found.words
            if sentence in who_said([each for each in found.words if each.about == word.about])
        )


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (Said(NO), "can be undone: no, says the code"),
        (Said(NO, NO), "can be undone: no, say the code and the policy"),
        (Said(NO, YES), "can be undone: no, says the code; the policy says yes, not counted"),
        (Said(YES, NO), "can be undone: no, says the policy; the code says yes, not counted"),
        (
            Said(NO, YES, instead_of_code=True, because="kept a year"),
            "can be undone: yes, says the policy (kept a year) instead of the code, which says no",
        ),
        (Said(policy=SAFE), "risk level: safe, says the policy"),
        (Said(source=NO, trusted=False), "can be undone: no, says whoever offers it"),
        (Said(source=YES, trusted=False), "can be undone: whoever offers it says yes, not counted"),
    ],
)
def test_who_said_what_reads_plainly(said: Said, sentence: str) -> None:
    assert who_said(of("sync_frobs", said).words) == (sentence,)


def test_a_risk_below_the_answers_of_the_code_is_told_as_not_counted() -> None:
    assert who_said(of("send_email", Said(NO, SAFE)).words) == (
        "can be undone: no, says the code",
        "risk level: the policy says safe, not counted: the answers come to more",
    )


def test_nothing_declared_says_nothing() -> None:
    assert of("sync_frobs", Said()).words == ()
    assert NOTHING_DECLARED.is_empty


def test_a_stricter_answer_never_takes_away_the_least_risk_that_is_known() -> None:
    for name in ("get_secret", "read_password", "disable_mfa", "chmod"):
        plain = profile(name).base.risk
        for answer in ({"outside": True}, {"money": True}, {"reversible": False}):
            assert profile(name, said=Said(code=Declaration(**answer))).base.risk >= plain, (name, answer)


def test_a_strangers_claim_takes_away_nothing_that_the_arguments_show() -> None:
    args = {"amount": 250000, "currency": "EUR", "to_iban": "DE00"}
    plain = classify(profile("get_payment", said=Said(trusted=False)), args)
    for claim in ({"reach": Reach.SERVICE}, {"money": True}, {"reversible": True}):
        claimed = Said(trusted=False, source=Declaration(**claim))
        assert classify(profile("get_payment", said=claimed), args).risk >= plain.risk, claim
