"""After a long pause: what a person saw is looked up again, and what differs is asked about before anything runs."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import assentry
from assentry.core.request import Request, Review, State
from assentry.core.run import RunState
from assentry.errors import GuardError
from assentry.ports import Filter
from tests.engine.conftest import House
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


class Cluster:
    """Something outside that goes on while people think."""

    def __init__(self, gate: assentry.Gate, **more: Any) -> None:
        self.count, self.did, self.looks = 47, 0, 0

        @gate.guard(name="terminate", reversible=False, facts=self.look, **{"refresh": True, **more})
        async def terminate(role: str) -> int:
            self.did += 1
            return self.count

        self.terminate = terminate

    def look(self, args: Any) -> dict[str, Any]:
        self.looks += 1
        if self.count < 0:
            raise OSError("the cloud is down")
        return {"instances": self.count}


FRESH_FOR_A_BLINK = "limits: {fresh: 1s}\n"


async def second_round(house: House, request: Request) -> Request:
    found = await house.until(lambda found: bool(found) and found[0].round == 1, Filter(states=(State.PENDING,)))
    assert found[0].id == request.id
    return found[0]


async def old(house: House, request: Request) -> None:
    """So long ago that it is to be looked up again."""
    async with asyncio.timeout(PATIENCE):
        while await house.desk.store.now() - request.ask.created_at < timedelta(seconds=1.01):
            await asyncio.sleep(0.02)


async def test_what_changed_is_shown_and_asked_about_again(house: House) -> None:
    await house.policy(FRESH_FOR_A_BLINK)
    cluster = Cluster(house.gate)
    task = house.start(cluster.terminate("standby"))
    (request,) = await house.waiting()
    await old(house, request)
    cluster.count = 52
    first = await house.inbox.brief(request.id)
    await house.inbox.approve(house.me, request.id, seen_digest=first.digest)
    again = await second_round(house, request)
    assert (again.changes, again.votes, again.permit, cluster.did) == (("instances: 47 → instances: 52",), (), None, 0)
    card = await house.inbox.brief(request.id)
    assert "Since it was approved: instances: 47 → instances: 52" in card.why
    assert [fact.says for fact in card.facts if fact.looked_up] == ["instances: 52"]
    # Whoever still has the old card before them does not decide the new one.
    with pytest.raises(assentry.AssentryError, match="changed"):
        await house.inbox.approve(house.me, request.id, seen_digest=first.digest)
    await house.inbox.approve(house.me, request.id, seen_digest=card.digest)
    assert (await task, cluster.did) == (52, 1)
    assert "request.asked_again" in await house.kinds(request.id)


async def test_what_is_as_it_was_runs(house: House) -> None:
    await house.policy(FRESH_FOR_A_BLINK)
    cluster = Cluster(house.gate)
    task = house.start(cluster.terminate("standby"))
    (request,) = await house.waiting()
    await old(house, request)
    await house.inbox.approve(house.me, request.id)
    assert (await task, cluster.did, cluster.looks) == (47, 1, 2)


async def test_what_was_seen_a_moment_ago_is_not_looked_up_again(house: House) -> None:
    cluster = Cluster(house.gate)
    task = house.start(cluster.terminate("standby"))
    (request,) = await house.waiting()
    cluster.count = 52
    await house.inbox.approve(house.me, request.id)
    assert (await task, cluster.did, cluster.looks) == (52, 1, 1)


async def test_what_cannot_be_looked_up_again_counts_as_changed(house: House) -> None:
    await house.policy(FRESH_FOR_A_BLINK)
    cluster = Cluster(house.gate)
    task = house.start(cluster.terminate("standby"))
    (request,) = await house.waiting()
    await old(house, request)
    cluster.count = -1
    await house.inbox.approve(house.me, request.id)
    again = await second_round(house, request)
    assert again.changes == ("what it depends on could not be looked up again (OSError)",)
    await house.inbox.deny(house.me, request.id, "not now")
    with pytest.raises(assentry.Denied, match="not now"):
        await task
    assert cluster.did == 0


async def test_a_rule_may_let_it_run_and_be_looked_at_afterwards(house: House) -> None:
    await house.policy(
        FRESH_FOR_A_BLINK + "rules:\n  - {name: machines, actions: [terminate], gate: hard, if_changed: run}\n"
    )
    cluster = Cluster(house.gate)
    task = house.start(cluster.terminate("standby"))
    (request,) = await house.waiting()
    await old(house, request)
    cluster.count = 52
    await house.inbox.approve(house.me, request.id)
    assert (await task, cluster.did) == (52, 1)
    done = await house.in_state(request.id, State.DONE)
    assert (done.changes, done.review) == (("instances: 47 → instances: 52",), Review.OPEN)
    assert "it went ahead although things had changed since" in " ".join((await house.inbox.brief(request.id)).warnings)


async def test_a_parked_run_parks_again_on_what_changed(house: House) -> None:
    await house.policy(FRESH_FOR_A_BLINK)
    cluster = Cluster(house.gate)

    @house.gate.host("loop")
    async def resume(state: Any, resumption: Any) -> Any:
        return [await cluster.terminate("standby"), resumption.summary]

    async def begun() -> None:
        async with house.gate.run("Tidy up", host="loop"):
            await cluster.terminate("standby")

    with pytest.raises(assentry.Parked):
        await begun()
    (request,) = await house.waiting()
    await old(house, request)
    cluster.count = 52
    async with house.gate.worker():
        await house.inbox.approve(house.me, request.id)
        await second_round(house, request)
        await house.until_run(RunState.PARKED)
        await house.inbox.approve(house.me, request.id)
        record = await house.until_run(RunState.FINISHED)
    assert (record.outcome[0], cluster.did) == (52, 1)
    assert "Since it was first approved: instances: 47 → instances: 52." in record.outcome[1]


async def test_a_worker_looks_again_as_well(house: House) -> None:
    await house.policy(FRESH_FOR_A_BLINK)
    cluster = Cluster(house.gate, detached=True, patience=0)
    with pytest.raises(assentry.Parked) as parked:
        await cluster.terminate("standby")
    (request,) = await house.waiting()
    await old(house, request)
    cluster.count = 52
    await house.inbox.approve(house.me, request.id)
    async with house.gate.worker():
        await second_round(house, request)
        assert cluster.did == 0
        await house.inbox.approve(house.me, request.id)
        await house.in_state(parked.value.request_id, State.DONE)
    assert cluster.did == 1


async def test_refreshing_needs_something_to_look_at(house: House) -> None:
    with pytest.raises(GuardError, match="pass a function"):
        house.gate.guard(name="terminate", refresh=True)(lambda role: None)


async def test_changed_arguments_are_looked_up_before_they_run(house: House) -> None:
    await house.policy(
        "rules:\n  - {name: big, actions: [scale], when: 'has(facts.instances) && facts.instances > 100', gate: forbid}\n"
    )
    did: list[str] = []

    @house.gate.guard(reversible=False, facts=lambda args: {"instances": 5000 if args["name"] == "production" else 1})
    async def scale(name: str) -> str:
        did.append(name)
        return name

    task = house.start(scale("tiny"))
    (request,) = await house.waiting()
    await house.inbox.modify(house.me, request.id, {"name": "production"})
    with pytest.raises(assentry.Denied, match='by rule "big" it is forbidden'):
        await task
    task = house.start(scale("tiny"))
    (request,) = await house.waiting()
    await house.inbox.modify(house.me, request.id, {"name": "small"})
    assert (await task, did) == ("small", ["small"])


async def test_asked_again_it_waits_as_long_as_anything_that_was_just_asked(house: House) -> None:
    await house.policy("limits: {fresh: 1s, time: 1h}")
    cluster = Cluster(house.gate)
    house.start(cluster.terminate("standby"))
    (request,) = await house.waiting()
    await old(house, request)
    cluster.count = 52
    await house.inbox.approve(house.me, request.id)
    again = await second_round(house, request)
    assert again.ends_at is not None
    assert again.ends_at - request.ask.created_at > timedelta(hours=1, seconds=1)
    assert (again.rung, again.told, again.frozen_at) == (0, (), None)
    assert request.ask.created_at + again.frozen <= again.changed_at
