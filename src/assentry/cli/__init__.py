"""The command `assentry`: one module per group of commands, loaded when it is called for."""

import gc
import sys


def main() -> None:
    """The command was carried out, and the process ends with its exit code."""
    if sys.argv[1:] == ["--version"]:
        from assentry import __version__

        sys.exit(print(f"assentry {__version__}"))
    # Until the command has been imported: nothing of that is garbage, and looking for some takes a sixth of the time.
    gc.disable()
    from assentry.cli.app import run

    sys.exit(run(sys.argv[1:]))
