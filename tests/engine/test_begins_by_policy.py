"""Whatever begins is judged by the policy that is active as it begins: calls that nobody decides, and calls of a grant."""

import asyncio
from datetime import timedelta

import pytest

import assentry
from assentry.core.action import Risk
from assentry.core.authority import Principal
from assentry.core.grant import Terms
from assentry.core.request import State
from assentry.engine.grants import give, take_back
from assentry.engine.policies import apply_policy
from assentry.errors import NotAllowed
from assentry.ports import Filter
from assentry.telling.standing import grant_document
from tests.stage import BOSS, MILD, until

PEOPLE = "people:\n  root: {roles: [operator]}\n  ann: {roles: [operator]}\n  bob: {}\n"
WATCHED = f"{PEOPLE}rules:\n  - {{name: files, actions: ['*_files'], gate: watch}}\n"
HELD = WATCHED.replace("gate: watch", "gate: hard")
FORBIDDEN = WATCHED.replace("gate: watch", "gate: forbid")
ANN = Principal("ann", roles=("operator",))
FOR_FILES = Terms(("*_files",), timedelta(hours=1))


@pytest.fixture
async def deaf(house, monkeypatch):
    """The gate does not hear of changes by itself."""
    await house.policy(WATCHED)

    async def nothing() -> None: ...

    monkeypatch.setattr(house.gate, "_refresh", nothing)
    return house


async def applied(house, text):
    """Somebody else applies this policy."""
    await apply_policy(house.store, house.workspace, text, BOSS, "test")


def moving(house, ran, **more):
    @house.gate.guard(reversible=True, reach="local", name="move_files", **more)
    async def move_files(files: list[str]) -> None:
        ran.append(files)

    return move_files


@pytest.mark.both_databases
@pytest.mark.parametrize("inside", ["", "run", "worker"])
async def test_what_is_forbidden_does_not_run_where_nobody_has_heard_of_it(deaf, inside):
    ran = []
    move_files = moving(deaf, ran, detached=inside == "worker")
    await applied(deaf, FORBIDDEN)
    assert deaf.gate._judgement.version == 1, "it has heard after all"

    async def work():
        if inside == "run":
            async with deaf.gate.run("Tidy up"):
                await move_files(["a"])
        else:
            await move_files(["a"])

    with pytest.raises(assentry.Refused, match="files"):
        await work()
    assert ran == []


async def test_a_run_inside_another_is_held_by_the_policy_of_now(deaf):
    ran = []
    move_files = moving(deaf, ran)

    async def work():
        async with deaf.gate.run("Outer"), deaf.gate.run("Inner"):
            await move_files(["a"])

    await applied(deaf, HELD)
    task = deaf.start(work())
    (request,) = await deaf.waiting()
    assert ran == []
    await deaf.inbox.refresh()
    await deaf.inbox.approve(ANN, request.id)
    await task
    assert ran == [["a"]]


@pytest.mark.both_databases
async def test_what_may_simply_go_on_by_now_does_not_wait_for_itself(deaf):
    ran = []
    await deaf.policy(HELD)
    move_files = moving(deaf, ran)
    await applied(deaf, WATCHED)
    await move_files(["a"])
    assert ran == [["a"]]


async def granted(house, by=BOSS, terms=FOR_FILES):
    """What is held is allowed by this person, and everybody has heard of it."""
    grant = await give(house.store, house.workspace, by, terms)
    await house.gate._judgement.refresh()
    return grant


async def allowed(house, **more):
    await house.policy(HELD)
    grant = await granted(house, ANN, FOR_FILES)
    proposal = await house.gate.propose("move_files", {"files": ["a"]}, declared=MILD, **more)
    assert (proposal.request.state, proposal.request.candidate.verdict.grant) == (State.APPROVED, grant.id)
    return grant, proposal


async def does_not_run(proposal, match):
    with pytest.raises(assentry.Denied, match=match):
        async with proposal.execution():
            pytest.fail("it ran")


async def test_what_a_grant_allowed_begins_also_where_that_was_its_last_use(house):
    await house.policy(HELD)
    await granted(house, ANN, Terms(("*_files",), timedelta(hours=1), limit=1))
    proposal = await house.gate.propose("move_files", {"files": ["a"]}, declared=MILD)
    await house.policy(f"{HELD}\n")
    async with proposal.execution() as running:
        running.result = "moved"
    assert proposal.is_done


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (FORBIDDEN, "policy says forbid"),
        (HELD.replace("gate: hard", "gate: manual"), "policy says manual"),
        (f"{HELD}actions: {{move_files: {{reversible: false, reach: organisation}}}}\n", "policy says"),
        (HELD.replace("  ann: {roles: [operator]}\n", ""), "ann is not among the people"),
        (HELD.replace("ann: {roles: [operator]}", "ann: {}"), "ann does not have the role operator"),
    ],
    ids=["forbidden", "manual", "riskier", "giver gone", "giver without the right"],
)
async def test_what_a_grant_allowed_is_judged_again_as_it_begins(house, later, why):
    _, proposal = await allowed(house)
    await applied(house, later)
    await does_not_run(proposal, why)
    assert (await house.now(proposal.request)).permit.used_at is None


@pytest.mark.both_databases
async def test_a_grant_that_is_revoked_in_the_very_moment_lets_nothing_begin(house, monkeypatch):
    grant, proposal = await allowed(house)
    judgement, ask = house.gate._judgement, house.gate._judgement.objection

    async def objection(tool, request):
        """Nobody objects, and right after that the grant is revoked."""
        said = await ask(tool, request)
        monkeypatch.setattr(judgement, "objection", ask)
        await take_back(house.store, house.workspace, ANN, grant)
        return said

    monkeypatch.setattr(judgement, "objection", objection)
    await does_not_run(proposal, "revoked")


@pytest.mark.parametrize(
    "later", [HELD.replace("  ann: {roles: [operator]}\n", ""), HELD.replace("ann: {roles: [operator]}", "ann: {}")]
)
async def test_a_grant_counts_only_while_whoever_gave_it_could_give_it(house, later):
    await house.policy(HELD)
    grant = await granted(house, ANN)
    assert (await house.gate.propose("move_files", {"files": ["a"]}, declared=MILD)).request.state is State.APPROVED
    await house.policy(later)
    request = (await house.gate.propose("move_files", {"files": ["b"]}, declared=MILD)).request
    assert (request.state, request.candidate.verdict.grant) == (State.PENDING, None)
    assert any("ann could not give it today" in each for each in (await house.inbox.brief(request.id)).why)
    (stored,) = await house.store.grants(house.workspace)
    assert stored.used == 1
    assert "ann could not give it today" in grant_document(stored, house.gate._judgement.policy)["does_not_count"]
    assert stored.id == grant.id


async def test_a_grant_is_not_charged_by_an_instance_that_has_not_heard_that_its_giver_is_gone(deaf):
    await deaf.policy(HELD)
    await granted(deaf, ANN)
    await applied(deaf, HELD.replace("  ann: {roles: [operator]}\n", ""))
    request = (await deaf.gate.propose("move_files", {"files": ["b"]}, declared=MILD)).request
    assert request.state is State.PENDING
    assert [grant.used for grant in await deaf.store.grants(deaf.workspace)] == [0]


async def test_only_whoever_may_change_the_policy_gives_grants(house):
    await house.policy(HELD)
    with pytest.raises(NotAllowed, match="role operator"):
        await granted(house, Principal("bob"))
    with pytest.raises(NotAllowed, match="agents"):
        await granted(house, Principal("ann", "agent"))
    await house.policy(f"{HELD}second_person: true\n")
    with pytest.raises(NotAllowed, match="second person"):
        await granted(house, ANN, Terms(("*_files",), timedelta(hours=1), max_risk=Risk.CRITICAL))


@pytest.mark.parametrize("by", ["policy", "votes"])
async def test_an_unknown_outcome_is_not_tried_again_once_it_may_not_begin(house, by, caplog):
    ran = []
    await house.policy(WATCHED if by == "policy" else f"{HELD}\n")

    @house.gate.guard(reversible=False, detached=True, idempotent=True, patience=0)
    async def move_files(files: list[str]) -> None:
        ran.append(files)

    with pytest.raises(assentry.Parked):
        await move_files(["a"])
    (request,) = await house.found(Filter(states=(State.PENDING, State.APPROVED)))
    if request.state is State.PENDING:
        request = await house.inbox.approve(ANN, request.id)
    await house.lost(request)
    await house.unknown(request.id)
    await applied(house, FORBIDDEN if by == "policy" else HELD.replace("  ann: {roles: [operator]}\n", ""))
    async with house.gate.worker():

        async def said():
            return "is not tried again" in caplog.text

        await until(said)
    assert ran == []
    assert (await house.now(request)).state is State.UNKNOWN


async def test_an_unknown_outcome_that_may_still_begin_is_tried_again(house):
    ran = []
    await house.policy(WATCHED)

    @house.gate.guard(reversible=False, detached=True, idempotent=True, patience=0)
    async def move_files(files: list[str]) -> None:
        ran.append(files)

    with pytest.raises(assentry.Parked):
        await move_files(["a"])
    (request,) = await house.found(Filter(states=(State.APPROVED,)))
    await house.lost(request)
    await house.unknown(request.id)
    async with house.gate.worker():
        await house.in_state(request, State.DONE)
    assert ran == [["a"]]


async def test_what_goes_on_record_while_many_policies_come_is_judged_by_one_of_them(house):
    """Nothing is lost and nothing waits for ever, however often what it was judged by turns out to be outdated."""
    ran = []
    await house.policy(WATCHED)
    move_files = moving(house, ran)
    await asyncio.gather(
        *(move_files([str(number)]) for number in range(8)),
        *(applied(house, f"{WATCHED}limits: {{time: {hours}h}}\n") for hours in range(1, 4)),
    )
    assert sorted(ran) == [[str(number)] for number in range(8)]
