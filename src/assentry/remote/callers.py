"""How a process behind a server shows that it lives, for as long as a call of it waits there."""

from datetime import timedelta
from typing import cast

from assentry.core.decision import Awaited, Findable
from assentry.core.request import Request
from assentry.engine.callers import Callers, name_at_server, new_name
from assentry.engine.portal import Portal
from assentry.errors import NotFound
from assentry.ports import Store
from assentry.remote.line import Line
from assentry.remote.reading import request_in

LONGEST_LEASE = timedelta(minutes=10)
"""As long as a server takes a process to live without hearing of it."""


class FarCallers(Callers):
    """`Callers` at a server. The name goes with each proposal; it is shown to live once one of them waits."""

    def __init__(self, line: Line, portal: Portal, agent: str, lease: timedelta) -> None:
        super().__init__(cast(Store, None), "", portal, lease)  # the server's store, which is not here
        self._line, self._agent = line, agent
        self._sent = new_name()

    async def sent(self) -> str:
        """The name as the server is told it with a proposal, which it then knows."""
        if self._name:
            await self.name()
        return self._sent

    async def _show(self, life: timedelta) -> bool:
        return await self._say(self._sent, life)

    async def _take_name(self) -> None:
        sent = new_name() if self._name else self._sent
        while not await self._say(sent, self._lease, new=True):
            sent = new_name()  # a proposal named it, and it was taken for gone before it could show itself
        self._sent, self._name = sent, name_at_server(self._agent, sent)

    async def _clear(self) -> None:
        """The server looks by itself."""

    async def _say(self, name: str, life: timedelta, *, new: bool = False) -> bool:
        said = {"lease": life.total_seconds(), "new": new}
        return bool((await self._line.post(f"/callers/{name}", said))["known"])

    async def _moved(self, request_id: str, event: Awaited | Findable) -> Request | None:
        caller = "" if isinstance(event, Findable) else self._sent
        try:
            return request_in(await self._line.post(f"/proposals/{request_id}/callers", {"caller": caller}))
        except NotFound:
            return None
