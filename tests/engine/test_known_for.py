"""What an instance knows of policy, grants and switches is good for a while; then nothing runs by it until it is read."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import assentry
from assentry.core.switch import EVERYTHING, Setting
from assentry.engine import judgement
from assentry.engine.errands import Errand, LocalErrands
from assentry.engine.policies import apply_policy
from assentry.errors import GuardError, Parked, PolicyError, Refused, RunStopped, StoreError
from tests.engine.conftest import House
from tests.stage import BOSS, until

LOOSE = "limits: {known_for: 60s}\nrules: [{name: free, actions: [read_*], gate: run}]"
CLOSED = "limits: {known_for: 60s}\nrules: [{name: no, actions: [read_*], gate: forbid}]"


class Clock:
    """The clock by which what is known lapses, as this test sets it on; it also counts while nothing else does."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("judgement", "holding", "agent_calls"):
        monkeypatch.setattr(f"assentry.engine.{module}.clock", made)
    return made


@pytest.fixture
async def deaf(house: House, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> House:
    """The gate knows a policy by which whatever reads runs, and hears of nothing any more."""
    monkeypatch.setattr(house.gate._store, "watch", lambda notice: lambda: None)
    house.gate._hub.stop()
    await apply_policy(house.store, "default", LOOSE, BOSS)
    await house.gate._judgement.refresh()
    await house.inbox.refresh()
    return house


def reads(house: House) -> Callable[[], int]:
    """How often the gate has read its policy since."""
    count, policy = [0], house.gate._store.policy

    async def counted(workspace: str) -> Any:
        count[0] += 1
        return await policy(workspace)

    house.gate._store.policy = counted
    return lambda: count[0]


class Turned(Exception):
    """Whoever carries it out elsewhere was told that it does not simply run."""


WAYS = (
    *("awaited", "in a thread", "blocking", "on a loop", "proposed", "errand", "foreseen"),
    *("in a run", "blocking in a run", "on a loop in a run"),
)


async def called(house: House, how: str) -> None:
    """A call that needs no approval was made like this; raises where it may not be."""
    ran: list[str] = []

    async def read_pages() -> None:
        ran.append("pages")

    def read_notes() -> None:
        ran.append("notes")

    house.gate._tools.clear()
    awaited, plain = house.gate.guard(read_pages), house.gate.guard(read_notes)
    errand = Errand("read_notes", {}, "read_notes", trusted=True)
    errands = LocalErrands(house.gate.agent("cleanup"), house.gate._vault)
    match how:
        case "awaited":
            await awaited()
        case "in a thread":
            await plain.acall()
        case "blocking":
            await asyncio.to_thread(plain)
        case "on a loop":
            plain()
        case "proposed":
            async with (await house.gate.propose("read_notes", {})).execution():
                ran.append("proposed")
        case "errand":
            if not (await errands.propose(errand, "1")).simply_runs:
                raise Turned
            ran.append("errand")
        case "foreseen":
            if [str(gate) for gate in await errands.gates([errand])] != ["run"]:
                raise Turned
            ran.append("foreseen")
        case "in a run":
            async with house.gate.run("Look around"):
                await awaited()
        case "blocking in a run":
            async with house.gate.run("Look around"):
                await asyncio.to_thread(plain)
        case _:
            async with house.gate.run("Look around"):
                plain()
    assert ran


async def forbidden(house: House) -> None:
    await apply_policy(house.store, "default", CLOSED, BOSS)


async def stopped(house: House) -> None:
    async for _ in house.desk.oversight.hold(BOSS, EVERYTHING, Setting.STOP):
        pass


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("take_away", [forbidden, stopped])
async def test_a_deaf_instance_runs_nothing_by_what_it_read_too_long_ago(
    deaf: House, clock: Clock, how: str, take_away: Callable[[House], Any]
) -> None:
    if take_away is stopped and how == "foreseen":
        pytest.skip("which gate a call has does not depend on switches")
    await called(deaf, how)
    await take_away(deaf)
    clock.now += 59.9
    if "run" not in how or take_away is forbidden:  # a run begins on record, and there a stop is seen at once
        await called(deaf, how)
    clock.now += 0.2
    with pytest.raises((Refused, RunStopped, GuardError, Turned)):
        await called(deaf, how)


@pytest.mark.parametrize("how", ["awaited", "in a thread", "blocking", "on a loop"])
async def test_a_call_whose_process_was_suspended_after_it_was_judged_is_judged_again(
    deaf: House, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    await apply_policy(deaf.store, "default", CLOSED, BOSS)
    values = assentry.engine.guard.Guarded._values

    def suspended(self: Any, prepared: Any) -> Any:
        clock.now += 61
        return values(self, prepared)

    monkeypatch.setattr("assentry.engine.guard.Guarded._values", suspended)
    with pytest.raises((Refused, GuardError)):
        await called(deaf, how)


async def test_what_simply_ran_when_it_was_proposed_is_judged_again_where_it_is_carried_out_much_later(
    deaf: House, clock: Clock
) -> None:
    proposal = await deaf.gate.propose("read_notes", {})
    assert proposal.request is None
    await apply_policy(deaf.store, "default", CLOSED.replace("forbid", "hard"), BOSS)
    clock.now += 61
    with pytest.raises(Parked):
        await proposal.outcome(patience=0)
    assert [each.candidate.action.name for each in await deaf.waiting()] == ["read_notes"]


@pytest.mark.parametrize("how", WAYS)
async def test_where_it_cannot_be_read_nothing_runs(deaf: House, clock: Clock, how: str) -> None:
    async def away(workspace: str) -> Any:
        raise StoreError("the database is away")

    await called(deaf, how)
    deaf.gate._store.policy = away
    clock.now += 61
    with pytest.raises(StoreError, match=r"nothing runs here until the policy can be read again: the database is away"):
        await called(deaf, how)


@pytest.mark.parametrize("how", ["awaited", "blocking", "on a loop", "proposed"])
async def test_a_database_that_hangs_does_not_hang_a_call_for_ever(
    deaf: House, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def hangs(workspace: str) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(judgement, "READ_SECONDS", 0.05)
    deaf.gate._store.policy = hangs
    clock.now += 61
    with pytest.raises(StoreError, match="nothing runs here until the policy can be read again"):
        await called(deaf, how)
    del deaf.gate._store.policy
    await called(deaf, how)


async def test_an_idle_gate_reads_nothing_and_a_busy_one_reads_beside_its_calls(deaf: House, clock: Clock) -> None:
    count = reads(deaf)
    clock.now += 29
    await called(deaf, "awaited")
    assert count() == 0
    clock.now += 2
    known = deaf.gate._judgement.until
    policy = deaf.gate._store.policy

    async def slowly(workspace: str) -> Any:
        await goes_on.wait()
        return await policy(workspace)

    portal = deaf.gate.portal
    goes_on = await asyncio.wrap_future(portal.submit(_event()))
    deaf.gate._store.policy = slowly
    for _ in range(5):
        await called(deaf, "awaited")  # nobody waits for what is read meanwhile
        await asyncio.to_thread(lambda: None)
    assert deaf.gate._judgement.until == known
    portal.loop.call_soon_threadsafe(goes_on.set)

    async def was_read() -> bool:
        return deaf.gate._judgement.until > known

    await until(was_read)
    assert count() == 1, "one at a time"
    assert deaf.gate._judgement.until == clock.now + 60


async def _event() -> asyncio.Event:
    return asyncio.Event()


async def test_many_calls_that_find_it_lapsed_read_once(deaf: House, clock: Clock) -> None:
    count = reads(deaf)
    clock.now += 61
    await asyncio.gather(*(deaf.gate._judgement.renewed() for _ in range(50)))
    assert count() == 1


async def test_a_policy_that_does_not_load_is_looked_at_again_as_soon_as_can_be(
    deaf: House, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = reads(deaf)
    await apply_policy(deaf.store, "default", CLOSED, BOSS)

    def newer(text: str, version: int) -> Any:
        raise PolicyError(("written for a newer version",))

    monkeypatch.setattr("assentry.core.policy_file.stored_policy", newer)
    clock.now += 61
    await called(deaf, "awaited")  # reads run as the last policy that could be used says
    proposal = await deaf.gate.propose("write_notes", {}, declared=assentry.Declaration(reversible=True))
    assert proposal.request is not None
    assert "cannot be used" in proposal.request.candidate.verdict.because
    before = count()
    clock.now += 0.2
    await called(deaf, "awaited")
    assert count() > before
    monkeypatch.undo()


async def test_a_run_that_a_person_stopped_reads_nothing_more_at_a_deaf_instance(deaf: House, clock: Clock) -> None:
    ran: list[int] = []

    @deaf.gate.guard
    async def read_notes() -> None:
        ran.append(1)

    async def looked_around() -> None:
        async with deaf.gate.run("Look around"):
            await read_notes()
            await deaf.desk.oversight.stop(BOSS, await deaf.run())
            await read_notes()
            assert len(ran) == 2
            clock.now += 61
            await read_notes()

    with pytest.raises(RunStopped):
        await looked_around()
    assert len(ran) == 2


async def test_how_long_others_may_go_on_is_said_by_the_policies_of_the_last_minute(house: House) -> None:
    async def seconds() -> float:
        return (await house.desk.rules.everywhere_within()).total_seconds()

    assert await seconds() == 5
    await house.policy("limits: {known_for: 60s}")
    assert await seconds() == 60
    await house.policy("limits: {known_for: 200ms}")
    assert 0 < await seconds() <= 60, "somebody may have read the one before right before this one"
    for known in ("2s", "1s", "300ms", "1s", "2s"):
        await house.policy(f"limits: {{known_for: {known}}}")
    assert 0 < await seconds() <= 60
