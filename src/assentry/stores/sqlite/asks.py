"""Asks that were read a moment ago. An ask never changes, so it need not be read again until it is purged."""

import threading

from assentry.core.request import Ask

_KEPT = 1024
_CHARACTERS = 16_384


class Asks:
    """Those read last, by workspace and id; shared by the threads of one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Ask] = {}

    def get(self, workspace: str, request_id: str) -> Ask | None:
        return self._known.get((workspace, request_id))

    def keep(self, ask: Ask, text: str) -> None:
        """`ask`, read from `text`, is known, at the cost of the one known longest. Large ones are not worth it."""
        if len(text) > _CHARACTERS:
            return
        with self._lock:
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[ask.workspace, ask.id] = ask

    def forget(self, workspace: str, request_id: str) -> None:
        with self._lock:
            self._known.pop((workspace, request_id), None)
