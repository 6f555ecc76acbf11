"""The contract: tools that agents and servers offer, and what people say of them."""

from dataclasses import replace

import pytest

from assentry.core.change import Change
from assentry.core.vouching import OfferedTool, ToolState, entries_of, moved
from assentry.errors import StaleRequest
from assentry.ports import Store, View
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import LONG_AGO, WORKSPACE, asked, identifier, inserted, pending

WEATHER = OfferedTool(
    WORKSPACE, "agent:bot", "get_weather", "d1", {"description": "Tells \0 the weather."}, ToolState.WAITING, "bot",
    LONG_AGO,
)  # fmt: skip


async def put(store: Store, *tools: OfferedTool, request: int = 0) -> None:
    """They are on record, with a request if one is named."""

    def step(view: View) -> Change:
        change = Change()
        if request:
            made = inserted(pending(asked(request)))(view)
            assert made is not None
            change = made
        return replace(change, tools=tools).also(*entries_of(tools, "ada", view.now))

    await store.transact(WORKSPACE, None, step)


class Tools(StorePlace):
    """What every store does with tools."""

    async def test_a_tool_is_kept_once_for_each_definition_and_source(self, store: Store) -> None:
        other = replace(WEATHER, digest="d2")
        odd = replace(WEATHER, source="agent:bot/mcp:a\0b", name="\ufffd get\0it")
        await put(store, WEATHER, other, odd)
        assert await store.tools(WORKSPACE, "agent:bot") == (WEATHER, other)
        assert await store.tools(WORKSPACE, odd.source) == (odd,)
        assert len(await store.tools(WORKSPACE)) == 3
        assert await store.tools("other") == ()
        assert await store.vouched(WORKSPACE) == frozenset()
        known = tuple(moved(each, ToolState.VOUCHED, "ada", LONG_AGO) for each in (WEATHER, odd))
        await put(store, *known)
        assert await store.vouched(WORKSPACE) == {WEATHER.key, odd.key}
        assert await store.vouched("other") == frozenset()
        # Offered again it stays what somebody said of it.
        await put(store, WEATHER, replace(odd, by="bot2"))
        assert await store.vouched(WORKSPACE) == {WEATHER.key, odd.key}
        assert known[0] in await store.tools(WORKSPACE)

    async def test_what_is_said_of_a_tool_is_said_of_it_as_it_was_read(self, store: Store) -> None:
        await put(store, WEATHER)
        vouched = moved(WEATHER, ToolState.VOUCHED, "ada", LONG_AGO)
        await put(store, vouched)
        before = await store.sequence(WORKSPACE)
        for stale in (moved(WEATHER, ToolState.REFUSED, "bob", LONG_AGO), replace(WEATHER, name="x", version=2)):
            with pytest.raises(StaleRequest):
                await put(store, stale, request=7)
        assert await store.request(WORKSPACE, identifier(7)) is None
        assert await store.sequence(WORKSPACE) == before
        await put(store, moved(vouched, ToolState.REVOKED, "bob", LONG_AGO), request=8)
        assert await store.vouched(WORKSPACE) == frozenset()
        assert await store.request(WORKSPACE, identifier(8)) is not None

    async def test_others_hear_of_tools(self, store: Store, place: object) -> None:
        other = self.make(place)
        await other.open()
        heard = Heard()
        leave = other.watch(heard)
        try:
            await heard.until(lambda told: told.calls > 0)
            await put(store, WEATHER)
            await heard.until(lambda told: any(key.startswith("tools:") for key in told.versions))
        finally:
            leave()
            await other.close()
