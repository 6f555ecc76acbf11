"""What somebody tried, and what now stops it. Each test is an attack that once worked."""

import asyncio
import functools
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import StringConstraints

import assentry
from assentry.core.action import Risk
from assentry.core.authority import Principal
from assentry.core.decision import Candidate
from assentry.core.grant import Terms
from assentry.core.request import State
from assentry.core.verdict import GateKind
from assentry.engine import asking
from assentry.engine.grants import give
from assentry.errors import ActionFailed, GuardError, InvalidArguments
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


async def test_what_its_proposer_only_pretends_may_run_is_not_run_by_a_worker(house, monkeypatch):
    ran = []

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def wire_transfer(to: str) -> None:
        ran.append(to)

    honest = asking.Judgement.candidate

    def pretend(self: Any, *args: Any, **more: Any) -> Candidate:
        made = honest(self, *args, **more)
        return replace(made, verdict=replace(made.verdict, gate=GateKind.WATCH))

    monkeypatch.setattr(asking.Judgement, "candidate", pretend)
    with pytest.raises(assentry.Parked) as parked:
        await wire_transfer("mallory")
    monkeypatch.undo()
    assert (await house.desk.store.request("default", parked.value.request_id)).state is State.APPROVED
    other = house.another_gate()

    @other.guard(reversible=False, detached=True, name="wire_transfer")
    async def wire_there(to: str) -> None:
        ran.append(to)

    async with other.worker():
        ended = await house.in_state(parked.value.request_id, State.CANCELLED, State.DONE)
    assert ran == []
    assert "policy says" in ended.reason


async def test_what_policy_has_forbidden_since_it_was_approved_does_not_run(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> None:
        raise AssertionError("ran although forbidden")

    step = delete_files.with_(run="r", key="1")
    with pytest.raises(assentry.Parked) as parked:
        await step(["a"])
    await house.inbox.approve(house.me, parked.value.request_id)
    await house.policy("rules: [{name: never, actions: ['delete_*'], gate: forbid}]")
    with pytest.raises(assentry.Denied, match="not run although approved"):
        await step(["a"])


async def test_a_grant_that_was_used_up_does_not_leave_the_call_without_a_gate(house):
    ran = []

    @house.gate.guard(patience=0)
    async def run_command(command: str) -> None:
        ran.append(command)

    await give(house.desk.store, "default", house.me, Terms(("run_command",), timedelta(hours=1), limit=1))
    await house.gate._judgement.refresh()
    command = "ls TOKEN=xxxxxxxxxxxx;mv$IFS/srv$IFS/gone"
    ended = await asyncio.gather(*(run_command(command) for _ in range(4)), return_exceptions=True)
    assert len(ran) <= 1
    assert sum(isinstance(each, assentry.Parked) for each in ended) >= 3


async def test_an_option_whose_action_is_not_here_uses_up_no_permit(house):
    @house.gate.guard(reversible=True, reach="local")
    async def move_files(files: list[str]) -> None: ...

    @house.gate.guard(
        reversible=False, patience=0, options=[assentry.option("move", "", {"files": ["a"]}, instead="move_files")]
    )
    async def delete_files(files: list[str]) -> None: ...

    step = delete_files.with_(run="r", key="1")
    with pytest.raises(assentry.Parked) as parked:
        await step(["a"])
    await house.inbox.choose(house.me, parked.value.request_id, 0)
    del house.gate._tools["move_files"]
    with pytest.raises(assentry.AssentryError, match="not guarded"):
        await step(["a"])
    assert (await house.desk.store.request("default", parked.value.request_id)).state is State.APPROVED


async def test_an_approval_is_for_the_schema_that_was_shown(house):
    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def purge_folder(path: str) -> str:
        return "as shown"

    with pytest.raises(assentry.Parked) as parked:
        await purge_folder("/tmp/cache")
    await house.inbox.approve(house.me, parked.value.request_id)
    other = house.another_gate()

    @other.guard(reversible=False, detached=True, name="purge_folder")
    async def purge_more(path: str, everywhere: bool = True) -> str:
        raise AssertionError("ran with a parameter that nobody saw")

    with pytest.raises(assentry.Conflict, match="another schema"):
        await other._execution.run(
            other._tools["purge_folder"], await house.in_state(parked.value.request_id, State.APPROVED), {}
        )


async def test_a_default_is_shown_and_judged_like_any_argument(house):
    @house.gate.guard(reversible=True, reach="local")
    async def archive_files(files: list[str], target: str = "/etc/cron.d") -> str:
        return target

    @house.gate.guard(
        reversible=False, patience=0,
        options=[assentry.option("Archive", "kept", {"files": ["a"]}, instead="archive_files")],
    )  # fmt: skip
    async def delete_files(files: list[str], environment: str = "production") -> str:
        return environment

    with pytest.raises(assentry.Parked) as parked:
        await delete_files(["a"], "staging")
    brief = await house.inbox.brief(parked.value.request_id)
    assert brief.options[0].args["target"] == "/etc/cron.d"
    after = await house.inbox.modify(house.me, parked.value.request_id, {"files": ["a"]}, confirm="delete_files 1")
    assert '"environment":"production"' in after.candidate.args_text


async def test_what_would_run_otherwise_than_shown_does_not_run(house):
    ran = []

    @house.gate.guard(reversible=False)
    async def delete_account(account: Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)]) -> None:
        ran.append(account)

    call = house.start(delete_account("bob"))
    (request,) = await house.waiting()
    await house.inbox.modify(house.me, request.id, {"account": "  ADMIN  "}, confirm="delete_account")
    with pytest.raises(assentry.InvalidArguments, match="nothing ran"):
        await call
    assert ran == []


async def test_roles_that_a_surface_claims_do_not_fill_a_quorum(house):
    await house.policy(
        """
people:
  alice: {roles: [manager], os_users: [alice]}
  bob: {roles: [intern], os_users: [bob]}
  carol: {roles: [finance], os_users: [carol]}
rules: [{name: pay, actions: [wire_transfer], gate: hard, quorum: {count: 2, roles: [finance]}}]
"""
    )

    @house.gate.guard(reversible=False, reach="local", patience=0)
    async def wire_transfer(to: str) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await wire_transfer("m")
    await house.inbox.approve(Principal("alice"), parked.value.request_id)
    after = await house.inbox.approve(Principal("bob", roles=("finance",)), parked.value.request_id)
    assert after.state is State.PENDING


async def test_an_agent_in_a_hurry_does_not_shorten_the_window_of_a_soft_gate(house):
    await house.policy("rules: [{name: soft, actions: ['tag_*'], gate: soft, window: 10m}]")

    @house.gate.guard(reversible=True, reach="service", needed_by=timedelta(microseconds=1), patience=0)
    async def tag_record(record: str) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await tag_record("r")
    await house.inbox.seen(house.me, parked.value.request_id)
    request = await house.desk.store.request("default", parked.value.request_id)
    assert request.ends_at - request.seen_at == timedelta(minutes=10)


async def test_a_proposal_that_ran_says_so_instead_of_what_may_run(house):
    first = await house.gate.propose("transfer_money", {"amount": 12.5}, run="r", key="k")
    phrase = (await house.inbox.brief(first.request.id)).phrase
    await house.inbox.approve(house.me, first.request.id, confirm=phrase)
    async with first.execution() as running:
        running.result = "sent"
    second = await house.gate.propose("transfer_money", {"amount": 12.5}, run="r", key="k")
    with pytest.raises(assentry.AlreadyDecided, match="carried out already"):
        await second.outcome(0)
    with pytest.raises(assentry.AlreadyDecided):
        async with second.execution():
            pytest.fail("ran twice")


@pytest.mark.parametrize(
    "said",
    [{"confidence": "high"}, {"confidence": float("nan")}, {"why": 5}, {"alternatives": ("a", 1)}, {"cost": "1"},
     {"run": "\ud800"}, {"agent": 7}],
)  # fmt: skip
async def test_what_cannot_be_put_on_record_is_refused_where_it_is_said(house, said):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(paths: list[str]) -> None: ...

    with pytest.raises(InvalidArguments):
        await delete_files.with_(**said)(["a"])
    assert not (await house.inbox.page()).requests
    with pytest.raises(InvalidArguments):
        await house.gate.ask("Which?", choices=[1, 2], patience=0)


async def test_a_budget_is_charged_with_everything_a_call_spends(house):
    @house.gate.guard(outside=True, money=True, patience=0)
    async def pay_all(payments: list[dict[str, Any]]) -> int:
        return len(payments)

    hour, most = timedelta(hours=1), Decimal(100)
    terms = Terms(("pay_all",), hour, budget=most, currency="EUR", max_risk=Risk.CRITICAL)
    await give(house.desk.store, "default", house.me, terms)
    await house.gate._judgement.refresh()
    one = {"to": "x", "amount": 9.0, "currency": "EUR"}
    with pytest.raises(assentry.Parked):
        await pay_all([one] * 50)
    assert await pay_all([one] * 2) == 2
    (grant,) = await house.desk.store.grants("default")
    assert grant.spent == Decimal(18)


async def test_a_proposal_that_policy_has_forbidden_since_is_not_carried_out(house):
    proposal = await house.gate.propose("delete_files", {"files": ["a"]}, description="Delete files.")
    await house.inbox.approve(house.me, proposal.request.id)
    await house.policy("rules:\n  - name: never\n    actions: delete_files\n    gate: forbid\n")
    with pytest.raises(assentry.Denied, match="forbid"):
        async with proposal.execution():
            raise AssertionError("it ran")


async def test_a_grant_that_was_not_charged_for_it_allows_nothing(house, monkeypatch):
    """A proposer that claims a grant somebody else used up."""
    ran = []

    @house.gate.guard(reversible=False, detached=True, patience=0)
    async def send_letter(to: str) -> None:
        ran.append(to)

    once = Terms(("send_letter",), timedelta(hours=1), limit=1, max_risk=Risk.CRITICAL)
    grant = await give(house.desk.store, "default", house.me, once)
    await house.gate._judgement.refresh()
    async with house.gate.worker():
        await asyncio.wait_for(_done(send_letter, "ann"), PATIENCE)
        honest = asking.Judgement.candidate

        def pretend(self: Any, *args: Any, **more: Any) -> Candidate:
            made = honest(self, *args, **more)
            return replace(made, verdict=replace(made.verdict, gate=GateKind.WATCH, grant=grant.id))

        monkeypatch.setattr(asking.Judgement, "candidate", pretend)
        forged = await asyncio.wait_for(_done(send_letter, "mallory"), PATIENCE)
        assert (forged.state, "not charged" in forged.reason) == (State.CANCELLED, True)
    assert ran == ["ann"]


async def _done(guarded: Any, to: str) -> Any:
    try:
        return await guarded(to)
    except assentry.Parked as parked:
        return await guarded._calls.settled(await guarded._calls.store.request("default", parked.request_id), 15)


async def test_a_generator_and_a_hidden_coroutine_do_not_pass_for_results(house):
    with pytest.raises(GuardError, match="generator"):

        @house.gate.guard
        def lines() -> Any:
            yield 1

    ran = []

    async def really(path: str) -> str:
        ran.append(path)
        return "done"

    @functools.wraps(really)
    def wrapper(path: str) -> Any:
        return really(path)

    guarded = house.gate.guard(reversible=False, patience=0)(wrapper)
    with pytest.raises(assentry.Parked) as parked:
        await guarded.acall("a")
    await house.inbox.approve(house.me, parked.value.request_id)
    assert await house.gate.resume(parked.value.request_id) == "done"
    assert ran == ["a"]


async def test_a_function_that_ends_the_process_only_fails(house):
    @house.gate.guard(reversible=False, patience=0)
    async def leave(code: int) -> None:
        raise SystemExit(code)

    with pytest.raises(assentry.Parked) as parked:
        await leave(3)
    await house.inbox.approve(house.me, parked.value.request_id)
    with pytest.raises(ActionFailed):
        await house.gate.resume(parked.value.request_id)
    assert (await house.desk.store.request("default", parked.value.request_id)).state is State.FAILED


async def test_a_looked_up_amount_that_is_no_number_breaks_no_card(house):
    @house.gate.guard(risk="critical", patience=0, facts=lambda _: {"amount": "12 EUR"})
    async def settle(invoice: str) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await settle("a")
    brief = await house.inbox.brief(parked.value.request_id)
    await house.inbox.approve(house.me, parked.value.request_id, confirm=brief.phrase)


def test_a_blocking_call_after_a_fork_says_what_to_do(tmp_path):
    script = """
import os, sys
import assentry
gate = assentry.open("a.db", agent="x")

@gate.guard(reversible=True, reach="local")
def touch_file(path: str) -> str:
    return path

touch_file("a")
child = os.fork()
if child == 0:
    try:
        touch_file("b")
    except assentry.AssentryError as problem:
        print(problem)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"""
    home = {**os.environ, "ASSENTRY_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=home, capture_output=True, text=True, timeout=60, check=True
    )
    assert "forked" in done.stdout
