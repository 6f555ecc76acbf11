"""`python -m bench.evaluators`: the evaluators of conditions that there are, beside ours.

Each is installed into a directory of its own and measured in processes of its own: how large it is, what importing it
takes, what a condition takes with its variables handed over each time, how much of the table of the condition suite it
answers alike, and what becomes of conditions made to take too much. How ours answers beside Google's on generated
conditions is `--alike`.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGES = {
    "ours": "google-re2==1.1.20251105",
    "cel-expr-python": "cel-expr-python==0.1.3",
    "common-expression-language": "common-expression-language==0.10.0",
    "python-cel": "python-cel==0.1.1",
    "cel-python": "cel-python==0.5.0",
}
VARIABLES = ("action", "args", "effect", "facts", "run")
ORDINARY = (
    "facts.count > 100",
    'facts.amount < 1000.0 && facts.currency == "EUR"',
    'has(args.database) && args.database.startsWith("prod")',
    'facts.recipients.exists(who, !who.endsWith("@example.com"))',
)
VIEW: dict[str, Any] = {
    "args": {"database": "prod-eu", "amount": 12.5},
    "facts": {"count": 300, "amount": 50.0, "currency": "EUR", "recipients": ["x@ours.example"] * 3},
    "effect": {"reversible": True}, "action": {"name": "send_mail"}, "run": {"steps": 3},
}  # fmt: skip
_TEN = "[1,2,3,4,5,6,7,8,9,10]"
_LOOK = "!args.a.matches('(x+x+)+y')"
BOMBS = {
    "texts made in loops over lists": f"{_TEN}.map(x, {_TEN}.map(y, {_TEN}.map(z, args.a + 'b'))).size() > 0",
    "lists that double": "['x'].map(a, a + a)" + ".map(a, a + a)" * 30 + ".size() > 0",
    "four loops over lists": f"{_TEN}.all(x, {_TEN}.all(y, {_TEN}.all(z, {_TEN}.all(w, {_LOOK}))))",
    "three loops over data": "args.n.all(x, args.n.all(y, args.n.all(z, x + y + z > -1)))",
    "a costly regular expression": f"{_TEN}.all(x, !args.a.matches('[a-z]{{1,900}}x'))",
}
SECONDS, MEMORY = 20, 4 << 30


def _ours() -> Callable[[str], Callable[[Any], Any]]:
    from assentry.core.condition import compile_condition

    return lambda text: compile_condition(text).holds


def _cel_expr_python() -> Callable[[str], Callable[[Any], Any]]:
    from cel_expr_python import cel

    table = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    environment = cel.NewEnv(variables=dict.fromkeys(VARIABLES, table))

    def compiled(text: str) -> Callable[[Any], Any]:
        program = environment.compile(text)
        return lambda view: program.eval(data=view).value()

    return compiled


def _common_expression_language() -> Callable[[str], Callable[[Any], Any]]:
    import cel

    def compiled(text: str) -> Callable[[Any], Any]:
        return cel.compile(text).execute  # type: ignore[no-any-return]

    return compiled


def _python_cel() -> Callable[[str], Callable[[Any], Any]]:
    import cel

    def compiled(text: str) -> Callable[[Any], Any]:
        program = cel.Program(text)

        def execute(view: Any) -> Any:
            context = cel.Context()
            context.add_variables(view)
            return program.execute(context)

        return execute

    return compiled


def _cel_python() -> Callable[[str], Callable[[Any], Any]]:
    import celpy

    environment = celpy.Environment()

    def compiled(text: str) -> Callable[[Any], Any]:
        program = environment.program(environment.compile(text))
        return lambda view: program.evaluate({name: celpy.json_to_cel(value) for name, value in view.items()})

    return compiled


SUBJECTS = {
    "ours": _ours, "cel-expr-python": _cel_expr_python, "common-expression-language": _common_expression_language,
    "python-cel": _python_cel, "cel-python": _cel_python,
}  # fmt: skip


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 10


def measured(name: str) -> dict[str, Any]:
    """Import, speed and the table of the suite, in this process."""
    import assentry.core.condition
    from tests.core import test_condition  # what else is imported is the same for all of them

    before, began = _rss(), time.process_time()
    compiler = SUBJECTS[name]()
    compiler("true")
    if name == "ours":
        import re2  # noqa: F401  as the first `matches` does
    found: dict[str, Any] = {"import_kb": _rss() - before, "import_ms": 1000 * (time.process_time() - began)}
    conditions = [compiler(text) for text in ORDINARY]
    for count in (1, 100):
        best = []
        for _ in range(7):
            began, rounds = time.process_time(), max(1, 2_000 // count)
            for _ in range(rounds):
                for number in range(count):
                    conditions[number % len(conditions)](VIEW)
            best.append(1e6 * (time.process_time() - began) / rounds)
        found[f"us_{count}"] = min(best)
    empty: dict[str, Any] = {each: {} for each in assentry.core.condition.FIELDS}
    (rows,) = (mark.args[1] for mark in test_condition.test_a_condition_says_true_or_false.pytestmark)
    alike = 0
    for text, variables, expected in rows:
        with contextlib.suppress(BaseException):  # a panic of the other side is not an Exception
            value = compiler(text)({**empty, **variables})
            alike += value in (True, False) and bool(value) is expected
    (rows_wrong,) = (
        mark.args[1] for mark in test_condition.test_what_is_not_a_boolean_fails_with_a_sentence.pytestmark
    )
    failing = 0
    for text, variables, _ in rows_wrong:
        try:
            failing += compiler(text)({**empty, **variables}) not in (True, False)
        except BaseException:
            failing += 1
    return {**found, "alike": f"{alike} of {len(rows)}", "failing": f"{failing} of {len(rows_wrong)}"}


def bombed(name: str, text: str) -> dict[str, Any]:
    """What became of one condition; the process may not survive it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    view = {**VIEW, "args": {"a": "a" * 1_000_000, "n": list(range(300))}}
    began, before = time.process_time(), _rss()
    try:
        said = str(SUBJECTS[name]()(text)(view))[:60]
    except BaseException as problem:
        said = f"{type(problem).__name__}: {problem}"[:60]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": time.process_time() - began, "mb": max(0, peak - before) >> 10, "said": said}


def _size(directory: Path) -> float:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def _in_process(place: Path, *words: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), str(Path(__file__).parent.parent)])}
    done = subprocess.run(
        [sys.executable, "-m", "bench.evaluators", *words], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return {
            "ended": f"the process ended with {done.returncode}",
            "said": (done.stderr.strip().split("\n") or [""])[-1],
        }
    made: dict[str, Any] = json.loads(done.stdout.strip().split("\n")[-1])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.evaluators", description=__doc__)
    parser.add_argument("--only", choices=list(SUBJECTS), action="append")
    parser.add_argument("--alike", type=int, default=0, metavar="N", help="ours beside cel-expr-python, N conditions")
    parser.add_argument("--measured", help=argparse.SUPPRESS)
    parser.add_argument("--bombed", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--beside", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measured or given.bombed or given.beside:
        made = (
            measured(given.measured)
            if given.measured
            else bombed(*given.bombed)
            if given.bombed
            else alike(given.beside)
        )
        print(json.dumps(made))
        return
    with tempfile.TemporaryDirectory() as made_in:
        for name in ("cel-expr-python",) if given.alike else given.only or SUBJECTS:
            place, alone = Path(made_in, name), Path(made_in, f"{name}-alone")
            install = [sys.executable, "-m", "pip", "install", "-qq", "--no-compile", "--disable-pip-version-check"]
            subprocess.run([*install, "--no-deps", "--target", str(alone), PACKAGES[name]], check=True)
            subprocess.run([*install, "--target", str(place), PACKAGES[name]], check=True)
            if given.alike:
                print(json.dumps(_in_process(place, "--beside", str(given.alike)), indent=2))
                return
            print(f"{name}: {_size(alone):.1f} MB, {_size(place):.1f} MB with what it requires", flush=True)
            print(f"  {_in_process(place, '--measured', name)}", flush=True)
            for means, text in BOMBS.items():
                print(f"  {means}: {_in_process(place, '--bombed', name, text)}", flush=True)


_LEAVES = (
    "args.a", "args.b", "args.n", "args.l", "args.m", "args.s", "args.t", "args.z", "args.f", "args.l[0]", "args.m.k",
    "facts.count", "facts.amount", "args.deep.x.y", "args.missing",
)  # fmt: skip
_LITERALS = (
    "1",
    "0",
    "-1",
    "2.5",
    "'a'",
    "''",
    "true",
    "false",
    "null",
    "[1,2]",
    "['a','b']",
    "[]",
    "{'k': 1}",
    r"r'\b'",
)
_DATA: dict[str, Any] = {
    "args": {"a": "a", "b": "Bb", "n": 2, "l": ["a", "b", 1], "m": {"k": 1, "j": "a"}, "s": "aAbB", "t": True,
             "z": None, "f": 1.5, "deep": {"x": {"y": [1, 2, 3]}}},
    "facts": {"count": 3, "amount": 2.0}, "effect": {}, "action": {}, "run": {},
}  # fmt: skip


def _any(dice: random.Random, depth: int, names: tuple[str, ...] = ()) -> str:
    if depth <= 0 or dice.random() < 0.15:
        return dice.choice((_LEAVES if dice.random() < 0.85 else _LITERALS) + names * 8)

    def one() -> str:
        return _any(dice, depth - 1, names)

    match dice.randrange(11):
        case 0 | 1:
            return f"({one()} {dice.choice(('==', '!=', '<', '<=', '>', '>=', 'in'))} {one()})"
        case 2 | 3:
            return f"({one()} {dice.choice(('&&', '||'))} {one()})"
        case 4:
            return f"({one()} {dice.choice('+-*/%')} {one()})"
        case 5:
            return f"!{one()}"
        case 6:
            return f"({one()} ? {one()} : {one()})"
        case 7:
            return f"{one()}.{dice.choice(('contains', 'startsWith', 'endsWith', 'matches'))}({one()})"
        case 8:
            return f"{dice.choice(('size', 'int', 'double', 'string'))}({one()})"
        case 9:
            return f"{one()}[{one()}]"
        case _:
            name = dice.choice("xyz")
            loop = dice.choice(("all", "exists", "exists_one", "map", "filter"))
            return f"{one()}.{loop}({name}, {_any(dice, depth - 1, (*names, name))})"


def alike(count: int) -> dict[str, Any]:
    """Ours beside Google's on generated conditions: `different` must be empty, where ours is not only stricter."""
    ours, google, dice = _ours(), _cel_expr_python(), random.Random(20260102)
    found: dict[str, Any] = {
        "both refuse": 0,
        "ours refuses": 0,
        "google refuses": 0,
        "same": 0,
        "ours fails": [],
        "different": [],
    }
    for _ in range(count):
        text = f"{_any(dice, dice.choice((1, 2, 2, 3)))} {dice.choice(('==', '<', '&&', '||', 'in'))} {_any(dice, 2)}"
        made = []
        for compiler in (ours, google):
            try:
                made.append(compiler(text))
            except Exception:
                made.append(None)
        if made[0] is None or made[1] is None:
            both = made[0] is None and made[1] is None
            found["both refuse" if both else "ours refuses" if made[0] is None else "google refuses"] += 1
            continue
        mine, theirs = ((value if (value := step(_DATA)) in (True, False) else None) for step in made)
        if mine is theirs:
            found["same"] += 1
        else:
            found["ours fails" if mine is None else "different"].append(f"{text}: {mine}, theirs {theirs}")
    return found


if __name__ == "__main__":
    main()
