"""The last look before anything begins: what may not begin is asked again or withdrawn, in one way for every caller."""

import logging

from assentry.core.request import Request, State
from assentry.engine.execution import Execution
from assentry.engine.judgement import Judgement
from assentry.engine.tool import Tool
from assentry.errors import Conflict

log = logging.getLogger("assentry.clearing")


async def cleared(judgement: Judgement, execution: Execution, tool: Tool, request: Request) -> tuple[Request, int]:
    """The request, and the version of the policy by which it may begin: while it is in the state that it was in.

    Where more is demanded of people by now than they gave, it waits for them again. Else what may not begin is
    withdrawn; what is of unknown outcome stays so, and whoever wanted to try it again hears why not.
    """
    while True:
        reason, version = await judgement.objection(tool, request)
        if not reason:
            return request, version
        if request.state is State.UNKNOWN:
            raise Conflict(
                f"the outcome of request {request.code} is unknown, and it is not tried again: {reason}",
                request_id=request.id, code=request.code, state=str(request.state),
            )  # fmt: skip
        log.warning("request %s is approved and is not run: %s", request.code, reason)
        version = judgement.version
        again = await judgement.asked_anew(tool, request)
        if again is not None:
            request, moved = await execution.ask_again(request, again, policy=version)
        else:
            request, moved = await execution.withdraw(request, reason)
        if moved or request.state is not State.APPROVED:
            return request, version
        # What was found out is about a request that has been approved anew meanwhile: it is looked at as it is now.
