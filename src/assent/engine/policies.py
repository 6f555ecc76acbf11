"""The active policy: applied with an entry, versioned in the store, never changed silently."""

from datetime import datetime

from assent.core.audit import Entry
from assent.core.authority import Principal, may_change, resolve
from assent.core.canonical import digest
from assent.core.policy import Policy
from assent.core.policy_file import load_policy
from assent.errors import NotAllowed
from assent.ports import Store, StoredPolicy


async def apply_policy(
    store: Store, workspace: str, text: str, by: Principal, file: str = "assent.yaml"
) -> StoredPolicy:
    """The document is the active policy, after it was checked; who changed it and to what is on record."""
    load_policy(text, file)

    def entry(version: int, now: datetime) -> Entry:
        body = {"version": version, "digest": digest(text), "file": file.rsplit("/", 1)[-1]}
        return Entry("policy.applied", now, workspace, f"policy:{version}", by.name, body)

    return await store.apply_policy(workspace, text, by.name, entry)


def may_operate(policy: Policy, os_user: str) -> Principal:
    """The person at this machine who may change policy and grants; else the error says why not."""
    person = resolve(policy, os_user)
    if person is None:
        raise NotAllowed(
            f"{os_user} is not among the people of the policy, so may not change it; ask one of them", principal=os_user
        )
    reason = may_change(policy, person)
    if reason is not None:
        raise NotAllowed(reason, principal=person.name)
    return person
