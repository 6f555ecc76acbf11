"""Generated conditions over generated data, evaluated one after the other: none takes more than a bounded time or memory,
whoever wrote it.

The generator knows what has once grown or taken long: loops in loops over what is written out and over the data, lists
and texts made inside them, functions that copy, regular expressions, deep and large data, and keys and numbers at the
ends of their ranges. What does not load is counted as refused, which is fine.
"""

import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assentry.core import condition, condition_values
from assentry.core.condition import FIELDS, Failed, compile_condition
from assentry.core.condition_values import Expression, Scope
from assentry.errors import PolicyError
from tests.evidence import planted
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, fork, listen

LANES = 2
BATCH = 100
TOLD = 5
_TRIED = 1_000
PROCESSOR_SECONDS = 2.0
"""Ten times the design: other work on the machine costs processor time too."""
MEMORY = 256 << 20
"""What the process may grow by, while it evaluates all of them."""
Dice = random.Random
_LOOPS = ("all", "exists", "exists_one", "map", "filter")
_WORDS = ("args.t", "args.s", "'a'", "'ab'", "args.m.k", "args.d.x.y")
_LISTS = ("args.n", "args.l", "[1,2,3,4,5,6,7,8,9,10]", "[args.t, args.s]", "args.deep", "args.m", "[args.n, args.l]")
_PATTERNS = (
    "(x+x+)+y", "(a|aa)+$", "[a-z]{1,900}x", "(.{1,60}){1,15}b", "(?i)\\\\pL{1,40}z", "(a|b)*a(a|b){14}c", ".*.*.*.*x", "a",
    "((a{1,30}){1,30})b", "\\\\pL{1,999}", "^(([a-z])+.)+[A-Z]([a-z])+$", "(", "\\\\bab\\\\b",
)  # fmt: skip


def a_condition(dice: Dice) -> str:
    """Mostly one that loads, and often a costly one."""
    return f"{_truth(dice, dice.choice((2, 3, 4, 5)), ())}"


def _truth(dice: Dice, depth: int, names: tuple[str, ...]) -> str:
    form = dice.choice((0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 8, 8, 8)) if depth > 0 else dice.choice((0, 1, 4))
    match form:
        case 0:
            return f"{_word(dice, depth - 1, names)} {dice.choice(('==', '!=', '<', '>='))} {_word(dice, depth - 1, names)}"
        case 1:
            return f"{_list(dice, depth - 1, names)}.size() > {dice.choice(('0', '-1', '99'))}"
        case 2:
            sign = dice.choice((" && ", " || "))
            return "(" + sign.join(_truth(dice, depth - 1, names) for _ in range(dice.choice((2, 2, 3)))) + ")"
        case 3:
            return f"!({_truth(dice, depth - 1, names)})"
        case 4:
            return f"{_word(dice, depth - 1, names)}.matches('{dice.choice(_PATTERNS)}')"
        case 5:
            function = dice.choice(("contains", "startsWith", "endsWith"))
            return f"{_word(dice, depth - 1, names)}.{function}({_word(dice, depth - 1, names)})"
        case 6:
            return f"{_word(dice, depth - 1, names)} in {_list(dice, depth - 1, names)}"
        case 7:
            return f"{_list(dice, depth - 1, names)} == {_list(dice, depth - 1, names)}"
        case _:
            name = dice.choice("xyzvw")
            loop, inner = dice.choice(_LOOPS), _truth(dice, depth - 1, (*names, name))
            # So that it goes on to the end, whatever it finds.
            inner += {"all": " || true", "exists": " && false"}.get(loop, "")
            made = f"{dice.choice(_LISTS + names) if dice.random() < 0.7 else _list(dice, depth - 1, names)}.{loop}({name}, {inner})"
            return f"{made}.size() > 0" if loop in ("map", "filter") else made


def _word(dice: Dice, depth: int, names: tuple[str, ...]) -> str:
    if depth <= 0 or dice.random() < 0.4:
        return dice.choice((*_WORDS, *names, *names))
    inner = _word(dice, depth - 1, names)
    match dice.randrange(4):
        case 0:
            return f"{inner}.lowerAscii()"
        case 1:
            return f"string({inner})"
        case 2:
            return "(" + " + ".join([inner] * dice.choice((2, 2, 5, 19))) + ")"
        case _:
            return f"({_truth(dice, depth - 1, names)} ? {inner} : {_word(dice, depth - 1, names)})"


def _list(dice: Dice, depth: int, names: tuple[str, ...]) -> str:
    if depth <= 0 or dice.random() < 0.4:
        return dice.choice((*_LISTS, *names))
    name = dice.choice("xyzvw")
    inner = _list(dice, depth - 1, names)
    match dice.choice((0, 1, 2, 3, 3, 4, 4, 5)):
        case 0:
            return f"{inner}.map({name}, {dice.choice((_word, _list))(dice, depth - 1, (*names, name))})"
        case 1:
            return f"{inner}.filter({name}, {_truth(dice, depth - 1, (*names, name))})"
        case 2:
            return "(" + " + ".join([inner] * dice.choice((2, 5, 19))) + ")"
        case 3:
            copied = dice.choice(
                (
                    f"{name}.lowerAscii()",
                    f"({name} + {name})",
                    f"string({name})",
                    f"{inner}.map(e, {name}.lowerAscii())",
                )
            )
            return f"{dice.choice(('[args.t, args.s]', 'args.l'))}.map({name}, {inner}.map(d, {copied}))"
        case 4:
            return f"{dice.choice(('[args.t, args.s]', 'args.l'))}.map({name}, args.n.map(d, {name}.lowerAscii()))"
        case _:
            return f"[{_word(dice, depth - 1, names)}, {_list(dice, depth - 1, names)}]"


def some_data(dice: Dice) -> dict[str, Any]:
    """Arguments of up to about a megabyte."""
    size = dice.choice((300, 3_000, 100_000, 1_000_000))
    items = dice.choice((50, 700, 20_000))
    deep: Any = []
    for _ in range(dice.choice((3, 31, 40, 300))):
        deep = [deep]
    text = dice.choice(("a", "ab", "é", "aX")) * size
    return {
        "t": text[:size], "s": text[: size // 2] + "b", "n": list(range(items)), "l": ["a" * (size // items)] * items,
        "m": {**{str(number): "x" * 30 for number in range(items // 10)}, "k": "a" * 99}, "deep": deep,
        "d": {"x": {"y": text[:40]}},
    }  # fmt: skip


def evaluated(seed: int, batches: range, size: int, say: Say, plant: Callable[[], None] | None = None) -> None:
    """Says, batch by batch, how many there were and which of them took too much."""
    if plant is not None:
        plant()
    with Path("/proc/self/statm").open() as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    for batch in batches:
        dice, wrong, counts = Dice(seed + batch), [], {"conditions": 0, "refused": 0, "held": 0, "failed": 0}
        most = 0.0
        data = some_data(dice)
        for number in range(size):
            text = a_condition(dice)
            if number % 10 == 0:
                data = some_data(dice)
            say("next", text=text[:300], number=batch * size + number)
            took, ended, problem = _once(text, data)
            most = max(most, took)
            counts["conditions"] += 1
            counts[ended] += 1
            if problem and len(wrong) < TOLD:
                wrong.append(f"condition {batch * size + number}: {problem}: {text[:300]}")
                if plant is not None:
                    break
        say("batch", counts=counts, wrong=wrong, most=round(most, 3))


def _once(text: str, data: dict[str, Any]) -> tuple[float, str, str]:
    """How long it took, how it ended, and what was wrong with that."""
    began = time.thread_time()
    ended, problem = "held", ""
    try:
        outcome = compile_condition(text).holds({**{name: {} for name in FIELDS}, "args": data})
        if isinstance(outcome, Failed):
            ended = "failed"
            problem = outcome.says if "gave up" in outcome.says else ""
    except PolicyError:
        ended = "refused"
    took = time.thread_time() - began
    if took > PROCESSOR_SECONDS:
        problem = f"it took {took:.1f} s"
    return took, ended, problem


def steps_are_free() -> None:
    """Nothing that an evaluation does is paid for."""
    planted.swap(Scope, "spend", lambda self, steps: None)


def room_is_free() -> None:
    """What an evaluation makes may be as large as it likes, and copying it costs nothing."""
    planted.swap(Scope, "take", lambda self, characters: None)


def expressions_are_free() -> None:
    """A regular expression costs as much as a look at the text."""
    compiled = condition_values.expression
    planted.swap(condition, "expression", lambda text: Expression(compiled(text).program, 0))


PLANTED = (steps_are_free, room_is_free, expressions_are_free)


def run(seed: int, cases: int, progress: Callable[[str], None]) -> Outcome:
    size = min(BATCH, cases)
    count = max(1, cases // size)
    outcome = Outcome(
        "conditions",
        "generated conditions over generated data: bounded processor time and memory, and always an answer",
        ("I15",),
        seed,
        sizes={"conditions": count * size},
        bounds={
            "processor seconds of each": PROCESSOR_SECONDS,
            "memory of a process": MEMORY,
            "seed of batch n": "seed + n",
        },
    )
    began = time.monotonic()
    lanes = [
        fork(f"lane {lane}", lambda say, lane=lane: evaluated(seed, range(lane, count, LANES), size, say))  # type: ignore[misc]
        for lane in range(min(LANES, count))
    ]

    def look() -> bool:
        progress(f"{sum(one['counts']['conditions'] for lane in lanes for one in lane.said('batch'))}/{count * size}")
        return any(lane.said("crash") for lane in lanes)

    listen(lanes, time.monotonic() + 300 + cases / 2, look)
    most = 0.0
    for lane in lanes:
        heard = lane.end()
        for one in heard:
            if one["what"] == "batch":
                outcome.take(one["counts"], one["wrong"])
                most = max(most, one["most"])
        if heard and heard[-1]["what"] != "batch":
            last = lane.said("next")[-1:]
            outcome.wrong.append(f"the process ended, or took too long: {last}")
    outcome.figures["longest, in ms of the processor"] = round(1000 * most)
    outcome.controls = [_control(seed, plant) for plant in PLANTED]
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(seed: int, plant: Callable[[], None]) -> Control:
    name, means = plant.__name__.replace("_", " "), (plant.__doc__ or "").strip()

    def look() -> bool:
        return any(one["wrong"] for one in child.said("batch")) or bool(child.said("crash"))

    def limited(say: Say) -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        evaluated(seed, range(_TRIED // 10), 10, say, plant)

    child = fork("control", limited)
    listen([child], time.monotonic() + 300, look)
    child.end()
    first = next((text for one in child.said("batch") for text in one["wrong"]), "")
    asked = child.said("next")
    if not first and len(asked) < _TRIED and asked:
        first = f"condition {asked[-1]['number']}: nothing came of it in 30 s of the processor: {asked[-1]['text']}"
    after = int(first.split()[1].rstrip(":")) if first else None
    return Control(name, means, bool(first), after, first)
