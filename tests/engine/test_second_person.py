"""Where the policy says so, no change of it holds on one person's word; tried on both databases."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, cast

import pytest

import assentry
from assentry.assemble import store_for
from assentry.core.audit import Entry
from assentry.core.authority import Principal
from assentry.core.policy_proposal import PolicyProposal, ProposalState
from assentry.engine.policies import active_policy, apply_policy, confirm_policy, find_proposal, reject_policy
from assentry.errors import AlreadyDecided, NotAllowed, NotFound, PolicyError, StaleRequest
from assentry.ports import Store, StoredPolicy
from assentry.settings import load
from tests.engine.conftest import House

pytestmark = pytest.mark.both_databases

TWO = """second_person: true
people:
  ada: {roles: [operator]}
  bob: {roles: [operator]}
  cem: {}
"""
STRICTER = f"{TWO}defaults: {{risky: hard}}\n"
ONE = TWO.replace("second_person: true\n", "")
ADA, BOB, CEM = (Principal(name) for name in ("ada", "bob", "cem"))
AGENTS = (Principal("bob", "agent"), Principal("sweeper", "agent"))


@pytest.fixture
def store(house: House) -> Store:
    return house.desk.store


async def proposes(store: Store, text: str = STRICTER, by: Principal = ADA) -> PolicyProposal:
    """What waits, after somebody applied it to a policy that wants two people."""
    if await store.policy("default") is None:
        assert isinstance(await apply_policy(store, "default", TWO, Principal("root")), StoredPolicy)
    made = await apply_policy(store, "default", text, by, "/etc/somewhere/assentry.yaml")
    assert isinstance(made, PolicyProposal)
    return made


async def confirms(store: Store, proposal: PolicyProposal, by: Principal = BOB) -> StoredPolicy:
    return await confirm_policy(store, "default", by, proposal.code, proposal.digest)


async def active(store: Store) -> tuple[int, str]:
    found = await store.policy("default")
    assert found is not None
    return found.version, found.text


async def last_entry(store: Store) -> dict[str, Any]:
    await store.sequence("default")
    (entry,) = await store.entries("default", newest_first=True, limit=1)
    found: dict[str, Any] = json.loads(entry.text)
    return found


async def test_what_is_applied_waits_and_holds_when_another_person_confirms_it(store: Store) -> None:
    proposal = await proposes(store)
    assert await active(store) == (1, TWO)
    assert await store.proposals("default") == (proposal,)
    entry = await last_entry(store)
    assert (entry["kind"], entry["actor"]) == ("policy.proposed", "ada")
    told = {"code": proposal.code, "digest": proposal.digest, "file": "assentry.yaml", "based_on": 1}
    assert entry["body"] == told
    applied = await confirms(store, proposal)
    assert (applied.version, applied.text) == (2, STRICTER) == await active(store)
    entry = await last_entry(store)
    assert (entry["kind"], entry["actor"]) == ("policy.applied", "bob")
    assert (entry["body"]["proposed_by"], entry["body"]["confirmed_by"]) == ("ada", "bob")
    ended = await find_proposal(store, "default", proposal.code)
    assert (ended.state, ended.ended_by, ended.ended_at) == (ProposalState.APPLIED, "bob", applied.applied_at)


async def test_who_proposed_it_cannot_confirm_it(store: Store) -> None:
    proposal = await proposes(store)
    with pytest.raises(NotAllowed, match="ada proposed this, so another person confirms it"):
        await confirms(store, proposal, ADA)
    assert await active(store) == (1, TWO)


@pytest.mark.parametrize("by", [*AGENTS, CEM, Principal("nobody")], ids=str)
async def test_agents_and_those_who_may_not_change_the_policy_do_nothing_about_it(store: Store, by: Principal) -> None:
    proposal = await proposes(store)
    before = await store.sequence("default")
    for attempt in (
        apply_policy(store, "default", ONE, by),
        confirms(store, proposal, by),
        reject_policy(store, "default", by, proposal.code),
    ):
        with pytest.raises(NotAllowed):
            await attempt
    assert await store.sequence("default") == before
    assert await store.proposals("default") == (proposal,)


async def test_an_agent_applies_nothing_where_one_person_would_be_enough(store: Store) -> None:
    for by in AGENTS:
        with pytest.raises(NotAllowed):
            await apply_policy(store, "default", ONE, by)
    assert await store.policy("default") is None


async def test_only_what_was_seen_is_confirmed(store: Store) -> None:
    proposal, other = await proposes(store), await proposes(store, f"{STRICTER}# another\n")
    for seen in (other.digest, "", proposal.digest[:-1]):
        with pytest.raises(StaleRequest, match="not what you saw"):
            await confirm_policy(store, "default", BOB, proposal.code, seen)
    assert await active(store) == (1, TWO)


async def test_what_was_made_from_an_older_version_is_proposed_again(store: Store) -> None:
    first, second = await proposes(store), await proposes(store, f"{STRICTER}# another\n")
    await confirms(store, first)
    with pytest.raises(StaleRequest, match=r"version 2 is active by now; .* propose it again"):
        await confirms(store, second)
    assert (await active(store))[0] == 2
    again = await proposes(store, second.text)
    assert (again.based_on, again.code != second.code) == (2, True)
    assert (await confirms(store, again)).version == 3


async def test_what_was_rejected_or_withdrawn_cannot_be_confirmed(store: Store) -> None:
    for by in (BOB, ADA):
        proposal = await proposes(store, f"{STRICTER}# {by.name}\n")
        ended = await reject_policy(store, "default", by, proposal.code, "not before the audit")
        assert (ended.state, ended.ended_by, ended.reason) == (ProposalState.REJECTED, by.name, "not before the audit")
        entry = await last_entry(store)
        assert (entry["kind"], entry["actor"], entry["body"]["proposed_by"]) == ("policy.rejected", by.name, "ada")
        with pytest.raises(AlreadyDecided, match=f"rejected by {by.name}"):
            await confirms(store, proposal)
        with pytest.raises(AlreadyDecided):
            await reject_policy(store, "default", BOB, proposal.code)
    assert await active(store) == (1, TWO)
    assert await store.proposals("default") == ()


async def test_confirmed_twice_it_is_applied_once(store: Store) -> None:
    proposal = await proposes(store)
    await confirms(store, proposal)
    with pytest.raises(AlreadyDecided, match="applied by bob"):
        await confirms(store, proposal)
    with pytest.raises(AlreadyDecided):
        await reject_policy(store, "default", ADA, proposal.code)
    assert (await active(store))[0] == 2


async def test_the_same_change_proposed_again_is_the_one_that_waits(store: Store) -> None:
    proposal = await proposes(store)
    assert await proposes(store) == proposal
    assert await proposes(store, by=BOB) != proposal
    assert len(await store.proposals("default")) == 2


async def test_switching_it_off_needs_two_people_too(store: Store) -> None:
    proposal = await proposes(store, ONE)
    assert await active(store) == (1, TWO)
    await confirms(store, proposal)
    direct = await apply_policy(store, "default", STRICTER, CEM)
    assert isinstance(direct, StoredPolicy)  # whether cem may is the surface's to say; nobody else is needed


async def test_switching_it_on_needs_two_who_may(store: Store) -> None:
    with pytest.raises(PolicyError, match="only ada may"):
        await apply_policy(store, "default", "second_person: true\npeople: {ada: {roles: [operator]}, bob: }", ADA)
    assert await store.policy("default") is None


async def test_a_code_may_be_cut_short_while_it_is_clear_which(store: Store) -> None:
    proposal = await proposes(store)
    assert await find_proposal(store, "default", f" {proposal.code[:5].upper()}") == proposal
    for code in ("", "1l1l1l1l"):
        with pytest.raises(NotFound, match="assentry policy proposals"):
            await find_proposal(store, "default", code)


class Overtaken:
    """A real store; once, just after somebody has looked at the active policy, something else happens first."""

    def __init__(self, store: Store, then: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._store, self._then = store, then

    async def policy(self, workspace: str) -> StoredPolicy | None:
        found = await self._store.policy(workspace)
        then, self._then = self._then, self._nothing
        await then()
        return found

    async def _nothing(self) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def overtaken(store: Store, then: Callable[[], Coroutine[Any, Any, Any]]) -> Store:
    return cast("Store", Overtaken(store, then))


async def test_nobody_with_an_older_policy_in_hand_slips_past_the_requirement(house: House, store: Store) -> None:
    elsewhere = store_for(load({"database": house.database}))
    await elsewhere.open()
    for before, number in ((None, 1), (ONE, 3)):
        if before is not None:
            await confirms(store, await proposes(store, before))
        asked = f"{TWO}# {number}\n"
        late = overtaken(store, lambda text=asked: apply_policy(elsewhere, "default", text, BOB))  # type: ignore[misc]
        made = await apply_policy(late, "default", "mode: observe", ADA)
        assert isinstance(made, PolicyProposal)
        assert (made.based_on, await active(store)) == (number, (number, asked))
        await reject_policy(store, "default", ADA, made.code)
    await elsewhere.close()


async def test_what_is_based_on_a_version_is_applied_only_to_that(store: Store) -> None:
    await apply_policy(store, "default", ONE, ADA, based_on=0)
    with pytest.raises(StaleRequest, match="version 1 is active by now"):
        await apply_policy(store, "default", STRICTER, ADA, based_on=0)
    late = overtaken(store, lambda: apply_policy(store, "default", f"{ONE}# first\n", BOB))
    with pytest.raises(StaleRequest, match="version 2 is active by now"):
        await apply_policy(late, "default", f"{ONE}# second\n", ADA, based_on=1)
    assert await active(store) == (2, f"{ONE}# first\n")


async def test_a_confirmation_that_is_overtaken_changes_nothing(store: Store) -> None:
    for then, says in (
        (lambda proposal, _: reject_policy(store, "default", ADA, proposal.code), "rejected by ada"),
        (lambda proposal, _: confirms(store, proposal), "applied by bob"),
        (lambda _, other: confirms(store, other), "propose it again"),
    ):
        version = (await active(store))[0] if await store.policy("default") else 0
        proposal = await proposes(store, f"{STRICTER}# {version} {says}\n")
        other = await proposes(store, f"{STRICTER}# {version} other\n")
        late = overtaken(store, lambda then=then, one=proposal, two=other: then(one, two))  # type: ignore[misc]
        with pytest.raises((AlreadyDecided, StaleRequest), match=says):
            await confirm_policy(late, "default", BOB, proposal.code, proposal.digest)
    assert (await active(store))[0] == 3


async def test_of_many_who_confirm_at_once_over_connections_of_their_own_one_does(house: House, store: Store) -> None:
    others = [store_for(load({"database": house.database})) for _ in range(4)]
    for each in others:
        await each.open()
    for number in range(10):
        proposal = await proposes(store, f"{STRICTER}# {number}\n")
        before = (await active(store))[0]
        done = await asyncio.gather(*(confirms(each, proposal) for each in others), return_exceptions=True)
        assert sorted(type(each).__name__ for each in done) == ["AlreadyDecided"] * 3 + ["StoredPolicy"]
        assert await active(store) == (before + 1, proposal.text)
    for each in others:
        await each.close()


CONFIRM = """
import asyncio, sys
from assentry.assemble import store_for
from assentry.core.authority import Principal
from assentry.engine.policies import confirm_policy
from assentry.errors import AlreadyDecided
from assentry.settings import load

async def main(database, code, digest):
    store = store_for(load({"database": database}))
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print((await confirm_policy(store, "default", Principal("bob"), code, digest)).version)
    except AlreadyDecided:
        print("late")
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_of_processes_that_confirm_at_once_one_does(house: House, store: Store) -> None:
    proposal = await proposes(store)
    pipe = asyncio.subprocess.PIPE
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", CONFIRM, house.database, proposal.code, proposal.digest, stdin=pipe, stdout=pipe
        )
        for _ in range(3)
    ]
    for process in running:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    done = await asyncio.gather(*(process.communicate(b"\n") for process in running))
    assert sorted(out for out, _ in done) == [b"2\n", b"late\n", b"late\n"]
    assert await active(store) == (2, STRICTER)


@pytest.mark.parametrize("text", ["nonsense: true", "second_person: true\nnonsense: true"])
async def test_a_policy_that_no_longer_loads_is_replaced_by_as_many_people_as_before(store: Store, text: str) -> None:
    def entry(version: int, now: datetime) -> Entry:
        return Entry("policy.applied", now, "default", f"policy:{version}", "a newer version", {})

    alone = "second_person" not in text
    for before in (ONE, TWO):
        await store.apply_policy("default", before, "root", entry)
        version = (await store.apply_policy("default", text, "a newer version", entry)).version
        made = await apply_policy(store, "default", f"{ONE}# {version}\n", ADA)
        if before == ONE and alone:
            assert isinstance(made, StoredPolicy)
        else:
            assert isinstance(made, PolicyProposal)
            assert (await confirms(store, made)).version == version + 1


async def test_a_policy_file_to_begin_with_is_not_applied_over_what_another_process_began_with(
    house: House, store: Store, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mode: observe\n")
    await apply_policy(store, "default", TWO, ADA)
    kind = type(store)
    looked: list[str] = []
    read = kind.policy

    async def not_there_yet(self: Store, workspace: str) -> StoredPolicy | None:
        found = await read(cast("Any", self), workspace)
        if self in (store, house.gate._store):
            return found
        looked.append(workspace)
        return None if len(looked) == 1 else found

    monkeypatch.setattr(kind, "policy", not_there_yet)
    with pytest.warns(UserWarning, match="differs from the active policy"):
        gate = await asyncio.to_thread(assentry.open, house.database, policy=file)
    await gate.close()
    monkeypatch.undo()
    assert await active(store) == (1, TWO)
    assert (await active_policy(store, "default")).second_person
