"""Draws the import graph of the package and fails on a cycle, or on an arrow that points the wrong way.

Every import counts: inside functions, under `if TYPE_CHECKING`, and by name through importlib. What does
not count is that importing a module also runs its package's `__init__`. The second half plants bad
imports in a small tree and checks that each is found, so that this test cannot fall asleep.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = "assentry"

# Who may import whom. A layer may also import itself, except where SEPARATE says otherwise.
LOW = {"errors", "extras", "core", "ports", "system"}
BELOW = LOW | {"engine", "stores", "channels", "keys", "settings", "blocking"}
MAY_IMPORT = {
    "errors": set[str](),
    "extras": {"errors"},
    "core": {"errors"},
    "ports": {"errors", "core"},
    "system": {"errors"},
    "engine": LOW,
    "stores": LOW,
    "channels": LOW,
    "keys": LOW,
    "settings": {"errors", "core"},
    "blocking": LOW | {"engine"},
    "adapters": LOW | {"engine"},
    "telling": LOW | {"engine"},
    "remote": LOW | {"engine", "stores"},
    "assemble": BELOW | {"remote"},
    "testing": BELOW,
    "server": BELOW | {"assemble", "telling", PACKAGE},
    "demo": BELOW | {"assemble", "telling", "server", PACKAGE},
    # `assentry demo` and `assentry serve` are commands: cli stands on both, and neither on cli.
    "cli": BELOW | {"assemble", "telling", "demo", "server", "remote", "adapters", PACKAGE},
    "__main__": {"cli"},
}
MAY_IMPORT[PACKAGE] = set(MAY_IMPORT)

# Layers whose modules are strangers to each other, save for these shared ones.
SEPARATE = {
    "stores": {
        "rows",
        "migrate",
        "handoff",
        "hands",
        "listing",
        "recorder",
        "retention",
        "run_lists",
        "records",
        "searching",
        "statements",
        "words",
    },
    "channels": set[str](),
    "adapters": {"tool_calls", "hosted", "wanted", "langgraph", "claude_code"},
}

# What would let the core read a clock, draw a number, wait, log or touch the world.
IMPURE = {"time", "random", "secrets", "uuid", "uuid_utils", "asyncio", "threading", "logging"}
IMPURE |= {"os", "pathlib", "socket", "subprocess", "sqlite3", "apsw", "psycopg"}
CLOCKS = {"now", "utcnow", "today"}


@dataclass(frozen=True, slots=True, order=True)
class Arrow:
    """One import: `tail` needs `head`, as written at `line` of `file`."""

    tail: str
    head: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.tail} -> {self.head}"


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    file: str
    is_package: bool
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


def modules(source: Path) -> dict[str, Module]:
    """Every module of the package under `source`, by its dotted name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        file = path.relative_to(source.parent).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"), file)
        found[name] = Module(name, file, is_package, tree)
    return found


def imports(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """The full dotted name and line of everything `module` imports, ours or not."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, node.lineno
            case ast.ImportFrom(module=origin, names=names, level=level):
                base = absolute("." * level + (origin or ""), module)
                for alias in names:
                    # `from a import b` means the module a.b if there is one, otherwise a name inside a.
                    whole = f"{base}.{alias.name}"
                    yield (whole if whole in known else base), node.lineno
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield absolute(name, module), node.lineno
            case _:
                pass


def absolute(name: str, module: Module) -> str:
    """`name` without leading dots, seen from `module`."""
    rest = name.lstrip(".")
    level = len(name) - len(rest)
    if level == 0:
        return name
    base = module.package.split(".")
    return ".".join([*base[: len(base) - level + 1], *([rest] if rest else [])])


def arrows(found: dict[str, Module]) -> list[Arrow]:
    """Every import of one of our modules by another, each pair once, at its first line."""
    first: dict[tuple[str, str], Arrow] = {}
    for module in found.values():
        for head, line in imports(module, found):
            ours = head == PACKAGE or head.startswith(f"{PACKAGE}.")
            if ours and head != module.name:
                arrow = Arrow(module.name, head, module.file, line)
                first[module.name, head] = min(arrow, first.get((module.name, head), arrow))
    return sorted(first.values())


def layer(name: str) -> str:
    """The part of the house a module belongs to: `core` for assentry.core.action."""
    return name.split(".")[1] if "." in name else name


def room(name: str) -> str:
    """The part of its layer: `sqlite` for assentry.stores.sqlite.claims, "" for assentry.stores itself."""
    return name.split(".")[2] if name.count(".") > 1 else ""


def wrong_way(arrow: Arrow) -> str | None:
    """Why this arrow may not exist, if it may not."""
    tail, head = layer(arrow.tail), layer(arrow.head)
    if tail != head:
        may = MAY_IMPORT.get(tail, set())
        return None if head in may else f"{tail} may import {', '.join(sorted(may)) or 'nothing of ours'}"
    if tail in SEPARATE and room(arrow.tail) != room(arrow.head) and room(arrow.head) not in SEPARATE[tail]:
        shared = ", ".join(sorted(SEPARATE[tail])) or "nothing"
        return f"siblings in {tail} share only {shared}"
    return None


def cycles(graph: list[Arrow]) -> list[list[Arrow]]:
    """The shortest closed walk through the first module of every knot, a knot being modules that all reach
    each other."""
    leaving: dict[str, list[Arrow]] = {}
    for arrow in graph:
        leaving.setdefault(arrow.tail, []).append(arrow)

    def walks(start: str) -> dict[str, list[Arrow]]:
        """The shortest walk from `start` to every module it reaches, itself included if it comes back."""
        found: dict[str, list[Arrow]] = {}
        queue: list[tuple[str, list[Arrow]]] = [(start, [])]
        for here, walk in queue:
            for arrow in leaving.get(here, []):
                if arrow.head not in found:
                    found[arrow.head] = [*walk, arrow]
                    queue.append((arrow.head, found[arrow.head]))
        return found

    reached = {module: walks(module) for module in sorted(leaving)}
    closed: list[list[Arrow]] = []
    tied: set[str] = set()
    for module, found in reached.items():
        if module in found and module not in tied:
            closed.append(found[module])
            tied.update(other for other in found if module in reached.get(other, {}))
    return closed


def impurities(module: Module) -> Iterator[str]:
    """Each place where a module of the core could touch the world or read the clock."""
    clocks = {"datetime", "date"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "datetime":
            clocks.update(alias.asname or alias.name for alias in node.names)
    for name, line in imports(module, {}):
        if name.partition(".")[0] in IMPURE:
            yield f"{module.file}:{line}: {module.name} -> {name}: the core takes such things as arguments"
    for node in ast.walk(module.tree):
        match node:
            case ast.Attribute(attr=attr, value=ast.Name(id=owner) | ast.Attribute(attr=owner)) if (
                attr in CLOCKS and owner in clocks
            ):
                yield f"{module.file}:{node.lineno}: {owner}.{attr}: the core takes the time as an argument"
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield f"{module.file}:{node.lineno}: async: the core waits for nothing"
            case _:
                pass


def complaints(source: Path) -> list[str]:
    """Everything wrong with the tree under `source`, each with file, line and arrow."""
    found = modules(source)
    graph = arrows(found)
    homeless = [
        f"{module.file}:1: {module.name} has no place in MAY_IMPORT yet: give it one"
        for module in found.values()
        if layer(module.name) not in MAY_IMPORT
    ]
    wrong = [f"{arrow}: {why}" for arrow in graph if (why := wrong_way(arrow))]
    circular = [
        "cycle: " + " -> ".join([walk[0].tail, *(arrow.head for arrow in walk)])
        + "".join(f"\n    {arrow}" for arrow in walk)
        for walk in cycles(graph)
    ]  # fmt: skip
    core = (module for module in found.values() if layer(module.name) == "core")
    return homeless + wrong + circular + [line for module in core for line in impurities(module)]


def drawing(source: Path) -> str:
    """The graph as text, layer by layer: each module and what it imports."""
    found = modules(source)
    heads: dict[str, list[str]] = {name: [] for name in found}
    for arrow in arrows(found):
        heads[arrow.tail].append(arrow.head.removeprefix(f"{PACKAGE}."))
    order = list(MAY_IMPORT)
    place = {name: order.index(layer(name)) if layer(name) in order else len(order) for name in found}
    return "\n".join(
        f"  {name.removeprefix(f'{PACKAGE}.')} -> {', '.join(heads[name]) or '(nothing)'}"
        for name in sorted(found, key=lambda name: (place[name], name))
    )


def test_imports_point_one_way_and_the_core_is_pure() -> None:
    found = complaints(SOURCE)
    if found:
        pytest.fail(
            f"{len(found)} wrong in the import graph:\n\n" + "\n".join(found) + "\n\n" + drawing(SOURCE),
            pytrace=False,
        )


GOOD = {
    "__init__.py": "from assentry.assemble import open_gate",
    "errors.py": "",
    "core/__init__.py": "",
    "core/action.py": "from datetime import datetime\nfrom assentry.errors import Refused",
    "core/policy.py": "from assentry.core.action import Action",
    "ports.py": "from assentry.core import action",
    "engine/__init__.py": "",
    "engine/gate.py": "import assentry.ports\nfrom assentry.core.policy import judge",
    "stores/__init__.py": "",
    "stores/rows.py": "from assentry.core.action import Action",
    "stores/sqlite.py": "from assentry.stores import rows",
    "stores/postgres/__init__.py": "",
    "stores/postgres/claims.py": "from assentry.stores.rows import row\nfrom . import pool",
    "stores/postgres/pool.py": "import psycopg",
    "channels/email.py": "from assentry import ports",
    "assemble.py": "from assentry.engine import gate\nfrom assentry.stores.sqlite import Sqlite",
    "cli/__init__.py": "from assentry.cli.inbox import inbox",
    "cli/inbox.py": "from assentry import open_gate\nfrom assentry.demo import play",
    "demo/__init__.py": "import assentry",
}


def plant(source: Path, files: dict[str, str]) -> Path:
    for name, text in {**GOOD, **files}.items():
        path = source / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source


def test_a_good_tree_has_no_complaints(tmp_path: Path) -> None:
    assert complaints(plant(tmp_path / "src", {})) == []


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("errors.py", "import assentry.core.action", "errors.py:1: assentry.errors -> assentry.core.action"),
        ("core/action.py", "\nfrom assentry import ports", "action.py:2: assentry.core.action -> assentry.ports"),
        ("core/action.py", "from ..ports import Store", "action.py:1: assentry.core.action -> assentry.ports"),
        ("core/action.py", "from assentry import open_gate", "action.py:1: assentry.core.action -> assentry: "),
        ("ports.py", "def f():\n    from assentry.engine.gate import Gate", "ports.py:2: assentry.ports -> "),
        (
            "core/policy.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import assentry.engine.gate",
            "policy.py:3: assentry.core.policy -> assentry.engine.gate: core may import errors",
        ),
        ("engine/gate.py", "from assentry.stores import sqlite", "assentry.engine.gate -> assentry.stores.sqlite"),
        ("engine/gate.py", "from assentry.assemble import x", "assentry.engine.gate -> assentry.assemble"),
        (
            "engine/gate.py",
            "import importlib\nimportlib.import_module('assentry.cli')",
            "gate.py:2: assentry.engine.gate -> assentry.cli",
        ),
        ("stores/sqlite.py", "from assentry.engine import gate", "assentry.stores.sqlite -> assentry.engine.gate"),
        ("stores/sqlite.py", "from .postgres import pool", "siblings in stores share only handoff, hands, listing"),
        ("channels/slack.py", "from assentry.channels import email", "siblings in channels share only nothing"),
        ("settings.py", "import assentry.ports", "settings may import core, errors"),
        ("demo/__init__.py", "import assentry.cli", "assentry.demo -> assentry.cli"),
        ("helpers.py", "", "helpers.py:1: assentry.helpers has no place in MAY_IMPORT yet"),
        (
            "core/action.py",
            "from assentry.core.policy import judge",
            "cycle: assentry.core.action -> ",
        ),
        ("core/action.py", "import os.path", "action.py:1: assentry.core.action -> os.path"),
        ("core/action.py", "from time import time", "action.py:1: assentry.core.action -> time"),
        ("core/action.py", "def f():\n    import uuid", "action.py:2: assentry.core.action -> uuid"),
        ("core/action.py", "import datetime\ndatetime.datetime.now()", "action.py:2: datetime.now"),
        (
            "core/action.py",
            "from datetime import datetime as dt\nf = dt.utcnow",
            "action.py:2: dt.utcnow",
        ),
        ("core/action.py", "from datetime import date\ndate.today()", "action.py:2: date.today"),
        ("core/action.py", "async def f(): ...", "action.py:1: async"),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    found = complaints(plant(tmp_path / "src", {file: text}))
    assert any(complaint in line for line in found), "\n".join(found) or "no complaint at all"


def test_a_cycle_of_three_is_drawn_in_full(tmp_path: Path) -> None:
    files = {
        "engine/a.py": "from assentry.engine import b",
        "engine/b.py": "def late():\n    from assentry.engine import c",
        "engine/c.py": "import assentry.engine.a",
    }
    [found] = complaints(plant(tmp_path / "src", files))
    assert "assentry.engine.a -> assentry.engine.b -> assentry.engine.c -> assentry.engine.a" in found
    assert "engine/b.py:2: assentry.engine.b -> assentry.engine.c" in found


def test_the_drawing_shows_each_module_and_what_it_imports(tmp_path: Path) -> None:
    drawn = drawing(plant(tmp_path / "src", {}))
    assert "  errors -> (nothing)" in drawn
    assert "  engine.gate -> core.policy, ports" in drawn
