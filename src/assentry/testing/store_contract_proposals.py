"""The contract, eighth part: policies that wait for a second person."""

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from assentry.core.audit import Entry
from assentry.core.policy_proposal import PolicyProposal, ProposalState
from assentry.core.proposing import proposed, rejected
from assentry.errors import StaleRequest
from assentry.ports import Store
from assentry.testing.store_contract_log import policy_entry
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_values import LONG_AGO, WORKSPACE

WANTED = PolicyProposal(WORKSPACE, "7kq2m4xz", "text ü", "assentry.yaml", 0, "ada", LONG_AGO)


async def wait(store: Store, proposal: PolicyProposal = WANTED) -> None:
    """It waits."""
    await store.transact(WORKSPACE, None, lambda _: proposed(proposal))


async def turn_down(store: Store, reason: str = "") -> None:
    """It does not wait any more."""
    await store.transact(WORKSPACE, None, lambda view: rejected(WANTED, "bob", view.now, reason))


class Proposals(StorePlace):
    """What every store does with policies that wait."""

    async def test_what_waits_is_found_by_its_code_and_listed_newest_first(self, store: Store) -> None:
        for code in ("b", "c", "a"):
            await wait(store, replace(WANTED, code=code))
        assert await store.proposal(WORKSPACE, "c") == replace(WANTED, code="c")
        assert await store.proposal("other", "c") is None
        assert [each.code for each in await store.proposals(WORKSPACE)] == ["a", "c", "b"]
        assert [each.code for each in await store.proposals(WORKSPACE, limit=1)] == ["a"]
        assert await store.proposals("other") == ()

    async def test_who_proposed_it_is_on_record(self, store: Store) -> None:
        await wait(store)
        await store.sequence(WORKSPACE)
        (entry,) = await store.entries(WORKSPACE)
        assert '"policy.proposed"' in entry.text
        assert WANTED.digest in entry.text
        assert WANTED.text not in entry.text

    async def test_one_code_is_given_once(self, store: Store) -> None:
        await wait(store)
        with pytest.raises(StaleRequest):
            await wait(store, replace(WANTED, text="another", by="eve"))
        assert await store.proposals(WORKSPACE) == (WANTED,)

    async def test_it_ends_once(self, store: Store) -> None:
        await wait(store)
        await turn_down(store, "not \x00 today")
        with pytest.raises(StaleRequest):
            await turn_down(store)
        assert await store.proposals(WORKSPACE) == ()
        ended = await store.proposal(WORKSPACE, WANTED.code)
        assert ended is not None
        assert (ended.state, ended.ended_by, ended.reason) == (ProposalState.REJECTED, "bob", "not \x00 today")
        await store.sequence(WORKSPACE)
        assert len(await store.entries(WORKSPACE)) == 2

    async def test_applying_it_ends_it_in_the_same_transaction(self, store: Store) -> None:
        await wait(store)
        applied = await store.apply_policy(WORKSPACE, WANTED.text, "bob", policy_entry, WANTED)
        ended = await store.proposal(WORKSPACE, WANTED.code)
        assert ended is not None
        assert (ended.state, ended.ended_by, ended.ended_at) == (ProposalState.APPLIED, "bob", applied.applied_at)
        with pytest.raises(StaleRequest):
            await turn_down(store)

    async def test_what_does_not_wait_is_not_applied(self, store: Store) -> None:
        await wait(store)
        await turn_down(store)
        for each in (WANTED, replace(WANTED, code="never there")):
            with pytest.raises(StaleRequest):
                await store.apply_policy(WORKSPACE, each.text, "bob", policy_entry, each)
        assert await store.policy(WORKSPACE) is None
        await store.sequence(WORKSPACE)
        assert len(await store.entries(WORKSPACE)) == 2

    async def test_an_application_that_fails_leaves_it_waiting(self, store: Store) -> None:
        def failing(_version: int, _at: datetime) -> Entry:
            raise ValueError

        await wait(store)
        with pytest.raises(ValueError):
            await store.apply_policy(WORKSPACE, WANTED.text, "bob", failing, WANTED)
        assert await store.proposals(WORKSPACE) == (WANTED,)

    async def test_of_many_at_once_one_ends_it(self, store: Store) -> None:
        await wait(store)
        done = await asyncio.gather(
            *(store.apply_policy(WORKSPACE, WANTED.text, "bob", policy_entry, WANTED) for _ in range(5)),
            *(turn_down(store) for _ in range(5)),
            return_exceptions=True,
        )
        assert sum(not isinstance(each, StaleRequest) for each in done) == 1
        found = await store.policies(WORKSPACE)
        ended = await store.proposal(WORKSPACE, WANTED.code)
        assert ended is not None
        assert len(found) == (1 if ended.state is ProposalState.APPLIED else 0)
