"""Overdue requests move to their next rung or their end, by the database's clock."""

from assentry.core.advance import LEGAL, advance
from assentry.core.change import Change
from assentry.core.decision import Overdue
from assentry.core.request import Request
from assentry.ports import Store, View


async def settle_overdue(store: Store, request: Request) -> Request:
    """The request after whatever time has brought about; unchanged if nothing was due after all."""

    def step(view: View) -> Change | None:
        current = view.request
        if current is None or Overdue not in LEGAL[current.state]:
            return None
        return advance(current, Overdue(), view.now)

    change = await store.transact(request.workspace, request.id, step)
    return change.request if change is not None and change.request is not None else request


async def sweep(store: Store, workspace: str, limit: int = 100) -> int:
    """Every overdue request has moved; how many there were."""
    total = 0
    while True:
        overdue = await store.due(workspace, limit)
        for request in overdue:
            await settle_overdue(store, request)
        total += len(overdue)
        if len(overdue) < limit:
            return total
