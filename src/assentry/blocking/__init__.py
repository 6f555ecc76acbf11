"""The one synchronous face: a gate's waiting methods, and a run's, for code without asyncio.

Guarded synchronous functions need none of this: they block by themselves.
"""

from assentry.blocking.gate import BlockingGate, BlockingProposal
from assentry.blocking.run import BlockingRun

__all__ = ["BlockingGate", "BlockingProposal", "BlockingRun"]
