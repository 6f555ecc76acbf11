"""The contract, sixth part: stop switches, how much an agent asks, and the same thing asked twice."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assentry.core.change import Change
from assentry.core.request import State
from assentry.core.switch import EVERYTHING, Setting, Switch
from assentry.core.switching import turned
from assentry.core.verdict import GateKind
from assentry.errors import Conflict, DuplicateStep, StaleRequest
from assentry.ports import Pressure, Step, Store, View
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import LONG_AGO, WORKSPACE, asked, candidate, identifier, inserted, moved, pending

LATER = datetime(2100, 1, 1, tzinfo=UTC)


async def turn(store: Store, switch: Switch, setting: Setting, reason: str = "") -> Switch:
    """The switch, set."""
    change = await store.transact(WORKSPACE, None, lambda view: turned(switch, setting, "ada", reason, view.now))
    assert change is not None
    assert change.switch is not None
    return change.switch


class Switches(StorePlace):
    """What every store does with switches and with agents that ask too much."""

    async def test_a_switch_is_kept_as_it_was_last_set(self, store: Store) -> None:
        assert await store.switches(WORKSPACE) == ()
        new = Switch(WORKSPACE, "clean up, please", Setting.GO, "", LONG_AGO)
        paused = await turn(store, new, Setting.PAUSE, "too eager")
        everything = await turn(store, replace(new, agent=EVERYTHING), Setting.STOP)
        assert await store.switches(WORKSPACE) == (everything, paused)
        released = await turn(store, paused, Setting.GO)
        assert await store.switches(WORKSPACE) == (everything, released)
        assert (released.version, released.by, released.is_held) == (2, "ada", False)
        assert await store.switches("other") == ()
        entries = await store.entries(WORKSPACE)
        assert await store.sequence(WORKSPACE) == 3
        assert all("switch." in entry.text for entry in entries)

    async def test_a_switch_is_set_from_how_it_is(self, store: Store) -> None:
        new = Switch(WORKSPACE, "cleanup", Setting.GO, "", LONG_AGO)
        await turn(store, new, Setting.PAUSE)
        with pytest.raises(StaleRequest):
            await turn(store, new, Setting.GO)
        assert [each.setting for each in await store.switches(WORKSPACE)] == [Setting.PAUSE]

    async def test_what_names_an_agent_sees_the_switches_that_hold_it_up(self, store: Store) -> None:
        seen: list[list[str]] = []

        def opened(number: int) -> Step:
            def step(view: View) -> Change | None:
                seen.append([switch.agent for switch in view.switches])
                return None if view.switches else inserted(pending(asked(number)))(view)

            return step

        async def is_made(number: int, agent: str = "cleanup", grants: tuple[str, ...] = ()) -> bool:
            await store.transact(WORKSPACE, None, opened(number), agent=agent, grants=grants)
            return await store.request(WORKSPACE, identifier(number)) is not None

        new = Switch(WORKSPACE, "cleanup", Setting.GO, "", LONG_AGO)
        assert await is_made(1)
        paused = await turn(store, new, Setting.PAUSE)
        assert (await is_made(2), seen[-1]) == (False, ["cleanup"])
        assert (await is_made(2, grants=("none",)), seen[-1]) == (False, ["cleanup"])
        assert await is_made(3, agent="other")
        assert await is_made(4, agent="")
        await store.transact(
            WORKSPACE, identifier(1), lambda view: None if view.switches else moved()(view), agent="cleanup"
        )
        assert (await store.request(WORKSPACE, identifier(1))).version == 1  # type: ignore[union-attr]
        await turn(store, paused, Setting.GO)
        assert await is_made(2)
        await turn(store, replace(new, agent=EVERYTHING), Setting.STOP)
        assert (await is_made(5, agent="other"), seen[-1]) == (False, [EVERYTHING])

    async def test_a_switch_is_heard_of(self, store: Store) -> None:
        heard = Heard()
        stop = store.watch(heard)
        await turn(store, Switch(WORKSPACE, "cleanup", Setting.GO, "", LONG_AGO), Setting.PAUSE)
        await heard.until(lambda told: any(key.startswith("switch:") for key in told.versions))
        stop()

    async def test_the_same_is_not_asked_twice_at_once(self, store: Store) -> None:
        first = pending(asked(1, same="x"))
        await store.transact(WORKSPACE, None, inserted(first))
        again = asked(2, same="x")
        with pytest.raises(DuplicateStep) as known:
            await store.transact(WORKSPACE, None, inserted(pending(again)))
        assert known.value.request_id == first.id
        # Another agent, something else, something like no other, or a run of its own: that is not the same.
        for number, other in enumerate(({"agent": "b"}, {"same": "y"}, {"same": ""}, {"run": "r"}), 3):
            ask = replace(asked(number, same="x"), **other)  # type: ignore[arg-type]
            await store.transact(WORKSPACE, None, inserted(pending(ask)))
        # Once it is decided, it may be asked again; and then the first cannot wait once more.
        await store.transact(WORKSPACE, first.id, moved(state=State.DENIED))
        await store.transact(WORKSPACE, None, inserted(pending(again)))
        with pytest.raises(Conflict, match="exactly what"):
            await store.transact(WORKSPACE, first.id, moved(state=State.PENDING))
        stored = await store.request(WORKSPACE, first.id)
        assert stored is not None
        assert stored.state is State.DENIED

    async def test_what_an_agent_asks_is_counted(self, store: Store) -> None:
        async def count(since: datetime = LONG_AGO, most: int = 100) -> Pressure:
            return await store.pressure(WORKSPACE, "cleanup", since, most)

        assert await count() == Pressure(0, 0)
        for number in range(1, 6):
            await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
        watched = asked(6, shown=candidate(gate=GateKind.WATCH))
        await store.transact(WORKSPACE, None, inserted(pending(watched, state=State.DONE)))
        await store.transact(WORKSPACE, None, inserted(pending(asked(7, agent="b"))))
        await store.transact(WORKSPACE, asked(1).id, moved(state=State.DENIED))
        early = datetime(1970, 1, 1, tzinfo=UTC)
        assert await count(early) == Pressure(4, 5)
        assert await count(early + timedelta(milliseconds=4)) == Pressure(4, 2)
        assert await count(LATER) == Pressure(4, 0)
        assert await count(early, 3) == Pressure(3, 3)

    async def test_a_step_may_make_nothing_of_a_switch(self, store: Store) -> None:
        def nothing(_: View) -> Change | None:
            return None

        assert await store.transact(WORKSPACE, None, nothing) is None
        assert await store.switches(WORKSPACE) == ()
