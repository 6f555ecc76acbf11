"""Pydantic AI agents under Assentry: every tool call through a gate, and a run that parks as its message history.

The tools of an agent are wrapped for each run; the agent itself is left as it is. Where a call has to wait and the run
parks, the framework defers it in its own way. Whatever comes back to it later is not believed: the call is looked up
again, and only the decision on record counts.
"""

from assentry.extras import needs

with needs("pydantic-ai", __name__):
    import pydantic_ai  # noqa: F401

from assentry.adapters.pydantic_ai.agent import Attached, attach
from assentry.adapters.pydantic_ai.tools import GuardedToolset

__all__ = ["Attached", "GuardedToolset", "attach"]
