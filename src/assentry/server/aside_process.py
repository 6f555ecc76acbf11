"""The process in which something is evaluated aside: one question comes in as JSON, one answer goes out."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any


def limited(seconds: int, memory: int) -> None:
    """This process may take so much from now on, and write no file. Does nothing where the system cannot."""
    try:
        import resource
    except ImportError:
        return
    for what, most in (("RLIMIT_CPU", seconds), ("RLIMIT_AS", memory), ("RLIMIT_FSIZE", 0), ("RLIMIT_CORE", 0)):
        with suppress(ValueError, OSError, AttributeError):
            resource.setrlimit(getattr(resource, what), (most, most))


def check(given: dict[str, Any]) -> dict[str, Any]:
    """What is wrong with a policy, and what it would change."""
    from assentry.core.authority import Principal, may_change
    from assentry.core.policy import builtin_policy
    from assentry.core.policy_document import to_document
    from assentry.core.policy_file import load_policy, stored_policy
    from assentry.telling.differing import changes

    new = load_policy(given["text"], "policy", now=datetime.fromisoformat(given["now"]))
    old = stored_policy(*given["active"]) if given["active"] is not None else builtin_policy()
    who = given["person"]
    reason = may_change(new, Principal(who["name"], who["kind"], tuple(who["roles"]), tuple(who["teams"])))
    locked = [f"you could not change it back: {reason}"] if reason is not None else []
    return {
        "ok": True,
        "complaints": [],
        "warnings": [*new.warnings, *locked],
        "changes": list(changes(to_document(old), to_document(new))),
    }


def explain(given: dict[str, Any]) -> Any:
    """What a policy would make of a call."""
    from assentry.core.action import Declaration, Reach, Risk
    from assentry.core.canonical import restore
    from assentry.core.policy_file import load_policy
    from assentry.engine.judgement import Judgement
    from assentry.telling.explaining import Call, explained, explanation_document
    from assentry.telling.plain import plain_json

    call, now = given["call"], datetime.fromisoformat(given["now"])
    said = call["declared"]
    if said["reach"] is not None:
        said["reach"] = Reach(said["reach"])
    if said["risk"] is not None:
        said["risk"] = Risk(said["risk"])
    made = Call(**{**call, "args": restore(call["args"]), "declared": Declaration(**said)})
    nowhere: Any = None  # it is asked nothing of a store
    judgement = Judgement(nowhere, "", load_policy(given["text"], "policy"))
    return plain_json(explanation_document(explained(judgement, made, now), "the text given"))


def hold(given: dict[str, Any]) -> list[bool | str]:
    """Of each view whether the condition holds, or why that could not be said."""
    from assentry.core.canonical import restore
    from assentry.core.condition import Failed, compile_condition

    condition = compile_condition(given["condition"])
    found = []
    for view in given["views"]:
        held = condition.holds(restore(view))
        found.append(held.says if isinstance(held, Failed) else held)
    return found


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {"check": check, "explain": explain, "hold": hold}


def main() -> None:
    """One answer on standard output; none where the limits end this process."""
    limited(int(sys.argv[1]), int(sys.argv[2]))
    from assentry.errors import AssentryError

    given = json.loads(sys.stdin.buffer.read())
    try:
        answer: dict[str, Any] = {"made": JOBS[given["job"]](given)}
    except AssentryError as problem:
        complaints = list(getattr(problem, "complaints", ()))
        answer = {"problem": type(problem).__name__, "says": str(problem), "complaints": complaints}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
