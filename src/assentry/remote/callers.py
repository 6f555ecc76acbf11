"""How a process behind a server shows that it lives, for as long as a call of it waits there."""

from contextlib import suppress
from datetime import timedelta
from typing import cast

from assentry.core.decision import Event, Findable
from assentry.core.request import Request
from assentry.engine.callers import Callers, name_at_server, new_name
from assentry.engine.portal import Portal
from assentry.errors import AssentryError
from assentry.ports import Store
from assentry.remote.line import Line
from assentry.remote.reading import request_in

LONGEST_LEASE = 600.0
"""As long as a server takes a process to live without hearing of it."""


class FarCallers(Callers):
    """`Callers` at a server. The name goes with each proposal; it is shown to live once one of them waits."""

    def __init__(self, line: Line, portal: Portal, agent: str, lease: timedelta) -> None:
        lease = min(lease, timedelta(seconds=LONGEST_LEASE))
        super().__init__(cast(Store, None), "", portal, lease)  # the server's store, which is not here
        self._line, self._agent = line, agent
        self.sent = new_name()
        """The name as the server is told it."""

    async def close(self) -> None:
        """The server knows at once that nobody is waiting here any more."""
        self.leave()
        if self._name:
            with suppress(AssentryError):
                await self._say(seconds=0)

    async def _take_name(self) -> None:
        await self._say(new=True)
        self._name = name_at_server(self._agent, self.sent)

    async def _beat(self) -> None:
        if await self._say():
            return
        before, self.sent = self.sent, new_name()
        await self._say(new=True, instead=before)
        self._name = name_at_server(self._agent, self.sent)

    async def _say(self, *, seconds: float | None = None, new: bool = False, instead: str = "") -> bool:
        lease = self._lease.total_seconds() if seconds is None else seconds
        said = {"lease": lease, "new": new, "instead": instead}
        return bool((await self._line.post(f"/callers/{self.sent}", said))["known"])

    async def _moved(self, request: Request, event: Event) -> Request:
        caller = "" if isinstance(event, Findable) else self.sent
        return request_in(await self._line.post(f"/proposals/{request.id}/callers", {"caller": caller}))
