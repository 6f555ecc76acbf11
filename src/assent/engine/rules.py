"""What people set in advance: the policy and standing permissions, as one thing that a surface holds."""

from assent.core.authority import Principal
from assent.core.grant import Grant, Terms
from assent.engine.grants import give, take_back
from assent.engine.policies import apply_policy
from assent.ports import Store, StoredPolicy


class Rules:
    """The rules of one workspace."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace

    async def apply(self, by: Principal, text: str, file: str = "assent.yaml") -> StoredPolicy:
        """The document is the active policy."""
        return await apply_policy(self._store, self._workspace, text, by, file)

    async def give(self, by: Principal, terms: Terms) -> Grant:
        """The grant stands from now on."""
        return await give(self._store, self._workspace, by, terms)

    async def take_back(self, by: Principal, grant: Grant) -> Grant:
        """The grant is revoked."""
        return await take_back(self._store, self._workspace, by, grant)
