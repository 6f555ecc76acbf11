"""`make bench`: measures Assentry beside its peers, or beside another revision of itself, and prints the ratios.

Peers live in an environment of their own, which the first run makes. Everything is measured in processes of its
own, in turns, on one disk and one PostgreSQL server.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import against
from bench.figures import Figure
from bench.sections import SECTIONS, Setting
from tests import postgres

HERE = Path(__file__).parent
EXAMPLES = """\
examples:
  make bench                                            Assentry beside its peers, about five minutes
  make bench ARGS="--quick --no-peers"                  does everything run?
  make bench ARGS="--against main"                      is what I changed slower? about four minutes
  make bench ARGS="--against HEAD --only cycles"        uncommitted changes against the last commit
  make bench ARGS="--against v0.2.0 --at-most 1.1"      fails where it takes over 1.1 times the processor time
"""


def peers_python() -> str:
    """The interpreter that has the peers, in the versions of `peers.txt`."""
    home, wanted = HERE / ".peers-venv", (HERE / "peers.txt").read_bytes()
    stamp = home / ".ready"
    python = home / "bin" / "python"
    digest = hashlib.sha256(wanted).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        print("setting up the peers (once, about a minute)…", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        install = ["-m", "pip", "install", "-qq", "--disable-pip-version-check", "-r", str(HERE / "peers.txt")]
        subprocess.run([str(python), *install], check=True)
        stamp.write_text(digest)
    return str(python)


def table(figure: Figure) -> str:
    """The figure as lines of a Markdown table."""
    head = ["what", "ours", "±", "against", "theirs", "±", "ratio", "target", ""]
    lines = [head, ["---", "--:", "--:", "---", "--:", "--:", "--:", "--:", "---"]]
    for row in figure.rows:
        theirs = row.theirs
        target = f"≥ {row.at_least:g}" if row.at_least is not None else f"≤ {row.at_most:g}" if row.at_most else ""
        lines.append([
            row.what,
            f"{row.ours.median:,.0f} {row.unit}",
            f"{row.ours.spread:.0%}",
            row.against,
            f"{theirs.median:,.0f} {row.unit}" if theirs else "",
            f"{theirs.spread:.0%}" if theirs else "",
            f"{row.ratio:.2f}" if row.ratio is not None else "",
            target,
            {True: "met", False: "missed", None: ""}[row.met],
        ])  # fmt: skip
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = "".join(f"\n\n{note}" for note in figure.notes)
    return f"## {figure.title}\n\n{text}{notes}\n"


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--against", metavar="REVISION",
        help="compare the working tree, as it is now, with this revision of Assentry (a branch, a tag, a commit) "
        "instead of with peers: processor time and wall time of calls, held cycles, commands and imports",
    )  # fmt: skip
    parser.add_argument(
        "--at-most", type=float, metavar="RATIO",
        help="with --against: exit with status 1 if the working tree takes more than RATIO times the processor time "
        "of the other revision in any line, e.g. 1.1",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small part of everything, to see that it runs")
    parser.add_argument("--no-peers", action="store_true", help="measure Assentry alone")
    parser.add_argument("--no-postgres", action="store_true", help="leave PostgreSQL out")
    parser.add_argument(
        "--only", action="append", choices=list(dict.fromkeys((*SECTIONS, *against.PARTS))),
        help=f"one part; may be repeated. With --against: {', '.join(against.PARTS)}; else {', '.join(SECTIONS)}",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=0, help="how often each thing is measured (default: 5)")
    parser.add_argument("--scale", type=float, default=0.0, help="how much of everything: 1 is the real thing")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has the peers already")
    parser.add_argument(
        "--json", "--out", dest="out", type=Path, metavar="FILE",
        help="where the JSON goes (default: bench/results/latest.json, with --against bench/results/against.json)",
    )  # fmt: skip
    args = parser.parse_args()
    known = against.PARTS if args.against else SECTIONS
    for name in args.only or ():
        if name not in known:
            parser.error(f"--only {name} does not go {'with' if args.against else 'without'} --against")
    if args.at_most is not None and not args.against:
        parser.error("--at-most needs --against REVISION")
    if args.against:
        return _against(args)

    peers = None if args.no_peers else args.peers or peers_python()
    (HERE / ".work").mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=HERE / ".work"))
    out = args.out or HERE / "results" / "latest.json"
    rounds = args.rounds or (1 if args.quick else 5)
    before = machine()
    figures: list[Figure] = []
    try:
        with ExitStack() as stack:
            server = None if args.no_postgres else stack.enter_context(postgres.server())
            setting = Setting(directory, peers, server, rounds, args.scale or (0.02 if args.quick else 1.0))
            for name in args.only or SECTIONS:
                figures.append(SECTIONS[name](setting))
                print(table(figures[-1]), flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    _write(
        out, {"before": before, "after": machine(), "rounds": rounds, "figures": [each.as_json() for each in figures]}
    )
    return 0


def _against(args: argparse.Namespace) -> int:
    """The working tree was compared with a revision; 1 if it takes more than it may, 2 if they cannot be compared."""
    rounds = args.rounds or (1 if args.quick else 5)
    (HERE / ".work").mkdir(exist_ok=True)
    before = machine()
    # Whoever ends us by a signal leaves nothing behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=HERE / ".work")))
            found = against.compared(
                args.against, directory,
                parts=args.only or against.PARTS, rounds=rounds, size=args.scale or (0.02 if args.quick else 1.0),
                with_postgres=not args.no_postgres, at_most=args.at_most,
            )  # fmt: skip
    except against.NotComparable as problem:
        print(f"make bench: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; nothing was written", file=sys.stderr)
        return 130
    print(found.table())
    _write(args.out or HERE / "results" / "against.json", {"before": before, "after": machine(), **found.as_json()})
    return 1 if found.missed else 0


def _write(out: Path, found: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"written to {out}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
