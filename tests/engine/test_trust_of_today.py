"""An agent elsewhere is trusted as the policy trusts it now, also where what it proposed is on record already."""

import pytest

from assentry.core.action import Declaration, Reach
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.engine.agent_calls import Described
from assentry.engine.errands import Errand, LocalErrands
from assentry.engine.judgement import Context
from assentry.engine.policies import apply_policy
from assentry.errors import Denied, StaleRequest
from tests.stage import BOSS

MILD = Declaration(reversible=True, reach=Reach.LOCAL, outside=False, money=False)
RULES = "rules:\n  - {name: mail, actions: [send_mail], when: action.trusted, gate: GATE}\n"
TRUSTED = f"agents: {{bot: {{}}}}\n{RULES}"
DROPPED = RULES


async def proposed(house, gate, declared=MILD):
    await house.policy(TRUSTED.replace("GATE", gate))
    agent = house.gate.agent("bot")
    made, _ = agent.described(Described("send_mail", declared=declared, says="A harmless note"))
    return agent, await agent.propose(made, {"to": "x@example.com"}, Context(agent="bot"))


async def applied(house, text):
    await apply_policy(house.store, house.workspace, text, BOSS, "test")
    await house.inbox.refresh()


@pytest.mark.parametrize("entry", ["", "agents: {bot: {trusted: false}}\n"])
async def test_what_a_trusted_agent_may_do_does_not_begin_once_it_is_not_trusted(house, entry):
    agent, request = await proposed(house, "watch")
    assert (request.state, request.candidate.says) == (State.APPROVED, "A harmless note")
    await applied(house, entry + DROPPED.replace("GATE", "watch"))
    with pytest.raises(Denied, match="policy says"):
        await agent.begin(request.id, attempt="one")


async def test_it_begins_for_as_long_as_it_is_trusted(house):
    agent, request = await proposed(house, "watch")
    await applied(house, TRUSTED.replace("GATE", "watch") + "limits: {time: 2h}\n")
    assert (await agent.begin(request.id, attempt="one")).state is State.RUNNING


async def test_what_waits_is_asked_anew_as_a_strangers(house):
    _, request = await proposed(house, "hard", Declaration(reversible=True, reach=Reach.LOCAL))
    strict = "  - {name: strangers, actions: [send_mail], gate: manual}\n"
    await applied(house, DROPPED.replace("GATE", "hard") + strict)
    with pytest.raises(StaleRequest, match="types what they confirm"):
        await house.inbox.approve(Principal("ann"), request.id)
    changed = house.inbox.changed(await house.now(request), {"to": "y@example.com"})
    assert (changed.action.trusted, changed.action.claimed.reversible) == (False, True)
    assert changed.says != "A harmless note"


async def test_trust_that_came_later_loosens_nothing(house):
    await house.policy(DROPPED.replace("GATE", "watch"))
    agent = house.gate.agent("bot")
    made, _ = agent.described(Described("send_mail", declared=MILD))
    request = await agent.propose(made, {"to": "x@example.com"}, Context(agent="bot"))
    assert request.state is State.PENDING
    await applied(house, TRUSTED.replace("GATE", "watch"))
    assert (await house.inbox.approve(house.me, request.id)).candidate.action.trusted is False


async def test_what_the_operators_own_adapter_vouches_for_does_not_depend_on_the_entry_of_its_agent(house):
    await house.policy(DROPPED.replace("GATE", "watch"))
    errands = LocalErrands(house.gate.agent("bot"), house.gate._vault)
    told = await errands.propose(Errand("send_mail", {"to": "x"}, "send_mail", trusted=True), "one")
    await applied(house, DROPPED.replace("GATE", "watch") + "limits: {time: 2h}\n")
    assert (await errands.begin(told, "first")).state == "running"


SURE = "rules: [{name: sure, actions: ['send_*'], when: 'has(action.confidence) && action.confidence > 0.9', gate: watch}]\n"


@pytest.mark.parametrize(("entry", "state"), [("", State.PENDING), ("agents: {bot: {}}\n", State.APPROVED)])
async def test_how_sure_a_stranger_says_it_is_chooses_no_milder_rule(house, entry, state):
    await house.policy(entry + SURE)
    agent = house.gate.agent("bot")
    made, _ = agent.described(Described("send_mail", declared=MILD))
    request = await agent.propose(made, {"to": "x@example.com"}, Context(agent="bot", confidence=0.99))
    assert request.state is state
