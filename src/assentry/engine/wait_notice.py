"""What whoever runs a program hears when a call in it begins to wait for a person: why it hangs, and what to do.

Reviewers are reached elsewhere; this is for the terminal or the log of the program itself.
"""

import logging
import sys
from collections import deque
from collections.abc import Callable

from assentry.core.request import Kind, Request
from assentry.core.text import visible

log = logging.getLogger("assentry.gate")

_REMEMBERED = 1000


def notice(options: str = "") -> Callable[[Request], None]:
    """Tells of each request once: on a terminal in lines for people, elsewhere as a warning in the log.

    `options` is what the commands need in order to find the request, such as a server.
    """
    told: deque[str] = deque(maxlen=_REMEMBERED)

    def tell(request: Request) -> None:
        if request.id in told:
            return
        told.append(request.id)
        says, code, command = visible(request.candidate.says, lines=False), request.code, f"assentry{options}"
        look, ways = f"{command} show {code}", [f'{command} answer {code} "…"']
        if request.ask.kind is Kind.ACTION:
            yes = f"choose {code} NUMBER" if request.ask.options else f"approve {code}"
            ways = [f"{command} {yes}", f'{command} deny {code} --reason "…"']
        if sys.stderr.isatty():
            lines = (f"assentry: {code} waits for a person: {says}", *(f"  {each}" for each in (look, *ways)))
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            sys.stderr.flush()
            return
        log.warning(
            "request %s waits for a person: %s. Look at it with `%s`, then decide with %s",
            code, says, look, " or ".join(f"`{each}`" for each in ways),
        )  # fmt: skip

    return tell
