"""What the contract needs to know of a store under test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from assentry.ports import Store


class StorePlace:
    """Where the store under test is, and how to reach it."""

    def make(self, place: Any) -> Store:
        """A store at `place`, not yet opened; called again, another one at the same place."""
        raise NotImplementedError

    def source(self, place: Any) -> str:
        """Python source that makes the same store and calls it `store`, for another process."""
        raise NotImplementedError

    async def damage(self, place: Any, table: str, column: str, value: str) -> None:
        """Every row of `table` has `value` in `column`, behind the store's back."""
        raise NotImplementedError

    @pytest.fixture
    def new_place(self, place: Any) -> Any:
        """Where no store was ever opened, if `place` is used again once it was emptied."""
        return place

    @pytest.fixture
    async def store(self, place: Any) -> AsyncIterator[Store]:
        """The store under test, opened."""
        made = self.make(place)
        await made.open()
        yield made
        await made.close()
