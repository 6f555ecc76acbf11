"""What a measuring process does: it obeys orders on its stdin and answers on its stdout, one JSON line each.

Peers run this under their own interpreter, so nothing here needs more than Python itself.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any


def serve(tasks: Mapping[str, Callable[..., Any]]) -> None:
    """Every order was carried out and answered, until stdin ended."""
    # Whatever a library prints must not land between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"is": tasks[order.pop("do")](**order)}
        except Exception as problem:
            traceback.print_exc()
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
