"""How much an agent may ask of people: so much at once, so often a minute, not the same twice, no deafness to no."""

import asyncio
import time
from typing import Any

import pytest

import assentry
from assentry.core.request import State
from assentry.core.switch import Setting
from assentry.engine.oversight import Oversight
from assentry.errors import Limited, RunStopped
from assentry.ports import Filter
from tests.engine.conftest import House
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


def dropper(gate: assentry.Gate, did: list[str], **more: Any) -> Any:
    @gate.guard(name="drop", reversible=False, **more)
    async def drop(path: str) -> str:
        did.append(path)
        return path

    return drop


async def asked(house: House, number: int) -> None:
    for each in range(number):
        await house.gate.propose("transfer_money", {"amount": float(each)})


async def test_so_many_requests_wait_at_once_and_no_more(house: House) -> None:
    await house.policy("limits: {pending: 20}")
    await asked(house, 20)
    with pytest.raises(Limited, match="20 of its requests wait for people already"):
        await house.gate.propose("transfer_money", {"amount": 99.0})
    with pytest.raises(Limited):
        await house.gate.ask("May I?")
    assert len((await house.inbox.page(limit=100)).requests) == 20
    # Other agents are not held up by it, and neither is what needs nobody.
    await house.gate.propose("transfer_money", {"amount": 99.0}, agent="reports")
    await house.gate.propose("read_file", {"path": "a"})


async def test_once_people_have_decided_it_may_ask_again(house: House) -> None:
    await house.policy("limits: {pending: 3}")
    await asked(house, 3)
    with pytest.raises(Limited):
        await house.gate.propose("transfer_money", {"amount": 99.0})
    (request, *_) = (await house.inbox.page()).requests
    await house.inbox.deny(house.me, request.id, "no")
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await house.gate.propose("transfer_money", {"amount": 99.0})
                break
            except Limited:
                await asyncio.sleep(0.05)


async def test_so_often_a_minute_and_no_more(house: House) -> None:
    await house.policy("limits: {per_minute: 5, pending: unlimited}")
    await asked(house, 5)
    with pytest.raises(Limited, match="5 times in the last minute"):
        await house.gate.propose("transfer_money", {"amount": 99.0})
    # What was decided meanwhile was asked all the same.
    for request in (await house.inbox.page()).requests:
        await house.inbox.deny(house.me, request.id, "no")
    await asyncio.sleep(0.6)
    with pytest.raises(Limited):
        await house.gate.propose("transfer_money", {"amount": 98.0})


async def test_the_limits_hold_across_processes(house: House) -> None:
    await house.policy("limits: {pending: 4}")
    await asked(house, 4)
    other = await asyncio.to_thread(house.another_gate, agent="cleanup")
    with pytest.raises(Limited):
        await other.propose("transfer_money", {"amount": 99.0})


async def test_without_limits_nothing_is_counted(house: House) -> None:
    await house.policy("limits: {pending: unlimited}")
    await asked(house, 30)
    assert house.gate._calls.throttle._known == {}


async def test_a_step_that_has_asked_already_finds_its_request_beyond_the_limit(house: House) -> None:
    await house.policy("limits: {pending: 2}")
    did: list[str] = []
    drop = dropper(house.gate, did, patience=0)
    for path in ("a", "b"):
        with pytest.raises(assentry.Parked):
            await drop.with_(run="r", key=path)(path)
    with pytest.raises(Limited):
        await drop.with_(run="r", key="c")("c")
    with pytest.raises(assentry.Parked):
        await drop.with_(run="r", key="a")("a")


async def test_an_agent_in_a_loop_is_turned_away_and_others_are_served(house: House) -> None:
    """At sample size; `make evidence` has ten thousand."""
    await house.policy("limits: {pending: 50}")
    turned_away = 0

    async def loop() -> None:
        nonlocal turned_away
        for number in range(1000):
            try:
                await house.gate.propose("transfer_money", {"amount": float(number)})
            except Limited:
                turned_away += 1
                await asyncio.sleep(0)

    task = house.start(loop())
    did: list[str] = []
    with house.gate.context(agent="reports"):
        call = house.start(dropper(house.gate, did)("a"))
    (request,) = await house.until(bool, Filter(states=(State.PENDING,), agent="reports"))
    await house.inbox.approve(house.me, request.id)
    assert await call == "a"
    await task
    assert turned_away == 950
    assert len((await house.inbox.page(Filter(states=(State.PENDING,), agent="cleanup"), limit=100)).requests) == 50
    await house.gate._store.flush()
    assert (await house.kinds()).count("agent.limited") == 1


async def test_the_same_is_asked_once_and_both_callers_get_its_result(house: House) -> None:
    did: list[str] = []
    drop = dropper(house.gate, did)
    tasks = [house.start(drop("a")) for _ in range(3)]
    (request,) = await house.waiting()
    other = house.start(drop("b"))
    assert len(await house.waiting(2)) == 2
    await house.waited_for(request.id, 3)
    await house.inbox.approve(house.me, request.id)
    assert [await task for task in tasks] == ["a", "a", "a"]
    assert did == ["a"]
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)
    # Decided, it may be asked again.
    again = house.start(drop("a"))
    (fresh,) = await house.waiting()
    assert fresh.id != request.id
    await house.inbox.approve(house.me, fresh.id)
    assert await again == "a"


async def test_whoever_asked_first_may_give_up_without_the_other(house: House) -> None:
    did: list[str] = []
    drop = dropper(house.gate, did)
    first = house.start(drop("a"))
    (request,) = await house.waiting()
    second = house.start(drop("a"))
    await house.waited_for(request.id, 2)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    assert (await house.waiting())[0].id == request.id  # the second had nothing to withdraw
    second = house.start(drop("a"))
    await house.waited_for(request.id, 2)
    first.cancel()
    await house.in_state(request.id, State.CANCELLED)
    (fresh,) = await house.waiting()
    await house.inbox.approve(house.me, fresh.id)
    assert (await second, did) == ("a", ["a"])


async def denied(house: House, number: int, first: int = 0) -> None:
    for each in range(first, first + number):
        proposal = await house.gate.propose("transfer_money", {"amount": float(each)})
        assert proposal.request is not None
        await house.inbox.deny(house.me, proposal.request.id, "no")


async def test_an_agent_that_is_denied_again_and_again_is_paused(house: House) -> None:
    await house.policy("limits: {denials: 3}")
    await denied(house, 2)
    assert await house.desk.store.switches("default") != ()
    assert not any(switch.is_held for switch in await house.desk.store.switches("default"))
    await denied(house, 1, 2)
    (switch,) = await house.desk.store.switches("default")
    assert (switch.agent, switch.setting, switch.by) == ("cleanup", Setting.PAUSE, "assentry")
    assert switch.reason == "3 of its requests in a row were denied"
    async with asyncio.timeout(PATIENCE):
        while house.gate._judgement.held_up("cleanup") is None:
            await asyncio.sleep(0.005)
    with pytest.raises(RunStopped, match="in a row were denied"):
        await house.gate.propose("transfer_money", {"amount": 9.0})
    async for _ in Oversight(house.desk.store, "default").release(house.me, "cleanup"):
        pass
    async with asyncio.timeout(PATIENCE):
        while house.gate._judgement.held_up("cleanup") is not None:
            await asyncio.sleep(0.005)
    await denied(house, 2, 10)  # counted anew
    assert not any(switch.is_held for switch in await house.desk.store.switches("default"))


async def test_an_approval_in_between_starts_the_count_again(house: House) -> None:
    await house.policy("limits: {denials: 3}")
    await denied(house, 2)
    proposal = await house.gate.propose("transfer_money", {"amount": 50.0})
    assert proposal.request is not None
    phrase = (await house.inbox.brief(proposal.request.id)).phrase
    await house.inbox.approve(house.me, proposal.request.id, confirm=phrase)
    await denied(house, 2, 10)
    (switch,) = await house.desk.store.switches("default")
    assert (switch.denials, switch.is_held) == (2, False)


async def test_ten_thousand_refusals_cost_no_query_each(house: House) -> None:
    await house.policy("limits: {pending: 1}")
    await asked(house, 1)
    counted = 0
    count = house.gate._store.pressure

    async def counting(*args: Any) -> Any:
        nonlocal counted
        counted += 1
        return await count(*args)

    house.gate._store.pressure = counting  # type: ignore[method-assign]
    began, refused = time.monotonic(), 0
    for number in range(2000):
        try:
            await house.gate.propose("transfer_money", {"amount": 100.0 + number})
        except Limited:
            refused += 1
    assert refused == 2000
    assert counted <= 2 + (time.monotonic() - began) / 0.4


async def test_many_at_once_do_not_slip_past_the_limits(house: House) -> None:
    await house.policy("limits: {pending: 3}")
    made = await asyncio.gather(
        *(house.gate.propose("transfer_money", {"amount": float(each)}) for each in range(20)), return_exceptions=True
    )
    assert sum(isinstance(each, Limited) for each in made) == 17
    await house.policy("limits: {per_minute: 7, pending: unlimited}")
    made = await asyncio.gather(
        *(house.gate.propose("transfer_money", {"amount": 100.0 + each}, agent="b") for each in range(20)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Limited) for each in made) == 13


@pytest.mark.parametrize(
    ("policy", "scope", "said", "allowed"),
    [
        ("version: 1", {"actions": ["discard_file"], "files": 3}, {}, 3),
        ("limits: {budget: 10}", {"actions": ["discard_file"]}, {"cost": 4.0}, 2),
        ("limits: {steps: 3}", {"actions": ["discard_file"]}, {}, 3),
    ],
)
async def test_calls_at_once_use_up_no_more_than_the_run_was_given(
    house: House, policy: str, scope: dict[str, Any], said: dict[str, Any], allowed: int
) -> None:
    await house.policy(policy)
    did: list[str] = []

    @house.gate.guard(reversible=False)
    async def discard_file(path: str) -> str:
        did.append(path)
        return path

    async def work() -> Any:
        async with house.gate.run("Tidy up", scope=scope):
            return await asyncio.gather(*(discard_file.with_(**said)(f"/srv/{each}") for each in range(8)))

    house.start(work())
    requests = await house.waiting(8 - allowed)
    async with asyncio.timeout(PATIENCE):
        while len(did) < allowed:
            await asyncio.sleep(0.01)
    assert (len(did), len(requests)) == (allowed, 8 - allowed)


@pytest.mark.parametrize(
    ("name", "args", "waits"),
    [
        ("discard_file", {"path": "/srv/a"}, False),  # a file, by its name
        ("drop", {"path": "/srv/a"}, False),  # a file, by its path
        ("discard_reports", {"reports": ["/srv/a.pdf"]}, False),  # files, by their paths
        ("discard_order", {"number": 7}, True),  # no file at all, so the limit could not bind
    ],
)
async def test_what_cannot_be_counted_against_the_scope_is_not_given_leave(
    house: House, name: str, args: dict[str, Any], waits: bool
) -> None:
    from assentry.core.action import Declaration, Reach

    async with house.gate.run("Tidy up", scope={"actions": ["d*"], "files": 3}):
        declared = Declaration(reversible=False, reach=Reach.SERVICE)
        proposal = await house.gate.propose(name, args, declared=declared)
        assert proposal.request is not None
        assert (proposal.request.state is State.PENDING) == waits


async def test_calls_of_different_objects_are_not_the_same(house: House) -> None:
    class Shelf:
        def __init__(self, name: str) -> None:
            self.name, self.took = name, 0

        @house.gate.guard(reversible=False)
        async def discard(self, item: str) -> str:
            self.took += 1
            return f"took {item} from {self.name}"

    a, b = Shelf("A"), Shelf("B")
    tasks = [house.start(each.discard("x")) for each in (a, b)]
    for request in await house.waiting(2):
        await house.inbox.approve(house.me, request.id)
    assert [await task for task in tasks] == ["took x from A", "took x from B"]


async def test_questions_with_other_terms_are_not_the_same(house: House) -> None:
    first = house.start(house.gate.ask("May I?", best_guess="yes"))
    (guessed,) = await house.waiting()
    second = house.start(house.gate.ask("May I?"))
    third = house.start(house.gate.ask("May I?"))
    requests = await house.waiting(2)
    assert len(requests) == 2
    for request in requests:
        await house.waited_for(request.id, 1 if request.id == guessed.id else 2)
        assert request.ask.question is not None
        await house.inbox.answer(house.me, request.id, "no" if not request.ask.question.has_best_guess else "maybe")
    assert [await first, await second, await third] == ["maybe", "no", "no"]


@pytest.mark.parametrize("name", ["", "*"])
async def test_an_agent_has_a_name_of_its_own(house: House, name: str) -> None:
    with pytest.raises(assentry.InvalidArguments, match="has a name"):
        await house.gate.propose("transfer_money", {"amount": 1.0}, agent=name)


async def test_where_nothing_is_held_a_run_beyond_its_scope_goes_on(house: House) -> None:
    await house.policy("mode: observe")
    did: list[str] = []
    drop = dropper(house.gate, did)
    async with asyncio.timeout(PATIENCE):
        async with house.gate.run("Tidy up", scope={"actions": ["drop"], "files": 1}):
            for path in ("/srv/a", "/srv/b", "/srv/c"):
                await drop(path)
    assert len(did) == 3


async def test_two_grants_that_are_used_up_are_both_left_aside(house: House) -> None:
    """Known here as they were a moment ago; each is tried once."""
    from datetime import UTC, datetime

    from assentry.core.grant import Grant

    until = datetime(2100, 1, 1, tzinfo=UTC)
    house.gate._judgement.grants = tuple(Grant(name, "default", ("drop",), until, "ann") for name in ("g1", "g2"))
    did: list[str] = []
    task = house.start(dropper(house.gate, did)("a"))
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    assert await task == "a"
