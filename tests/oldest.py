"""Prints the oldest version of each package that pyproject.toml allows, as `name==version`: for `make test-oldest`.

`python tests/oldest.py server tui` prints those of the base and of these extras; with `--only`, the extras alone. With
`--rest PACKAGES` it prints what constraints.txt says of all others but these packages, on which the old ones stand.
"""

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OURS = re.compile(r"assentry\[([\w,-]+)\]")
BOUND = re.compile(r"(?P<package>[\w.-]+(?:\[[\w,-]+\])?)>=(?P<version>[\w.]+)(?:,<[\w.]+)?(?P<where>;.*)?")


def oldest(extras: list[str], *, base: bool = True) -> list[str]:
    """The oldest that `pip install assentry[extras]` may bring; a requirement without a lower bound is an error."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional: dict[str, list[str]] = project["optional-dependencies"]

    def pins(requirements: Iterable[str]) -> Iterator[str]:
        for requirement in requirements:
            if ours := OURS.fullmatch(requirement):
                yield from pins(each for extra in ours[1].split(",") for each in optional[extra])
            elif bound := BOUND.fullmatch(requirement):
                yield f"{bound['package']}=={bound['version']}{bound['where'] or ''}"
            else:
                raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound; write name>=version")

    wanted = [*(project["dependencies"] if base else []), *(each for extra in extras for each in optional[extra])]
    return list(dict.fromkeys(pins(wanted)))


def rest(pinned: Iterable[str], others: Iterable[str]) -> list[str]:
    """The lines of constraints.txt that speak of neither."""
    named = {plain(each) for each in (*pinned, *others)}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if plain(line) not in named]


def plain(requirement: str) -> str:
    """The package's name, as the index compares names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=\[;]", requirement)[0]).lower()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--only", action="store_true")
    parser.add_argument("--rest", metavar="PACKAGES")
    given = parser.parse_args()
    found = oldest(given.extras, base=not given.only)
    print("\n".join(found if given.rest is None else rest(found, given.rest.split(","))))
