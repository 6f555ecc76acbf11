"""`assentry inbox`: the inbox on the whole terminal."""

import sys

from assentry.extras import needs
from assentry.settings import Settings


def run(settings: Settings) -> int:
    """The person has left the inbox; 0, or 2 where there is no terminal to draw on."""
    with needs("tui", "assentry inbox"):
        import textual  # noqa: F401
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("`assentry inbox` needs a terminal; `assentry pending` lists what waits", file=sys.stderr)
        return 2
    from assentry.cli.screen.app import InboxApp

    return InboxApp(settings).run() or 0
