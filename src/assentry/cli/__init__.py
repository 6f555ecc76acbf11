"""The command `assentry`: one module per group of commands, loaded when it is called for."""

import sys


def main() -> None:
    """The command was carried out, and the process ends with its exit code."""
    from assentry.cli.app import run

    sys.exit(run(sys.argv[1:]))
