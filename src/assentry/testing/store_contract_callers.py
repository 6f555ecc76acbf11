"""What every store must hold about processes that wait for requests."""

from dataclasses import replace
from datetime import timedelta

from assentry.core.change import Change
from assentry.core.request import State
from assentry.ports import Store
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_values import WORKSPACE, asked, inserted, pending

LONG, NONE = timedelta(hours=1), timedelta(0)


class Callers(StorePlace):
    """Signs of life, and who is taken for gone."""

    async def test_a_process_that_shows_itself_is_not_lost_and_one_that_does_not_is(self, store: Store) -> None:
        assert await store.show_caller(WORKSPACE, "a", LONG, new=True)
        assert await store.show_caller(WORKSPACE, "b", NONE, new=True)
        assert await store.lost_callers(WORKSPACE) == ("b",)
        assert await store.lost_callers("elsewhere") == ()

    async def test_a_name_that_was_taken_for_gone_never_comes_back(self, store: Store) -> None:
        await store.show_caller(WORKSPACE, "a", NONE, new=True)
        assert await store.show_caller(WORKSPACE, "a", NONE), "nobody has looked yet"
        assert await store.lost_callers(WORKSPACE) == ("a",)
        assert not await store.show_caller(WORKSPACE, "a", LONG)
        assert not await store.show_caller(WORKSPACE, "a", LONG, new=True)
        await store.forget_caller(WORKSPACE, "a")
        assert await store.lost_callers(WORKSPACE) == ()
        assert not await store.show_caller(WORKSPACE, "a", LONG)

    async def test_saying_twice_that_it_is_new_does_no_harm(self, store: Store) -> None:
        assert await store.show_caller(WORKSPACE, "a", NONE, new=True)
        assert await store.show_caller(WORKSPACE, "a", LONG, new=True)
        assert await store.lost_callers(WORKSPACE) == ()

    async def test_only_a_lost_process_is_forgotten(self, store: Store) -> None:
        await store.show_caller(WORKSPACE, "a", LONG, new=True)
        await store.forget_caller(WORKSPACE, "a")
        assert await store.show_caller(WORKSPACE, "a", LONG)

    async def test_what_a_process_waits_for_is_found_by_its_name_page_by_page(self, store: Store) -> None:
        made = [replace(pending(asked(number)), callers=("one", "0a1b2c3d") if number else ()) for number in range(5)]
        for request in made:
            await store.transact(WORKSPACE, None, inserted(request))
        done = replace(made[4], state=State.DONE, version=2)
        await store.transact(WORKSPACE, done.id, lambda _: Change(done))
        first = await store.waited_for_by(WORKSPACE, "0a1b2c3d", limit=2)
        rest = await store.waited_for_by(WORKSPACE, "0a1b2c3d", after=first[-1].id)
        assert [each.id for each in (*first, *rest)] == sorted(each.id for each in made[1:4])
        assert len(first) == 2
        assert await store.waited_for_by(WORKSPACE, "nobody") == ()
