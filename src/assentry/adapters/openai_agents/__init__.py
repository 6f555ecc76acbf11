"""Agents of the OpenAI Agents SDK under Assentry: every tool call through a gate, and a run that parks as its RunState.

An agent is copied with its tools guarded, and so are those it hands off to or uses as tools; the originals are left as
they are. Where a call has to wait and the run parks, the framework interrupts itself in its own way. What its state
says of approvals is not believed: each call is looked up again, and only the decision on record counts.
"""

from assentry.extras import needs

with needs("openai-agents", __name__):
    import agents  # noqa: F401

from assentry.adapters.openai_agents.agent import Attached, Streamed, attach
from assentry.adapters.openai_agents.tools import guarded_tool

__all__ = ["Attached", "Streamed", "attach", "guarded_tool"]
