"""Deciding: who may, on what, once; what a change makes of it; and what time does meanwhile."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import assentry
from assentry.core.action import Declaration, Reach
from assentry.core.audit import Entry
from assentry.core.authority import Principal
from assentry.core.canonical import restore
from assentry.core.decision import Finding
from assentry.core.grant import Terms
from assentry.core.request import State
from assentry.core.verdict import GateKind
from assentry.engine.deadlines import sweep
from assentry.engine.grants import give, take_back
from assentry.engine.judgement import Context, Judgement
from assentry.engine.tool import tool
from assentry.errors import (
    AlreadyDecided,
    ConfirmationNeeded,
    InvalidDecision,
    NotAllowed,
    NotFound,
    PolicyError,
    StaleRequest,
)
from assentry.ports import Filter
from tests.stage import PATIENCE, until

TEAM = """
people:
  alice: {roles: [dev], teams: [platform], os_users: [alice]}
  bob: {roles: [dev], teams: [platform], os_users: [bob]}
  carol: {roles: [cfo], os_users: [carol]}
  root: {roles: [ops], os_users: [root]}
agents:
  cleanup: {owner: bob}
rules:
  - name: large payments
    actions: ["pay_*"]
    when: facts.amount > 1000.0
    gate: manual
    reviewers: ["role:cfo"]
    because: large payments are for the CFO
  - {name: payments, actions: ["pay_*"], gate: hard, reviewers: ["team:platform", "role:cfo"]}
  - {name: two people, actions: ["delete_*"], gate: hard, quorum: 2}
"""
ALICE, BOB, CAROL = (Principal(name) for name in ("alice", "bob", "carol"))


@pytest.fixture
async def team(house):
    await house.policy(TEAM)

    @house.gate.guard(reversible=False, money=True, says="Pay {amount} {currency} to {to}")
    async def pay_invoice(to: str, amount: float, currency: str = "EUR") -> float:
        return amount

    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> list[str]:
        return files

    house.pay, house.delete = pay_invoice, delete_files
    return house


async def test_a_modified_request_that_becomes_riskier_needs_the_higher_authority(team):
    call = team.start(team.pay("Nordwind", 200.0))
    (request,) = await team.waiting()
    after = await team.inbox.modify(ALICE, request.id, {"to": "Nordwind", "amount": 5000.0, "currency": "EUR"})
    assert after.state is State.PENDING
    assert after.candidate.verdict.rule == "large payments"
    with pytest.raises(NotAllowed, match="role:cfo"):
        await team.inbox.approve(ALICE, request.id)
    with pytest.raises(ConfirmationNeeded) as needed:
        await team.inbox.approve(CAROL, request.id)
    await team.inbox.approve(CAROL, request.id, confirm=needed.value.phrase)
    assert await call == 5000.0


async def test_approving_stale_bytes_is_refused(team):
    team.start(team.pay("Nordwind", 200.0))
    (request,) = await team.waiting()
    seen = request.candidate.permit_digest
    await team.inbox.modify(ALICE, request.id, {"to": "Nordwind", "amount": 5000.0, "currency": "EUR"})
    with pytest.raises(StaleRequest, match="look at it again"):
        await team.inbox.approve(CAROL, request.id, seen_digest=seen, confirm="x")


async def test_a_quorum_is_of_distinct_people_and_not_of_the_owner(team):
    call = team.start(team.delete(["a"]))
    (request,) = await team.waiting()
    with pytest.raises(NotAllowed, match="owns cleanup"):
        await team.inbox.approve(BOB, request.id)
    await team.inbox.approve(ALICE, request.id)
    with pytest.raises(NotAllowed, match="already decided"):
        await team.inbox.approve(ALICE, request.id)
    await team.inbox.approve(CAROL, request.id)
    assert await call == ["a"]


async def test_agents_strangers_and_the_asker_never_decide(team):
    team.start(team.delete(["a"]))
    (request,) = await team.waiting()
    for nobody in (Principal("cleanup", kind="agent"), Principal("mallory"), Principal("root", roles=("cfo",))):
        with pytest.raises(NotAllowed):
            await team.inbox.approve(nobody, request.id)
    assert (await team.waiting())[0].votes == ()


async def test_claimed_roles_are_not_believed(team):
    team.start(team.pay("Nordwind", 5000.0))
    (request,) = await team.waiting()
    with pytest.raises(NotAllowed, match="role:cfo"):
        await team.inbox.approve(Principal("alice", roles=("cfo",)), request.id, confirm="pay_invoice 5000.00")


async def test_the_second_decision_hears_who_was_faster(team):
    call = team.start(team.pay("Nordwind", 200.0))
    (request,) = await team.waiting()
    await team.inbox.deny(ALICE, request.id, "not this month")
    with pytest.raises(AlreadyDecided, match="already denied by alice"):
        await team.inbox.approve(CAROL, request.id)
    with pytest.raises(assentry.Denied):
        await call


async def test_choosing_a_riskier_action_needs_its_authority(team):
    @team.gate.guard(reversible=True, options=[
        assentry.option("pay it off", "costs money", {"to": "x", "amount": 9000.0}, instead="pay_invoice"),
    ])  # fmt: skip
    async def close_account(account: str) -> None: ...

    await team.policy(TEAM.replace("rules:", 'rules:\n  - {name: closing, actions: ["close_*"], gate: hard}'))
    team.start(close_account("7"))
    (request,) = await team.waiting()
    after = await team.inbox.choose(ALICE, request.id, 0)
    assert after.state is State.PENDING
    assert after.candidate.action.name == "pay_invoice"
    with pytest.raises(NotAllowed, match="role:cfo"):
        await team.inbox.approve(ALICE, request.id)


async def test_a_question_is_answered_by_choice_schema_or_best_guess(house):
    call = house.start(house.gate.ask("Which report?", choices=["Q2", "Q3"]))
    (request,) = await house.waiting()
    with pytest.raises(InvalidDecision, match="Q2, Q3"):
        await house.inbox.answer(house.me, request.id, "Q9")
    await house.inbox.answer(house.me, request.id, "Q3")
    assert await call == "Q3"
    guess = await house.gate.ask("Which?", best_guess="newer", time=timedelta(0))
    assert guess == "newer"
    with pytest.raises(assentry.Denied, match="in time"):
        await house.gate.ask("Which?", time=timedelta(0))


async def test_a_proposal_that_is_no_function_is_carried_out_by_who_proposed_it(house):
    proposal = await house.gate.propose("transfer_money", {"to": "acme", "amount": 12.5}, why="invoice 7")
    assert proposal.request.state is State.PENDING

    async def carry_out():
        async with proposal.execution() as running:
            running.result = f"sent {running.args['amount']} with {bool(running.key)}"

    task = house.start(carry_out())
    (request,) = await house.waiting()
    brief = await house.inbox.brief(request.id)
    await house.inbox.modify(house.me, request.id, {"to": "acme", "amount": 10.0}, confirm="transfer_money 10.00")
    await task
    assert brief.claims == {"why": "invoice 7"}
    assert (await house.in_state(request.id, State.DONE)).result_text == '"sent 10 with True"'


async def test_a_proposal_that_need_not_wait_runs_at_once(house):
    proposal = await house.gate.propose("list_files", {"path": "docs"})
    assert proposal.request is None
    async with proposal.execution() as running:
        assert running.args == {"path": "docs"}


async def test_grants_lift_a_gate_so_often_and_no_further(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> int:
        return len(files)

    terms = Terms(("delete_*",), timedelta(hours=1), limit=2, condition="facts.count <= 2")
    grant = await give(house.desk.store, "default", house.me, terms)
    await house.gate._judgement.refresh()
    assert await delete_files(["a"]) == 1
    assert await delete_files(["a", "b"]) == 2
    house.start(delete_files(["a"]))
    await house.waiting(1)
    house.start(delete_files(["a", "b", "c"]))
    await house.waiting(2)
    assert "grant.used" in await house.kinds(grant.id)
    (stored,) = await house.desk.store.grants("default", live_only=False)
    assert stored.used == 2
    ended = await take_back(house.desk.store, "default", house.me, stored)
    assert ended.revoked_at is not None


async def test_a_grant_is_not_used_more_often_than_it_says_by_calls_at_once(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> int:
        return 1

    await give(house.desk.store, "default", house.me, Terms(("delete_*",), timedelta(hours=1), limit=3))
    await house.gate._judgement.refresh()
    ended = await asyncio.gather(*(delete_files([str(n)]) for n in range(10)), return_exceptions=True)
    assert sum(outcome == 1 for outcome in ended) == 3
    assert sum(isinstance(outcome, assentry.Parked) for outcome in ended) == 7


async def test_observe_mode_holds_nothing_and_says_what_it_would_have_held(house):
    await house.policy("mode: observe")

    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> int:
        return len(files)

    assert await delete_files(["a"]) == 1
    (request,) = (await house.inbox.page(Filter(states=(State.DONE,)))).requests
    brief = await house.inbox.brief(request.id)
    assert any("OBSERVE" in warning and "hard" in warning for warning in brief.warnings)


async def test_a_policy_that_no_longer_loads_makes_everything_wait(house):
    @house.gate.guard(reversible=True, reach="local")
    async def write_file(path: str) -> str:
        return path

    @house.gate.guard
    async def read_file(path: str) -> str:
        return path

    assert await write_file("a") == "a"

    def entry(version, now):
        return Entry("policy.applied", now, "default", f"policy:{version}", "a newer version", {})

    await house.desk.store.apply_policy("default", "rules: [{nonsense: true}]", "a newer version", entry)
    async with asyncio.timeout(PATIENCE):
        while house.gate.policy.version != -1:
            await asyncio.sleep(0.01)
    house.start(write_file("b"))
    (request,) = await house.waiting()
    assert "cannot be used" in str(request.candidate.verdict.triggers)
    assert await read_file("c") == "c"
    await house.policy("mode: enforce")
    assert await write_file("d") == "d"


async def test_ids_may_be_abbreviated_and_ambiguity_is_told(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None: ...

    for n in range(3):
        house.start(delete_files([str(n)]))
    requests = await house.waiting(3)
    assert (await house.inbox.find(requests[0].code[:6])).id == requests[0].id
    assert (await house.inbox.find(requests[0].id)).id == requests[0].id
    with pytest.raises(NotFound, match="no request"):
        await house.inbox.find("zzzzzzzz")
    with pytest.raises(NotFound, match="several"):
        await house.inbox.find(requests[0].id[:4])


async def test_pages_are_by_urgency_and_lose_nothing(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> None: ...

    for n in range(25):
        with pytest.raises(assentry.Parked):
            await delete_files([str(n)])
    seen, after = [], ""
    while True:
        page = await house.inbox.page(after=after, limit=10)
        seen += [request.id for request in page.requests]
        after = page.next
        if not after:
            break
    assert len(seen) == len(set(seen)) == 25


async def test_an_unknown_outcome_is_settled_by_verify_or_by_a_person(house):
    happened = {"yes": True, "no": False, "unclear": None}

    @house.gate.guard(reversible=False, detached=True, verify=lambda done: happened[done.args["what"]])
    async def delete_thing(what: str) -> None: ...

    async def lost(what: str) -> str:
        task = house.start(delete_thing(what))
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        approved = await house.in_state(request.id, State.APPROVED)
        await house.lost(approved)
        await house.unknown(request.id)
        task.cancel()
        return request.id

    ids = {what: await lost(what) for what in happened}
    async with house.gate.worker():
        await house.in_state(ids["yes"], State.DONE)
        await house.in_state(ids["no"], State.FAILED)
    assert (await house.desk.store.request("default", ids["unclear"])).state is State.UNKNOWN
    await house.inbox.reconcile(house.me, ids["unclear"], Finding.DONE, "looked at the shop")
    await house.in_state(ids["unclear"], State.DONE)


async def test_waiting_ends_by_itself_when_the_ladder_ends(house):
    await house.policy("rules: [{name: quick, actions: ['delete_*'], gate: hard, limit: 1s}]")

    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None:
        raise AssertionError("ran on silence")

    with pytest.raises(assentry.Denied, match="nobody decided") as denied:
        await delete_files(["a"])
    assert denied.value.state == "expired"


async def test_escalation_widens_the_circle(house):
    await house.policy(
        """
people:
  root: {os_users: [root], roles: [dev]}
  ann: {roles: [manager], os_users: [ann]}
self_review: allow
rules:
  - name: escalated
    actions: ["delete_*"]
    gate: hard
    reviewers: [root]
    ladder: [{after: 1s, tell: ["role:manager"]}]
    limit: 1h
"""
    )

    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> str:
        return "ran"

    call = delete_files.with_(run="r", key="1")
    with pytest.raises(assentry.Parked):
        await call(["a"])
    (request,) = await house.waiting()
    ann = Principal("ann")
    with pytest.raises(NotAllowed):  # however late it is: nobody waits, so nobody moves time on
        await house.inbox.approve(ann, request.id)
    async with asyncio.timeout(PATIENCE):
        while not (await house.desk.store.request("default", request.id)).told:
            await sweep(house.desk.store, "default")
            await asyncio.sleep(0.02)
    await house.inbox.approve(ann, request.id)
    assert await call(["a"]) == "ran"


async def test_a_soft_gate_proceeds_only_after_somebody_saw_it(house):
    await house.policy("rules: [{name: soft, actions: ['tag_*'], gate: soft, window: 1s}]")

    @house.gate.guard(reversible=True, reach="service")
    async def tag_record(record: str) -> str:
        return record

    call = house.start(tag_record("r"))
    (request,) = await house.waiting()
    assert request.ends_at is None
    await house.inbox.seen(house.me, request.id)
    assert await call == "r"
    assert (await house.desk.store.request("default", request.id)).word == "silence"


async def test_now_is_the_databases(house):
    here = datetime.now(UTC)
    assert abs((await house.desk.store.now()) - here) < timedelta(minutes=1)


async def test_a_change_adds_nothing_that_nobody_asked_for(house):
    schema = {
        "type": "object",
        "properties": {"to": {"type": "string"}, "body": {"type": "string"}, "bcc": {"default": "eve@evil.example"}},
    }
    for trusted in (True, False):
        proposal = await house.gate.propose(
            "send_mail", {"to": "a@b.example", "body": "hi"}, schema=schema, trusted=trusted, key=f"mail {trusted}"
        )
        assert proposal.request is not None
        changed = house.inbox.changed(proposal.request, {"to": "a@b.example", "body": "hi!"})
        assert restore(changed.args_text) == {"to": "a@b.example", "body": "hi!"}
    given = await house.gate.propose(
        "send_mail", {"to": "a@b.example", "bcc": "c@b.example"}, schema=schema, trusted=False, key="taken away"
    )
    assert given.request is not None
    assert "bcc" not in restore(house.inbox.changed(given.request, {"to": "a@b.example"}).args_text)


async def test_a_change_to_what_waits_softly_is_seen_anew_before_silence_lets_it_pass(house):
    await house.policy("""
self_review: allow
people:
  ann: {}
  bob: {}
rules:
  - {name: small, actions: [update_price], when: "args.percent < 5.0", gate: soft, reviewers: [ann], window: 1s}
  - {name: large, actions: [update_price], gate: soft, reviewers: [bob], window: 1s}
""")
    mild = Declaration(reversible=True, reach=Reach.LOCAL, outside=False, money=False)
    request = await house.asks("update_price", {"percent": 1.0}, declared=mild)
    await house.inbox.seen(Principal("ann"), request.id)
    changed = await house.inbox.modify(Principal("ann"), request.id, {"percent": 90.0})
    assert (changed.state, changed.seen_at, changed.ends_at) == (State.PENDING, None, None)
    await house.inbox.seen(Principal("ann"), request.id)
    assert (await house.now(request)).seen_at is None, "ann may not decide the change, so she does not begin its window"
    await house.inbox.seen(Principal("bob"), request.id)
    await until(lambda: swept(house, request, State.APPROVED))


async def swept(house, request, state):
    await sweep(house.store, "default")
    return (await house.now(request)).state is state


async def test_locked_down_nothing_is_looser_than_the_last_policy_that_could_be_used(house):
    await house.policy("""
rules: [{name: salaries, actions: [list_salaries], gate: hard}]
actions: {get_report: {risk: critical}}
""")

    @house.gate.guard
    async def list_salaries(team: str) -> None: ...

    @house.gate.guard
    async def get_report(id: str) -> None: ...

    @house.gate.guard
    async def list_teams(country: str) -> str:
        return country

    def entry(version, now):
        return Entry("policy.applied", now, "default", f"policy:{version}", "a newer version", {})

    await house.desk.store.apply_policy("default", "rules: [{nonsense: true}]", "a newer version", entry)
    await until(lambda: locked(house))
    for call in (list_salaries, get_report):
        with pytest.raises(assentry.Parked):
            await call.with_(wait=0)("a")
    assert await list_teams("no") == "no"


async def locked(house):
    return house.gate.policy.version == -1


async def test_where_no_policy_could_ever_be_read_reads_wait_too(house):
    def entry(version, now):
        return Entry("policy.applied", now, "default", f"policy:{version}", "a newer version", {})

    await house.desk.store.apply_policy("default", "rules: [{nonsense: true}]", "a newer version", entry)
    judgement = Judgement(house.store, "default")
    with pytest.raises(PolicyError):
        await judgement.refresh()
    judgement.lock_down("it does not load")
    read = tool("list_teams", trusted=True)
    _, _, verdict = judgement.judged(read, {}, Context("cleanup"), await house.store.now())
    assert verdict.gate is GateKind.HARD
