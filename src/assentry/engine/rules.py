"""What people set in advance: the policy and standing permissions, as one thing that a surface holds."""

from assentry.core.authority import Principal
from assentry.core.grant import Grant, Terms
from assentry.core.policy_proposal import PolicyProposal
from assentry.engine.grants import give, take_back
from assentry.engine.policies import apply_policy, confirm_policy, find_proposal, reject_policy
from assentry.ports import Store, StoredPolicy


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

    async def give(self, by: Principal, terms: Terms) -> Grant:
        """The grant stands from now on."""
        return await give(self._store, self._workspace, by, terms)

    async def take_back(self, by: Principal, grant: Grant) -> Grant:
        """The grant is revoked."""
        return await take_back(self._store, self._workspace, by, grant)
