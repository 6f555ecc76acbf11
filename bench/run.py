"""`make bench`: measures Assentry beside its peers and prints what came out, with ratios.

Peers live in an environment of their own, which the first run makes. Everything is measured in processes of its
own, in turns, on one disk and one PostgreSQL server.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.sections import SECTIONS, Setting
from tests import postgres

HERE = Path(__file__).parent


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
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small part of everything, to see that it runs")
    parser.add_argument("--no-peers", action="store_true", help="measure Assentry alone")
    parser.add_argument("--no-postgres", action="store_true", help="leave PostgreSQL out")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="one question; may be repeated")
    parser.add_argument("--rounds", type=int, default=0, help="how often each thing is measured")
    parser.add_argument("--scale", type=float, default=0.0, help="how much of everything: 1 is the real thing")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has the peers already")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "latest.json", help="where the JSON goes")
    args = parser.parse_args()

    peers = None if args.no_peers else args.peers or peers_python()
    (HERE / ".work").mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=HERE / ".work"))
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
    args.out.parent.mkdir(parents=True, exist_ok=True)
    found = {"before": before, "after": machine(), "rounds": rounds, "figures": [each.as_json() for each in figures]}
    args.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"written to {args.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
