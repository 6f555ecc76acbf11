"""What each event makes of a request, and what it never makes of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from assentry.core.action import Fact
from assentry.core.advance import LEGAL, advance, opened, phrase
from assentry.core.decision import (
    Answer,
    Approve,
    AskUndo,
    Begin,
    BeginUndo,
    Cancel,
    Choose,
    Decided,
    Deny,
    Fail,
    Finding,
    Finish,
    Freeze,
    Modify,
    Opinion,
    Overdue,
    Reconcile,
    Renew,
    Reviewed,
    Revise,
    Seen,
    Thaw,
)
from assentry.core.request import Executor, Kind, Option, Question, Review, State
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum, Rung
from assentry.errors import (
    AlreadyDecided,
    ConfirmationNeeded,
    Conflict,
    InvalidDecision,
    LeaseLost,
    PermitMismatch,
    StaleRequest,
)
from tests.core.values import HOUR, LEASE, NOON, ask, candidate


def open_request(what=None, **more):
    return opened(ask(what, **more), NOON, worker="w1", lease=LEASE).request


def move(request, event, now=NOON):
    change = advance(request, event, now)
    assert change is not None
    assert change.request.version == request.version + 1
    assert change.entries or isinstance(event, Renew | Overdue)
    return change.request


def approved(what=None, by="alice", **more):
    return move(open_request(what, **more), Decided(Approve(), by))


def running(what=None, **more):
    request = approved(what, **more)
    return move(request, Begin("w1", LEASE, request.candidate.permit_digest))


@pytest.mark.parametrize(
    ("gate", "state"),
    [
        (GateKind.WATCH, State.RUNNING),
        (GateKind.SOFT, State.PENDING),
        (GateKind.HARD, State.PENDING),
        (GateKind.MANUAL, State.PENDING),
        (GateKind.FORBID, State.REFUSED),
    ],
)
def test_a_request_opens_where_its_verdict_says(gate, state):
    assert open_request(candidate(gate)).state is state


def test_a_watched_call_for_a_worker_is_approved_but_not_running():
    request = open_request(candidate(GateKind.WATCH), executor=Executor.WORKER)
    assert request.state is State.APPROVED
    assert request.permit.used_at is None


def test_an_approval_gives_a_permit_for_exactly_the_bytes_shown_and_it_works_once():
    request = running()
    assert request.state is State.RUNNING
    assert request.permit.digest == request.candidate.permit_digest
    with pytest.raises(PermitMismatch, match="at most once"):
        advance(request, Begin("w2", LEASE, request.candidate.permit_digest), NOON)


def test_nothing_begins_under_a_permit_that_has_expired():
    request = running(idempotent=True)
    lost = move(request, Overdue(), NOON + 2 * LEASE)
    late = request.permit.expires_at
    with pytest.raises(PermitMismatch, match="expired"):
        advance(lost, Begin("w2", LEASE, request.candidate.permit_digest), late)
    assert move(lost, Begin("w2", LEASE, request.candidate.permit_digest), late - HOUR).state is State.RUNNING


def test_other_bytes_than_those_approved_never_begin():
    with pytest.raises(PermitMismatch):
        advance(approved(), Begin("w1", LEASE, "another digest"), NOON)


def test_approving_what_has_changed_since_it_was_shown_is_refused():
    with pytest.raises(StaleRequest, match="look at it again"):
        advance(open_request(), Decided(Approve(), "alice", seen_digest="older"), NOON)


def test_the_first_decision_wins_and_the_second_hears_who_and_when():
    denied = move(open_request(), Decided(Deny("too many"), "alice"))
    with pytest.raises(AlreadyDecided, match="already denied by alice 40 s ago") as conflict:
        advance(denied, Decided(Approve(), "bob"), NOON + timedelta(seconds=40))
    assert conflict.value.by == "alice"


def test_a_denial_without_a_reason_is_no_denial():
    with pytest.raises(InvalidDecision, match="reason"):
        advance(open_request(), Decided(Deny("  "), "alice"), NOON)


def test_a_modification_voids_earlier_votes_and_is_what_runs():
    two = Quorum(2)
    request = move(open_request(candidate(quorum=two)), Decided(Approve(), "alice"))
    assert request.state is State.PENDING
    other = candidate(args={"files": ["a"]}, quorum=two)
    request = move(request, Decided(Modify(other), "bob"))
    assert request.state is State.PENDING
    assert [vote.by for vote in request.votes] == ["bob"]
    request = move(request, Decided(Approve(), "alice"))
    assert request.state is State.APPROVED
    assert request.permit.digest == other.permit_digest


def test_a_modification_by_somebody_whose_word_does_not_count_for_it_stays_pending():
    riskier = candidate(GateKind.MANUAL, args={"files": ["*"]})
    request = move(open_request(), Decided(Modify(riskier), "alice", counts=False))
    assert request.state is State.PENDING
    assert request.votes == ()
    assert request.candidate is riskier


def test_two_votes_of_one_person_are_one():
    request = move(open_request(candidate(quorum=Quorum(2))), Decided(Approve(), "alice"))
    assert move(request, Decided(Approve(), "alice")).state is State.PENDING


def test_a_required_role_must_be_among_those_who_approved():
    request = move(open_request(candidate(quorum=Quorum(1, ("cfo",)))), Decided(Approve(), "alice", roles=("dev",)))
    assert request.state is State.PENDING
    assert move(request, Decided(Approve(), "carol", roles=("cfo",))).state is State.APPROVED


def test_one_denial_ends_it_whatever_was_approved_before():
    request = move(open_request(candidate(quorum=Quorum(3))), Decided(Approve(), "alice"))
    request = move(request, Decided(Deny("no"), "bob"))
    assert request.state is State.DENIED


def test_a_critical_action_wants_its_target_typed():
    what = candidate(GateKind.MANUAL, facts=(Fact("count", 847, "847 files"),))
    assert phrase(what) == "delete_files 847"
    for typed in ("", "yes", "delete_files", "DELETE_FILES 847"):
        with pytest.raises(ConfirmationNeeded, match="847"):
            advance(open_request(what), Decided(Approve(), "alice", confirm=typed), NOON)
    assert move(open_request(what), Decided(Approve(), "alice", confirm=" delete_files 847 ")).state is State.APPROVED


def test_what_policy_forbids_cannot_be_chosen_or_modified_into():
    with pytest.raises(InvalidDecision, match="forbids"):
        advance(open_request(), Decided(Modify(candidate(GateKind.FORBID, args={"x": 1})), "alice"), NOON)


def test_choosing_an_option_approves_its_bytes_and_cancel_runs_nothing():
    other = candidate(args={"files": ["a"]})
    options = (Option("fewer", "one stays", other), Option("cancel", "nothing changes", None))
    chosen = move(open_request(options=options), Decided(Choose(0, other), "alice"))
    assert (chosen.state, chosen.chosen, chosen.permit.digest) == (State.APPROVED, 0, other.permit_digest)
    cancelled = move(open_request(options=options), Decided(Choose(1, None), "alice"))
    assert (cancelled.state, cancelled.permit) == (State.DENIED, None)
    assert "cancel" in cancelled.reason


def test_a_question_is_answered_not_approved():
    request = open_request(candidate(GateKind.ASK), kind=Kind.QUESTION, question=Question("which?"))
    with pytest.raises(InvalidDecision, match="question"):
        advance(request, Decided(Approve(), "alice"), NOON)
    assert move(request, Decided(Answer("the newer"), "alice")).answer == "the newer"
    with pytest.raises(InvalidDecision, match="approve or deny"):
        advance(open_request(), Decided(Answer("x"), "alice"), NOON)


def test_sending_back_keeps_the_instructions_and_runs_nothing():
    request = move(open_request(), Decided(Revise("shorter, please"), "alice"))
    assert (request.state, request.reason, request.permit) == (State.REVISED, "shorter, please", None)


@pytest.mark.parametrize("gate", [GateKind.HARD, GateKind.MANUAL])
@pytest.mark.parametrize("at_end", list(AtEnd))
@pytest.mark.parametrize("reversible", [True, False])
def test_silence_never_approves_a_hard_or_manual_gate(gate, at_end, reversible):
    request = open_request(candidate(gate, reversible=reversible, ladder=Ladder(limit=HOUR, at_end=at_end)))
    request = move(request, Seen("alice"))
    after = move(request, Overdue(), NOON + 2 * HOUR)
    assert after.state in (State.EXPIRED, State.PENDING)
    assert after.permit is None


def test_a_decision_after_the_end_comes_too_late():
    request = open_request(candidate(ladder=Ladder(limit=HOUR)))
    after = move(request, Decided(Approve(), "alice"), NOON + HOUR)
    assert (after.state, after.permit) == (State.EXPIRED, None)


def test_a_soft_window_starts_when_it_was_seen_and_then_proceeds_if_reversible():
    soft = Ladder(limit=timedelta(minutes=5), at_end=AtEnd.PROCEED)
    request = open_request(candidate(GateKind.SOFT, reversible=True, ladder=soft))
    assert advance(request, Overdue(), NOON + HOUR) is None
    seen = move(request, Seen("alice"), NOON + HOUR)
    assert seen.ends_at == NOON + HOUR + timedelta(minutes=5)
    after = move(seen, Overdue(), NOON + 2 * HOUR)
    assert (after.state, after.word, after.review) == (State.APPROVED, "silence", Review.OPEN)


@pytest.mark.parametrize("what", [{"reversible": False}, {"reversible": True, "known": False}])
def test_a_soft_window_on_something_irreversible_or_unknown_expires(what):
    soft = Ladder(limit=HOUR, at_end=AtEnd.PROCEED)
    seen = move(open_request(candidate(GateKind.SOFT, ladder=soft, **what)), Seen("alice"))
    assert move(seen, Overdue(), NOON + 2 * HOUR).state is State.EXPIRED


def test_a_question_ends_in_its_declared_best_guess_or_unanswered():
    ladder = Ladder(limit=HOUR, at_end=AtEnd.PROCEED)
    what = candidate(GateKind.ASK, ladder=ladder)
    guess = Question("which?", best_guess="newer", has_best_guess=True)
    answered = move(open_request(what, kind=Kind.QUESTION, question=guess), Overdue(), NOON + HOUR)
    assert (answered.state, answered.answer) == (State.ANSWERED, "newer")
    silent = move(open_request(what, kind=Kind.QUESTION, question=Question("which?")), Overdue(), NOON + HOUR)
    assert silent.state is State.EXPIRED


def test_the_ladder_says_that_a_reminder_is_due_then_widens_the_circle_then_ends():
    ladder = Ladder(
        (Rung(timedelta(minutes=15), remind=True), Rung(timedelta(minutes=30), tell=("role:manager",))), limit=HOUR
    )
    request = open_request(candidate(ladder=ladder, reviewers=("team:platform",)))
    assert request.due_at == NOON + timedelta(minutes=15)
    change = advance(request, Overdue(), request.due_at)
    assert [entry.kind for entry in change.entries] == ["request.reminder_due"]
    change = advance(change.request, Overdue(), change.request.due_at)
    assert [entry.kind for entry in change.entries] == ["request.widened"]
    assert change.request.told == ("role:manager",)
    assert change.request.due_at == NOON + HOUR
    assert move(change.request, Overdue(), NOON + HOUR).state is State.EXPIRED


def test_a_rota_takes_turns_and_loops_are_counted():
    rung = Rung(timedelta(minutes=10), rota=("ann", "ben"))
    request = open_request(candidate(ladder=Ladder((rung,), loops=2, limit=None)))
    told = []
    while request.due_at is not None:
        request = move(request, Overdue(), request.due_at)
        told.append(request.told)
    assert told == [("ann",), ("ann", "ben"), ("ann", "ben")]


def test_staying_parked_keeps_waiting_for_a_decision():
    request = open_request(candidate(ladder=Ladder(limit=HOUR, at_end=AtEnd.STAY)))
    parked = move(request, Overdue(), NOON + HOUR)
    assert (parked.state, parked.due_at) == (State.PENDING, None)
    assert move(parked, Decided(Approve(), "alice"), NOON + 100 * HOUR).state is State.APPROVED


def test_a_lease_that_ends_leaves_the_outcome_unknown_and_nothing_runs_again():
    request = move(running(), Overdue(), NOON + LEASE)
    assert request.state is State.UNKNOWN
    with pytest.raises(PermitMismatch, match="reconcile"):
        advance(request, Begin("w2", LEASE, request.candidate.permit_digest), NOON)


def test_a_late_result_with_the_right_token_resolves_an_unknown_and_any_other_does_not():
    request = running()
    unknown = move(request, Overdue(), NOON + LEASE)
    assert move(unknown, Finish(request.fence, '"ok"')).state is State.DONE
    with pytest.raises(LeaseLost):
        advance(unknown, Finish(request.fence - 1, '"ok"'), NOON)


def test_an_idempotent_action_may_be_tried_again_with_the_same_key():
    unknown = move(running(idempotent=True), Overdue(), NOON + LEASE)
    again = move(unknown, Begin("w2", LEASE, unknown.candidate.permit_digest))
    assert (again.state, again.fence) == (State.RUNNING, 2)
    assert again.idempotency_key == unknown.idempotency_key


def test_a_permit_that_was_not_used_in_time_expires():
    request = approved()
    after = move(request, Begin("w1", LEASE, request.candidate.permit_digest), request.due_at)
    assert after.state is State.EXPIRED


@pytest.mark.parametrize(
    ("finding", "state"), [(Finding.DONE, State.DONE), (Finding.FAILED, State.FAILED), (Finding.RETRY, State.PENDING)]
)
def test_a_person_settles_an_unknown_outcome(finding, state):
    unknown = move(running(), Overdue(), NOON + LEASE)
    assert move(unknown, Reconcile(finding, "alice")).state is state


def test_a_retry_takes_all_that_the_first_approval_took():
    what = candidate(GateKind.MANUAL, quorum=Quorum(2))
    typed = phrase(what)
    request = move(open_request(what), Decided(Approve(), "alice", confirm=typed))
    request = move(request, Decided(Approve(), "bob", confirm=typed))
    request = move(request, Begin("w1", LEASE, request.candidate.permit_digest))
    asked = move(move(request, Overdue(), NOON + LEASE), Reconcile(Finding.RETRY, "alice"))
    assert (asked.permit, asked.votes) == (None, ())
    with pytest.raises(ConfirmationNeeded):
        advance(asked, Decided(Approve(), "alice"), NOON)
    again = move(asked, Decided(Approve(), "alice", confirm=typed))
    assert again.state is State.PENDING
    again = move(again, Decided(Approve(), "bob", confirm=typed))
    again = move(again, Begin("w2", LEASE, again.candidate.permit_digest))
    assert (again.state, again.fence) == (State.RUNNING, 2)
    assert again.idempotency_key == request.idempotency_key


def test_what_is_done_can_be_undone_within_its_window_and_only_once():
    done = move(running(can_undo=True), Finish(1, '"ok"'))
    asked = move(done, AskUndo("alice"))
    undoing = move(asked, BeginUndo("w1", LEASE))
    assert undoing.fence == 2
    assert move(undoing, Finish(2, "")).state is State.UNDONE
    failed = move(undoing, Fail(2, "disk"))
    assert (failed.state, failed.error) == (State.DONE, "undo failed: disk")
    with pytest.raises(Conflict, match="over"):
        advance(done, AskUndo("alice"), done.undo_until)
    with pytest.raises(Conflict, match="declares no undo"):
        advance(move(running(), Finish(1, "")), AskUndo("alice"), NOON)


def test_review_afterwards_is_open_until_somebody_speaks():
    done = move(running(candidate(review_after=True)), Finish(1, ""))
    assert done.review is Review.OPEN
    flagged = move(done, Reviewed(Opinion.FLAGGED, "alice", "odd"))
    assert flagged.review is Review.FLAGGED
    with pytest.raises(Conflict, match="already flagged"):
        advance(flagged, Reviewed(Opinion.ACCEPTED, "bob"), NOON)


def test_secrets_do_not_outlive_the_request():
    change = opened(ask(), NOON, worker="w", lease=LEASE, sealed={"p": "cipher"})
    for event in (Decided(Deny("no"), "alice"), Cancel("cleanup")):
        assert move(change.request, event).sealed == {}
    went = move(change.request, Decided(Approve(), "alice"))
    went = move(went, Begin("w", LEASE, went.candidate.permit_digest))
    assert went.sealed
    assert move(went, Finish(1, "")).sealed == {}


def test_every_state_says_what_is_legal_and_ends_are_ends():
    assert set(LEGAL) == set(State)
    for state in (State.DENIED, State.EXPIRED, State.REFUSED, State.CANCELLED, State.ANSWERED, State.REVISED):
        request = replace(open_request(), state=state)
        for event in (Decided(Approve(), "a"), Begin("w", LEASE, "d"), Finish(0, ""), AskUndo("a"), Overdue()):
            with pytest.raises(Conflict):
                advance(request, event, NOON)


def test_time_stands_still_while_a_run_is_paused() -> None:
    """Frozen for a day, an hour before its end: afterwards there is still an hour, and rungs are as far away."""
    verdict = replace(
        candidate().verdict, ladder=Ladder((Rung(timedelta(minutes=90), remind=True),), limit=timedelta(hours=2))
    )
    shown = replace(candidate(), verdict=verdict)
    request = open_request(shown)
    assert request is not None
    assert request.due_at == NOON + timedelta(minutes=90)
    paused = advance(request, Freeze("ann"), NOON + timedelta(hours=1))
    assert paused is not None
    assert paused.request is not None
    assert paused.request.due_at is None
    assert advance(paused.request, Overdue(), NOON + timedelta(days=1)) is None
    assert advance(paused.request, Freeze("ann"), NOON + timedelta(hours=2)) is None
    again = advance(paused.request, Thaw("ann"), NOON + timedelta(hours=25))
    assert again is not None
    assert again.request is not None
    assert again.request.due_at == NOON + timedelta(hours=25, minutes=30)
    assert again.request.ends_at == NOON + timedelta(hours=26)
    assert advance(again.request, Thaw("ann"), NOON + timedelta(hours=25)) is None
