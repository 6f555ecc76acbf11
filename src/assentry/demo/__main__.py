"""`python -m assentry.demo`: the same as `assentry demo`."""

import argparse
import sys

from assentry.demo import run
from assentry.errors import MissingExtra


def main() -> int:
    """The demo was played; its exit code."""
    parser = argparse.ArgumentParser(prog="assentry demo", description="Agents are stopped at the gate; you decide.")
    parser.add_argument("--script", action="store_true", help="play it without a person, decided by other processes")
    parser.add_argument("--terminal", action="store_true", help="decide at this terminal instead of in a browser")
    parser.add_argument("--no-browser", dest="opens", action="store_false", help="print the link, open nothing")
    parser.add_argument("--json", action="store_true", help="a JSON summary on standard output, the story on the other")
    parser.add_argument(
        "--seed", type=int, default=1, help="another number: other files and, scripted, other decisions"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    parser.add_argument("--speed", type=float, default=None, help="how fast the agent works; 2 is twice as fast")
    parser.add_argument("--database", default="", help="postgresql://…, instead of a file in the folder")
    given = parser.parse_args()
    try:
        return run(
            script=given.script,
            terminal=given.terminal,
            opens=given.opens,
            as_json=given.json,
            seed=given.seed,
            keep=given.keep,
            speed=given.speed,
            database=given.database,
        )
    except MissingExtra as problem:
        print(problem, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
