"""What people set in advance: the policy and standing permissions, as one thing that a surface holds."""

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING

from assentry.core.authority import Principal
from assentry.core.grant import Grant, Terms
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.vouching import OfferedTool
from assentry.engine.grants import give, take_back
from assentry.engine.policies import apply_policy, confirm_policy, everywhere_within, find_proposal, reject_policy
from assentry.ports import Store, StoredPolicy

if TYPE_CHECKING:
    from assentry.engine.vouching import ToolList


class Rules:
    """The rules of one workspace."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace

    async def apply(
        self,
        by: Principal,
        text: str,
        file: str = "assentry.yaml",
        *,
        based_on: int | None = None,
        lock_me_out: bool = False,  # noqa: ARG002  only a server asks for it
    ) -> StoredPolicy | PolicyProposal:
        """The document is the active policy; or it waits for a second person."""
        return await apply_policy(self._store, self._workspace, text, by, file, based_on=based_on)

    async def proposals(self) -> tuple[PolicyProposal, ...]:
        """What waits for a second person, newest first."""
        return await self._store.proposals(self._workspace)

    async def proposal(self, code: str) -> PolicyProposal:
        """The proposed change with this code, or the only one that begins like this."""
        return await find_proposal(self._store, self._workspace, code)

    async def confirm(self, by: Principal, proposal: PolicyProposal, seen: str) -> StoredPolicy:
        """What was proposed is the active policy, if it is what was `seen`, by its digest."""
        return await confirm_policy(self._store, self._workspace, by, proposal.code, seen)

    async def reject(self, by: Principal, proposal: PolicyProposal, reason: str = "") -> PolicyProposal:
        """What was proposed will not be active."""
        return await reject_policy(self._store, self._workspace, by, proposal.code, reason)

    async def everywhere_within(self) -> timedelta:
        """After how long at most every instance goes by what was just changed."""
        return await everywhere_within(self._store, self._workspace)

    async def give(self, by: Principal, terms: Terms) -> Grant:
        """The grant stands from now on."""
        return await give(self._store, self._workspace, by, terms)

    async def tools(self, source: str = "") -> tuple[OfferedTool, ...]:
        """What agents and servers offer that nobody trusted outright; of one source, or of all."""
        return await self._store.tools(self._workspace, source)

    async def vouch(self, by: Principal, source: str, names: Collection[str] = ()) -> tuple[OfferedTool, ...]:
        """This person vouches for these tools as they are defined; without names, for all that wait."""
        return await self._tools.vouch(by, source, names)

    async def revoke(self, by: Principal, source: str, names: Collection[str] = ()) -> tuple[OfferedTool, ...]:
        """Nobody vouches for these tools any more; without names, for none of the source."""
        return await self._tools.revoke(by, source, names)

    @property
    def _tools(self) -> "ToolList":
        # Most commands say nothing of tools, and need not import what judging needs.
        from assentry.engine.judgement import Judgement
        from assentry.engine.vouching import ToolList

        return ToolList(self._store, self._workspace, Judgement(self._store, self._workspace))

    async def take_back(self, by: Principal, grant: Grant) -> Grant:
        """The grant is revoked."""
        return await take_back(self._store, self._workspace, by, grant)
