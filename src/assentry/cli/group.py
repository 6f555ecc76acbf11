"""Groups of commands: called without a command, they print their help."""

from typing import Any

from typer.core import TyperGroup

from assentry.cli.outcome import USAGE


class Group(TyperGroup):
    """Without a command its help is printed as `--help` prints it; since nothing was done, the exit code is 2.

    Not `no_args_is_help`, with which the help is the message of an error.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            print(ctx.get_help())
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)
