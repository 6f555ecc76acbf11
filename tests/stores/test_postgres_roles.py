"""What an agent's database role can do (everything a gate does) and cannot (decide), tried with real logins."""

import asyncio
import secrets
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.decision import (
    Answer,
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
    Opinion,
    Overdue,
    Reconcile,
    Renew,
    Reviewed,
    Revise,
    Seen,
)
from assentry.core.grant import use
from assentry.core.request import Executor, Kind, Question, State
from assentry.core.running import asked_again
from assentry.core.verdict import AtEnd, GateKind, Ladder, Rung
from assentry.errors import NotAllowed
from assentry.ports import View
from assentry.stores.postgres import PostgresStore
from assentry.testing.store_contract_log import policy_entry
from assentry.testing.store_contract_proposals import WANTED, turn_down, wait
from assentry.testing.store_values import WORKSPACE, asked, candidate, grant, grants_step, inserted, pending
from tests.postgres import beside
from tests.stores.logins import LEASE, ask_for, happen, login, propose


async def test_an_agent_can_do_everything_a_gate_does(agent: PostgresStore, reviewer: PostgresStore) -> None:
    held = await propose(agent, ask_for(1))
    held = await happen(reviewer, held, Decided(Approve(), by="bob", seen_digest=held.candidate.permit_digest))
    held = await happen(agent, held, Begin("w", LEASE, held.candidate.permit_digest))
    held = await happen(agent, held, Renew(held.fence, LEASE))
    held = await happen(agent, held, Finish(held.fence, "done"))
    assert held.state is State.DONE
    held = await happen(reviewer, held, AskUndo("bob", "wrong"))
    held = await happen(agent, held, BeginUndo("w", LEASE))
    held = await happen(agent, held, Finish(held.fence, "undone"))
    assert held.state is State.UNDONE

    watched = await propose(agent, ask_for(2, GateKind.WATCH))
    assert watched.state is State.RUNNING
    watched = await happen(agent, watched, Fail(watched.fence, "it broke"))
    refused = await propose(agent, ask_for(3, GateKind.FORBID))
    assert refused.state is State.REFUSED
    withdrawn = await happen(agent, await propose(agent, ask_for(4)), Cancel("agent", "changed its mind"))
    assert withdrawn.state is State.CANCELLED

    lost = await propose(agent, ask_for(5, GateKind.WATCH))
    lost = await happen(agent, lost, Overdue(), later=LEASE * 2)
    assert lost.state is State.UNKNOWN
    lost = await happen(agent, lost, Begin("w2", LEASE, lost.candidate.permit_digest))
    lost = await happen(agent, lost, Overdue(), later=LEASE * 2)
    lost = await happen(agent, lost, Reconcile(Finding.DONE, by="verify"))
    assert lost.state is State.DONE
    agent.record(lambda: Entry("call.ran", lost.changed_at, WORKSPACE, "call", "cleanup"))
    await agent.flush()
    assert await reviewer.sequence(WORKSPACE) > 10
    assert await agent.policy(WORKSPACE) is None
    assert (await agent.identity()) == (await reviewer.identity())


async def test_time_may_do_what_it_does_on_an_agents_connection(agent: PostgresStore, reviewer: PostgresStore) -> None:
    hour = timedelta(hours=2)
    expired = await happen(agent, await propose(agent, ask_for(1)), Overdue(), later=hour)
    assert expired.state is State.EXPIRED
    proceed = Ladder(at_end=AtEnd.PROCEED)
    soft = await propose(agent, ask_for(2, GateKind.SOFT, ladder=proceed))
    soft = await happen(reviewer, soft, Seen("bob"))
    soft = await happen(agent, soft, Overdue(), later=hour)
    assert (soft.state, soft.word) == (State.APPROVED, "silence")
    guess = Question("Which?", best_guess="this", has_best_guess=True)
    question = ask_for(3, GateKind.ASK, ladder=proceed, kind=Kind.QUESTION, question=guess)
    answered = await happen(agent, await propose(agent, question), Overdue(), later=hour)
    assert (answered.state, answered.answer) == (State.ANSWERED, "this")


DECISIONS: tuple[Any, ...] = (
    Decided(Approve(), by="bob"),
    Decided(Deny("no"), by="bob"),
    Decided(Revise("again"), by="bob"),
    Decided(Approve(), by="agent"),
)


async def test_an_agent_cannot_decide(agent: PostgresStore, reviewer: PostgresStore) -> None:
    request = await propose(agent, ask_for(1))
    for event in DECISIONS:
        with pytest.raises(NotAllowed) as caught:
            await happen(agent, request, event)
        assert "an agent may not" in str(caught.value)
        assert "\n" not in str(caught.value)
    question = await propose(agent, ask_for(2, GateKind.ASK, kind=Kind.QUESTION, question=Question("Which?")))
    with pytest.raises(NotAllowed):
        await happen(agent, question, Decided(Answer("x"), by="bob"))
    assert await agent.request(WORKSPACE, request.id) == request
    assert (await happen(reviewer, request, DECISIONS[0])).state is State.APPROVED
    assert (await happen(reviewer, question, Decided(Answer("x"), by="bob"))).state is State.ANSWERED


async def test_an_agent_cannot_pass_a_hard_gate_on_silence(agent: PostgresStore, reviewer: PostgresStore) -> None:
    request = await propose(agent, ask_for(1))
    for gate in (GateKind.HARD, GateKind.SOFT):
        verdict = replace(request.candidate.verdict, gate=gate)
        forged = replace(
            request, state=State.APPROVED, word="silence", version=2,
            candidate=replace(request.candidate, verdict=verdict),
        )  # fmt: skip
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, request.id, lambda _, f=forged: Change(f))  # type: ignore[misc]
    assert await agent.request(WORKSPACE, request.id) == request


async def test_an_agent_cannot_insert_what_somebody_would_have_decided(agent: PostgresStore) -> None:
    base = pending(ask_for(1))
    forged = (
        replace(base, state=State.APPROVED),
        replace(base, state=State.RUNNING),
        replace(base, state=State.DONE),
        replace(base, version=2),
        replace(base, decided_by="bob"),
        replace(base, candidate=candidate("other")),
        pending(ask_for(1, GateKind.WATCH, executor=Executor.WORKER), state=State.APPROVED),
    )
    for request in forged:
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, None, inserted(request))
    assert await agent.request(WORKSPACE, base.id) is None


async def test_an_agent_cannot_change_what_was_approved(agent: PostgresStore, reviewer: PostgresStore) -> None:
    request = await propose(agent, ask_for(1))
    approved = await happen(reviewer, request, Decided(Approve("fine"), by="bob"))
    assert approved.permit is not None
    running = replace(approved, state=State.RUNNING, version=approved.version + 1)
    forged = (
        replace(running, candidate=candidate("other")),
        replace(running, permit=replace(approved.permit, digest="f" * 64)),
        replace(running, votes=()),
        replace(running, decided_by="carol"),
        replace(running, chosen=1),
        replace(running, answer="x"),
        replace(approved, version=approved.version + 1),
        replace(running, state=State.PENDING),
    )
    for change in forged:
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, request.id, lambda _, c=change: Change(c))  # type: ignore[misc]
    assert await agent.request(WORKSPACE, request.id) == approved
    used = await happen(agent, approved, Begin("w", LEASE, approved.candidate.permit_digest))
    assert used.permit is not None
    done = await happen(agent, used, Finish(used.fence, "done"))
    # Neither is a used permit made fresh again, nor is a finished one run once more, nor reviewed, nor undone.
    again = replace(done, version=done.version + 1, permit=replace(used.permit, used_at=None))
    for change in (again, replace(again, state=State.APPROVED), replace(again, state=State.RUNNING)):
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, request.id, lambda _, c=change: Change(c))  # type: ignore[misc]
    for event in (Reviewed(Opinion.ACCEPTED, by="bob"), AskUndo("bob")):
        with pytest.raises(NotAllowed):
            await happen(agent, done, event)


async def test_an_agent_cannot_turn_an_unknown_outcome_into_a_new_approval(agent: PostgresStore) -> None:
    lost = await happen(agent, await propose(agent, ask_for(1, GateKind.WATCH)), Overdue(), later=LEASE * 2)
    with pytest.raises(NotAllowed):
        await happen(agent, lost, Reconcile(Finding.RETRY, by="agent"))


async def test_an_agent_uses_grants_and_makes_none(agent: PostgresStore, reviewer: PostgresStore) -> None:
    made = grant(1, limit=5)
    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, None, grants_step(made))
    await reviewer.transact(WORKSPACE, None, grants_step(made))

    def using(view: View) -> Change:
        (found,) = view.grants
        used = Entry("grant.used", view.now, WORKSPACE, found.id, "cleanup")
        return Change(grants=(use(found, None, view.now),), entries=(used,))

    await agent.transact(WORKSPACE, None, using, grants=(made.id,))
    (current,) = await agent.grants(WORKSPACE)
    assert current.used == 1
    wider = (
        replace(current, version=3, limit=None),
        replace(current, version=3, used=2, limit=50),
        replace(current, version=3, used=0),
        replace(current, version=3, used=2, actions=("*",)),
        replace(current, version=3, used=2, expires_at=current.expires_at + LEASE),
        replace(current, version=3, revoked_at=current.expires_at),
    )
    for change in wider:
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, None, grants_step(change, kind="grant.used"))
    assert await agent.grants(WORKSPACE) == (current,)


async def test_an_agent_writes_no_policy_and_no_entry_of_a_decision(
    agent: PostgresStore, reviewer: PostgresStore
) -> None:
    with pytest.raises(NotAllowed):
        await agent.apply_policy(WORKSPACE, "text", "agent", policy_entry)
    await reviewer.apply_policy(WORKSPACE, "text", "alice", policy_entry)
    now = await agent.now()
    kinds = (
        "request.decided", "request.voted", "request.amended", "policy.applied", "policy.proposed", "policy.rejected", "grant.made", "grant.revoked",
        "review.accepted",
    )  # fmt: skip
    for kind in kinds:
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, None, lambda _, k=kind: _entry(k, now))  # type: ignore[misc]
    assert await reviewer.sequence(WORKSPACE) == 1


def _entry(kind: str, now: Any) -> Change:
    return Change(entries=(Entry(kind, now, WORKSPACE, "subject", "bob", {"word": "approve"}),))


async def test_an_agent_proposes_no_policy_and_ends_none(agent: PostgresStore, reviewer: PostgresStore) -> None:
    await wait(reviewer)
    for attempt in (
        wait(agent, replace(WANTED, code="another")),
        turn_down(agent),
        agent.apply_policy(WORKSPACE, WANTED.text, "bob", policy_entry, WANTED),
        agent.proposals(WORKSPACE),
    ):
        with pytest.raises(NotAllowed):
            await attempt
    assert await reviewer.proposals(WORKSPACE) == (WANTED,)
    await turn_down(reviewer)
    await wait(reviewer, replace(WANTED, code="another"))
    await reviewer.apply_policy(WORKSPACE, WANTED.text, "bob", policy_entry, replace(WANTED, code="another"))
    assert await reviewer.proposals(WORKSPACE) == ()


async def test_nobody_makes_a_proposed_policy_wait_again(reviewer: PostgresStore, postgres_database: str) -> None:
    await wait(reviewer)
    await turn_down(reviewer)
    with beside(postgres_database) as owner, pytest.raises(psycopg.Error, match="only ends"):
        owner.execute("UPDATE proposals SET state = 'waiting'")


STATEMENTS = (
    "UPDATE entries SET text = ''",
    "UPDATE entries SET idx = 5",
    "DELETE FROM entries",
    "TRUNCATE entries",
    "DELETE FROM requests",
    "UPDATE asks SET body = ''",
    "DELETE FROM policies",
    "UPDATE policies SET text = ''",
    "INSERT INTO policies VALUES ('main', 9, '', '', now())",
    "INSERT INTO proposals (workspace, code, state, body) VALUES ('main', 'x', 'waiting', '')",
    "UPDATE proposals SET state = 'applied'",
    "DELETE FROM proposals",
    "UPDATE grants SET used = 0",
    "DELETE FROM grants",
    "UPDATE requests SET state = 'approved'",
    "UPDATE requests SET state = 'approved', word = 'silence', version = version + 1",
    "UPDATE requests SET purged = true",
    "UPDATE requests SET gate = 'soft', version = version + 1",
    "INSERT INTO checkpoints VALUES ('main', 1, '', '', '')",
    "ALTER TABLE requests DISABLE TRIGGER ALL",
    "DROP TRIGGER requests_agent_moves ON requests",
    "SET session_replication_role = replica",
    "SET ROLE assentry_reviewer",
    "CREATE OR REPLACE FUNCTION assentry_agent_moves() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
)


async def test_an_agent_with_its_own_sql_cannot_either(
    agent: PostgresStore, reviewer: PostgresStore, postgres_database: str
) -> None:
    await propose(agent, ask_for(1))
    await reviewer.transact(WORKSPACE, None, grants_step(grant(1)))
    await reviewer.apply_policy(WORKSPACE, "text", "alice", policy_entry)
    await reviewer.sequence(WORKSPACE)
    await propose(agent, ask_for(2))
    url = login(postgres_database, f"x_{secrets.token_hex(4)}", "assentry_agent")
    with beside(url) as connection:
        for statement in STATEMENTS:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert caught.value.sqlstate == "42501", statement


async def test_nobody_rewrites_the_log(owner: PostgresStore, postgres_database: str) -> None:
    await owner.transact(WORKSPACE, None, inserted(pending(asked(1))))
    await owner.sequence(WORKSPACE)
    with beside(postgres_database) as connection:
        for statement in STATEMENTS[:4]:
            with pytest.raises(psycopg.Error):
                connection.execute(statement)


async def test_a_member_of_both_roles_may_decide(agent: PostgresStore, postgres_database: str) -> None:
    request = await propose(agent, ask_for(1))
    both = PostgresStore(login(postgres_database, f"b_{secrets.token_hex(4)}", "assentry_agent, assentry_reviewer"))
    assert (await happen(both, request, Decided(Deny("no"), by="bob"))).state is State.DENIED
    await both.close()


async def test_a_login_without_rights_is_told_so(owner: PostgresStore, postgres_database: str) -> None:
    with beside(postgres_database) as connection:
        name = f"n_{secrets.token_hex(4)}"
        connection.execute(f"CREATE ROLE {name} LOGIN")
    parts = urlsplit(postgres_database)
    store = PostgresStore(urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}")))
    with pytest.raises(Exception) as caught:
        await store.open()
    assert "\n" not in str(caught.value)
    await store.close()


def _told(view: View, *names: str) -> Change:
    assert view.request is not None
    return Change(replace(view.request, told=(*view.request.told, *names), version=view.request.version + 1))


async def test_an_agent_says_nobody_may_decide_whom_the_ladder_does_not_name(
    agent: PostgresStore, reviewer: PostgresStore
) -> None:
    soon = timedelta(milliseconds=1)
    ladder = Ladder(rungs=(Rung(soon, tell=("bob",)), Rung(timedelta(minutes=30), rota=("carol", "dave"))))
    request = await propose(agent, ask_for(1, ladder=ladder))
    await asyncio.sleep(0.01)
    for name in ("mallory", "PT1800S"):
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, request.id, lambda view, name=name: _told(view, name))  # type: ignore[misc]
    request = await happen(agent, request, Overdue())
    assert request.told == ("bob",)
    with pytest.raises(NotAllowed):  # carol's turn has not come
        await agent.transact(WORKSPACE, request.id, lambda view: _told(view, "carol"))
    forgotten = replace(request, told=(), version=request.version + 1)
    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, request.id, lambda _: Change(forgotten))
    assert await agent.request(WORKSPACE, request.id) == request
    await reviewer.transact(WORKSPACE, request.id, lambda view: _told(view, "carol"))


async def test_a_request_is_what_its_row_says(
    agent: PostgresStore, reviewer: PostgresStore, postgres_database: str
) -> None:
    request = await propose(agent, ask_for(1))
    url = login(postgres_database, f"x_{secrets.token_hex(4)}", "assentry_agent")
    forged = (
        """body = jsonb_set(body::jsonb, '{state}', '"approved"')::text""",
        """body = (body::jsonb - 'state')::text""",
        """body = jsonb_set(body::jsonb, '{told}', '["mallory"]')::text""",
    )
    with beside(url) as connection:
        for change in forged:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(f"UPDATE requests SET version = version + 1, {change}")
            assert caught.value.sqlstate == "42501", change
        connection.execute("UPDATE requests SET version = version + 1")  # with nothing forged it goes through
    stored = await reviewer.request(WORKSPACE, request.id)
    assert stored is not None
    assert (stored.state, stored.told) == (State.PENDING, ())


async def test_asked_again_nothing_that_was_said_counts_on_an_agents_connection(
    agent: PostgresStore, reviewer: PostgresStore
) -> None:
    request = await propose(agent, ask_for(1))
    approved = await happen(reviewer, request, Decided(Approve(), by="bob"))
    again = asked_again(approved, await agent.now())
    again = replace(again, version=approved.version + 1)
    soft = replace(again.candidate, verdict=replace(again.candidate.verdict, gate=GateKind.SOFT))
    forged = (
        replace(again, votes=approved.votes),
        replace(again, decided_by="bob"),
        replace(again, permit=approved.permit),
        replace(again, answer="x"),
        replace(again, told=("mallory",)),
        replace(again, round=approved.round),
        replace(again, chosen=1),
        replace(again, word="approve"),
        replace(again, candidate=soft),
    )
    for change in forged:
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, request.id, lambda _, c=change: Change(c))  # type: ignore[misc]
    assert await agent.request(WORKSPACE, request.id) == approved
    await agent.transact(WORKSPACE, request.id, lambda _: Change(again))


async def test_what_changed_since_is_noted_and_nothing_else(agent: PostgresStore, reviewer: PostgresStore) -> None:
    request = await propose(agent, ask_for(1))
    approved = await happen(reviewer, request, Decided(Approve(), by="bob"))
    noted = replace(approved, version=approved.version + 1, changes=("47 instances, not 3",))
    assert approved.permit is not None
    forged = (
        replace(noted, permit=replace(approved.permit, digest="f" * 64)),
        replace(noted, votes=()),
        replace(noted, told=("mallory",)),
        replace(noted, decided_by="carol"),
        replace(noted, changes=()),
    )
    for change in forged:
        with pytest.raises(NotAllowed):
            await agent.transact(WORKSPACE, request.id, lambda _, c=change: Change(c))  # type: ignore[misc]
    await agent.transact(WORKSPACE, request.id, lambda _: Change(noted))
    assert await reviewer.request(WORKSPACE, request.id) == noted
