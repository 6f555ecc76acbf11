"""Who knocks at the door without having come in yet: each knock leaves a row, so that nobody may knock for ever."""

import time
from collections import OrderedDict, deque

from fastapi import Request

from assentry.server.problems import Problem

MOST = 60
WITHIN = 60.0
_ADDRESSES = 10_000


class Knocks:
    """The recent ones of each address, on this instance."""

    def __init__(self, most: int = MOST, within: float = WITHIN) -> None:
        self._most, self._within = most, within
        self._heard: OrderedDict[str, deque[float]] = OrderedDict()

    def heard(self, request: Request) -> None:
        """Somebody knocks; whoever has done so too often lately is sent away."""
        address, now = request.client.host if request.client else "", time.monotonic()
        times = self._heard.setdefault(address, deque())
        self._heard.move_to_end(address)
        while len(self._heard) > _ADDRESSES:
            self._heard.popitem(last=False)
        while times and times[0] <= now - self._within:
            times.popleft()
        if len(times) >= self._most:
            wait = max(1, round(times[0] + self._within - now))
            told = f"too many ask to come in from here; try again in {wait} s"
            raise Problem(429, told, headers={"Retry-After": str(wait)})
        times.append(now)
