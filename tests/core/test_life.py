"""A state machine against a model: whatever happens in whatever order, the invariants hold."""

from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from assentry.core.advance import advance, opened, phrase
from assentry.core.decision import (
    Approve,
    AskUndo,
    Begin,
    BeginUndo,
    Cancel,
    Decided,
    Deny,
    Fail,
    Finding,
    Finish,
    Modify,
    Overdue,
    Reconcile,
    Renew,
    Seen,
)
from assentry.core.request import State
from assentry.core.verdict import AtEnd, GateKind, Ladder, Quorum
from assentry.errors import AssentryError
from tests.core.values import HOUR, LEASE, NOON, ask, candidate

PEOPLE = st.sampled_from(["alice", "bob", "carol"])
GATES = st.sampled_from([GateKind.WATCH, GateKind.SOFT, GateKind.HARD, GateKind.MANUAL, GateKind.FORBID])


class Life(RuleBasedStateMachine):
    """One request, many hands, a clock that jumps. The model remembers who approved which bytes."""

    @initialize(
        gate=GATES, reversible=st.booleans(), known=st.booleans(), quorum=st.integers(1, 3),
        at_end=st.sampled_from(list(AtEnd)), limit=st.sampled_from([HOUR, None]),
        idempotent=st.booleans(), undo=st.booleans(),
    )  # fmt: skip
    def open(self, gate, reversible, known, quorum, at_end, limit, idempotent, undo):
        self.now = NOON
        self.make = lambda args: candidate(
            gate, args=args, reversible=reversible, known=known, quorum=Quorum(quorum),
            ladder=Ladder(limit=limit, at_end=at_end),
        )  # fmt: skip
        self.gate, self.quorum, self.reversible, self.known = gate, quorum, reversible, known
        self.idempotent = idempotent
        asked = ask(self.make({"n": 0}), idempotent=idempotent, can_undo=undo)
        self.request = opened(asked, self.now, worker="w0", lease=LEASE).request
        self.approvals: dict[str, set[str]] = {}
        self.began = 1 if self.request.state is State.RUNNING else 0
        self.allowed = 1 if gate is GateKind.WATCH else 0
        self.ended: State | None = None
        self.seen = False

    def attempt(self, event):
        before = self.request
        try:
            change = advance(before, event, self.now)
        except AssentryError:
            return None
        if change is None or change.request is None:
            return None
        assert change.request.version == before.version + 1
        self.request = change.request
        return change.request

    @rule(by=PEOPLE, stale=st.booleans(), typed=st.booleans())
    def approve(self, by, stale, typed):
        pending = self.request.state is State.PENDING
        shown = "stale" if stale else self.request.candidate.permit_digest
        confirm = phrase(self.request.candidate) if typed else ""
        after = self.attempt(Decided(Approve(), by, seen_digest=shown, confirm=confirm))
        if after is not None and after.state in (State.PENDING, State.APPROVED):
            assert pending
            assert not stale
            assert typed or self.gate is not GateKind.MANUAL
            self.approvals.setdefault(after.candidate.permit_digest, set()).add(by)
            self.note_permit(after)

    @rule(by=PEOPLE, number=st.integers(0, 3), typed=st.booleans())
    def modify(self, by, number, typed):
        instead = self.make({"n": number})
        if instead.permit_digest != self.request.candidate.permit_digest:
            fresh = {by}
        else:
            fresh = self.approvals.get(instead.permit_digest, set()) | {by}
        confirm = phrase(instead) if typed else ""
        after = self.attempt(Decided(Modify(instead), by, confirm=confirm))
        if after is not None and after.state in (State.PENDING, State.APPROVED):
            self.approvals = {instead.permit_digest: fresh}
            self.note_permit(after)

    def note_permit(self, after):
        if after.state is State.APPROVED:
            assert len(self.approvals[after.permit.digest]) >= self.quorum
            assert after.permit.digest == after.candidate.permit_digest
            self.allowed += 1

    @rule(by=PEOPLE, reason=st.sampled_from(["", "no"]))
    def deny(self, by, reason):
        after = self.attempt(Decided(Deny(reason), by))
        assert after is None or reason or after.state is not State.DENIED

    @rule(by=PEOPLE)
    def see(self, by):
        self.seen = self.attempt(Seen(by)) is not None or self.seen

    @rule()
    def cancel(self):
        self.attempt(Cancel("agent"))

    @rule(span=st.sampled_from([timedelta(seconds=1), LEASE, HOUR, timedelta(days=8)]))
    def time_passes(self, span):
        self.now += span
        before = self.request
        after = self.attempt(Overdue())
        if after is not None and after.state is State.APPROVED and before.state is State.PENDING:
            assert self.gate is GateKind.SOFT
            assert self.reversible
            assert self.known
            assert self.seen
            self.allowed += 1

    @rule(right=st.booleans())
    def begin(self, right):
        before = self.request
        digest = before.candidate.permit_digest if right else "other bytes"
        after = self.attempt(Begin("w1", LEASE, digest))
        if after is not None and after.state is State.RUNNING:
            assert right
            if before.state is State.UNKNOWN:
                assert self.idempotent
            else:
                self.began += 1

    @rule(late=st.integers(0, 1), fails=st.booleans())
    def end(self, late, fails):
        fence = self.request.fence - late
        after = self.attempt(Fail(fence, "boom") if fails else Finish(fence, "1"))
        assert after is None or late == 0

    @rule()
    def renew(self):
        self.attempt(Renew(self.request.fence, LEASE))

    @precondition(lambda self: self.request.state is State.UNKNOWN)
    @rule(finding=st.sampled_from(list(Finding)), by=PEOPLE)
    def reconcile(self, finding, by):
        undoing = self.request.undoing
        after = self.attempt(Reconcile(finding, by))
        if after is not None and finding is Finding.RETRY and not undoing:
            assert after.permit is None
            self.approvals = {}
            self.seen = False

    @rule(by=PEOPLE)
    def undo(self, by):
        self.attempt(AskUndo(by))
        self.attempt(BeginUndo("w1", LEASE))

    @invariant()
    def at_most_one_effect_per_approval(self):
        assert self.began <= self.allowed

    @invariant()
    def what_ended_stays_ended(self):
        ends = (State.DENIED, State.EXPIRED, State.REFUSED, State.CANCELLED)
        if self.ended is not None:
            assert self.request.state is self.ended
        elif self.request.state in ends:
            self.ended = self.request.state

    @invariant()
    def what_waits_for_time_has_a_time(self):
        if self.request.state in (State.APPROVED, State.RUNNING, State.UNDOING):
            assert self.request.due_at is not None


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
