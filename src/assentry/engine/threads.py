"""Plain functions beside the event loop, each in a thread of its own.

A pool would be shared by functions and by what they wait for: once its threads wait for each other, nothing moves.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], /, *args: Any) -> T:
    """What the function returned or raised; it sees the context of the caller."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def told(result: T | None, problem: BaseException | None) -> None:
        if done.cancelled():
            return
        if problem is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(problem)

    def work() -> None:
        result: T | None = None
        problem: BaseException | None = None
        try:
            result = context.run(function, *args)
        except StopIteration as stop:  # a future cannot carry one
            problem = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001  it belongs to whoever waits
            problem = raised
        with suppress(RuntimeError):  # a loop that was closed waits for nothing
            loop.call_soon_threadsafe(told, result, problem)

    threading.Thread(target=work, name=f"assentry {getattr(function, '__name__', 'call')}", daemon=True).start()
    return await done
