"""What every store must hold about processes that wait for requests."""

from dataclasses import replace
from datetime import timedelta

from assentry.core.change import Change
from assentry.core.request import Request, State
from assentry.ports import Step, Store
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_values import LONG_AGO, WORKSPACE, asked, inserted, pending

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

    async def test_whoever_a_request_names_though_nothing_is_known_of_it_is_lost(self, store: Store) -> None:
        both = replace(pending(asked(1)), callers=("known", "unknown"))
        approved = replace(pending(asked(2)), state=State.APPROVED, callers=("another",))
        await store.show_caller(WORKSPACE, "known", LONG, new=True)
        for request in (both, approved):
            await store.transact(WORKSPACE, None, inserted(request))
        assert await store.lost_callers(WORKSPACE) == ("another", "unknown")
        assert await store.lost_callers("elsewhere") == ()
        await store.show_caller(WORKSPACE, "lapsed", NONE, new=True)
        assert await store.lost_callers(WORKSPACE) == ("another", "lapsed", "unknown")

    async def test_names_of_what_nobody_needs_to_wait_for_are_not_looked_at(self, store: Store) -> None:
        abandoned = replace(pending(asked(1)), callers=("one",), abandoned_at=LONG_AGO)
        for request in (abandoned, replace(pending(asked(2)), callers=("two",))):
            await store.transact(WORKSPACE, None, inserted(request))
        assert await store.lost_callers(WORKSPACE) == ("two",)
        for number, state in enumerate((State.RUNNING, State.UNKNOWN), 2):
            moved = replace(pending(asked(2)), state=state, version=number, callers=("two",))
            await store.transact(WORKSPACE, moved.id, changed(moved))
            assert await store.lost_callers(WORKSPACE) == ()
        again = replace(pending(asked(2)), version=4, callers=("two",))
        await store.transact(WORKSPACE, again.id, changed(again))
        assert await store.lost_callers(WORKSPACE) == ("two",)

    async def test_who_is_expected_is_known_and_who_is_known_already_stays_as_it_is(self, store: Store) -> None:
        await store.transact(WORKSPACE, None, inserted(replace(pending(asked(1)), callers=("a",))))
        await store.expect_caller(WORKSPACE, "a", LONG)
        assert await store.lost_callers(WORKSPACE) == ()
        await store.expect_caller(WORKSPACE, "a", NONE)
        assert await store.lost_callers(WORKSPACE) == ()
        assert await store.show_caller(WORKSPACE, "a", NONE)
        assert await store.lost_callers(WORKSPACE) == ("a",)
        await store.expect_caller(WORKSPACE, "a", LONG)
        assert await store.lost_callers(WORKSPACE) == ("a",)


def changed(request: Request) -> Step:
    """The step that makes the request what it is here."""
    return lambda _: Change(request)
