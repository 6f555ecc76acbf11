"""The active policy: applied with an entry, versioned in the store, never changed silently.

Where the active policy says `second_person`, what is applied becomes a proposal, and another person confirms it. Which
policy is active is looked at again inside the transaction that makes the next one active, so nobody who still has an
older one in hand slips past.
"""

from dataclasses import replace
from datetime import datetime
from functools import partial

from assentry.core.audit import Entry
from assentry.core.authority import Principal, may_change, resolve
from assentry.core.canonical import digest
from assentry.core.policy import Policy, builtin_policy
from assentry.core.policy_proposal import PolicyProposal, ProposalState
from assentry.core.proposing import proposed, rejected, why_not_confirm
from assentry.engine.threads import in_thread
from assentry.errors import AlreadyDecided, NotAllowed, NotFound, PolicyError, StaleRequest
from assentry.ports import Store, StoredPolicy

_KEY = "second_person"


async def active_policy(store: Store, workspace: str) -> Policy:
    """Who may change the policy by the version that is active in the store at this moment; version 0 is built in.

    Where this version of Assentry cannot load it, so that somebody has to replace it, the last one that loads says who
    may; and two people are needed if either wants them.
    """
    stored = await store.policy(workspace)
    if stored is None:
        return builtin_policy()
    try:
        return await _loaded(stored)
    except PolicyError:
        last = await _last_that_loads(store, workspace)
        return replace(last, version=stored.version, second_person=last.second_person or _KEY in stored.text)


async def _last_that_loads(store: Store, workspace: str) -> Policy:
    for each in await store.policies(workspace):
        try:
            return await _loaded(each)
        except PolicyError:
            continue
    return builtin_policy()


async def _read(text: str, file: str, *, now: datetime) -> Policy:
    """The policy, checked beside the loop: a large file takes a second.

    The reader of YAML and of conditions is imported where there is a text to read; the built-in policy has none.
    """
    from assentry.core.policy_file import load_policy

    return await in_thread(partial(load_policy, text, file, now=now))


async def _loaded(stored: StoredPolicy) -> Policy:
    from assentry.core.policy_file import stored_policy

    return await in_thread(stored_policy, stored.text, stored.version)


async def apply_policy(
    store: Store, workspace: str, text: str, by: Principal, file: str = "assentry.yaml", *, based_on: int | None = None
) -> StoredPolicy | PolicyProposal:
    """The document is the active policy, after it was checked; or it waits, where the active one wants a second person.

    With `based_on`, only if that version is still active. Who changed it and to what is on record.
    """
    await _read(text, file, now=await store.now())
    if by.kind != "person":
        raise NotAllowed("agents change nothing about who may do what", principal=by.name)
    while True:
        active = await active_policy(store, workspace)
        if based_on is not None and based_on != active.version:
            raise _not_active(based_on, active.version)
        if active.second_person:
            return await propose_policy(store, workspace, text, by, file, active=active)
        try:
            return await _applied(store, workspace, text, by, file, active.version)
        except StaleRequest:
            if based_on is not None:
                raise


async def propose_policy(
    store: Store, workspace: str, text: str, by: Principal, file: str = "assentry.yaml", *, active: Policy | None = None
) -> PolicyProposal:
    """The document waits until another person confirms it. The same one, proposed again, is the one that waits."""
    await _read(text, file, now=await store.now())
    active = active or await active_policy(store, workspace)
    _may(may_change(active, by), by)
    for each in await store.proposals(workspace):
        if (each.by, each.based_on, each.text) == (by.name, active.version, text):
            return each
    from assentry.engine.asking import new_code

    made = PolicyProposal(
        workspace, new_code(), text, file.rsplit("/", 1)[-1], active.version, by.name, await store.now()
    )
    await store.transact(workspace, None, lambda _: proposed(made))
    return made


async def find_proposal(store: Store, workspace: str, code: str) -> PolicyProposal:
    """The proposal with this code, or the only one that waits whose code begins like this."""
    code = code.strip().lower()
    exact = await store.proposal(workspace, code) if code else None
    if exact is not None:
        return exact
    found = [each for each in await store.proposals(workspace) if code and each.code.startswith(code)]
    if len(found) != 1:
        many = "several changes" if found else "no change"
        raise NotFound(f"{many} of the policy that wait begin with {code!r}; `assentry policy proposals` lists them")
    return found[0]


async def confirm_policy(store: Store, workspace: str, by: Principal, code: str, seen: str) -> StoredPolicy:
    """Exactly the text whose digest was `seen` is the active policy, by the word of another person than proposed it."""
    proposal = await find_proposal(store, workspace, code)
    active = await active_policy(store, workspace)
    _may(why_not_confirm(active, proposal, by), by)
    _waits(proposal)
    if seen != proposal.digest:
        raise StaleRequest(
            f"the change {proposal.code} is not what you saw, by its digest; look at it again",
            request_id="", code=proposal.code, state=str(proposal.state),
        )  # fmt: skip
    await _read(proposal.text, proposal.file, now=await store.now())
    try:
        if proposal.based_on != active.version:
            raise _outdated(proposal, active.version)
        return await _applied(store, workspace, proposal.text, by, proposal.file, active.version, proposal)
    except StaleRequest:
        _waits(await find_proposal(store, workspace, proposal.code))  # somebody may have been faster with this very one
        raise _outdated(proposal, (await active_policy(store, workspace)).version) from None


async def reject_policy(store: Store, workspace: str, by: Principal, code: str, reason: str = "") -> PolicyProposal:
    """Nobody can confirm it any more. Whoever may change the policy may do this; who proposed it withdraws it."""
    proposal = await find_proposal(store, workspace, code)
    _may(may_change(await active_policy(store, workspace), by), by)
    _waits(proposal)
    try:
        made = await store.transact(workspace, None, lambda view: rejected(proposal, by.name, view.now, reason))
    except StaleRequest:
        _waits(await find_proposal(store, workspace, proposal.code))
        raise
    return made.proposal if made is not None and made.proposal is not None else proposal


def may_operate(policy: Policy, os_user: str) -> Principal:
    """The person at this machine who may change policy and grants; else the error says why not."""
    person = resolve(policy, os_user)
    if person is None:
        raise NotAllowed(
            f"{os_user} is not among the people of the policy, so may not change it; ask one of them", principal=os_user
        )
    _may(may_change(policy, person), person)
    return person


async def _applied(
    store: Store,
    workspace: str,
    text: str,
    by: Principal,
    file: str,
    based_on: int,
    proposal: PolicyProposal | None = None,
) -> StoredPolicy:
    """The next version after `based_on`; raises `StaleRequest` where another one is active by now."""

    def entry(version: int, now: datetime) -> Entry:
        if version != based_on + 1:
            raise _not_active(based_on, version - 1)
        body = {"version": version, "digest": digest(text), "file": file.rsplit("/", 1)[-1]}
        if proposal is not None:
            body |= {"code": proposal.code, "proposed_by": proposal.by, "confirmed_by": by.name}
        return Entry("policy.applied", now, workspace, f"policy:{version}", by.name, body)

    return await store.apply_policy(workspace, text, by.name, entry, proposal)


def _may(reason: str | None, person: Principal) -> None:
    if reason is not None:
        raise NotAllowed(reason, principal=person.name)


def _waits(proposal: PolicyProposal) -> None:
    if proposal.state is not ProposalState.WAITING:
        raise AlreadyDecided(
            f"the change {proposal.code} was {proposal.state} by {proposal.ended_by} already",
            request_id="", code=proposal.code, state=str(proposal.state), by=proposal.ended_by, at=proposal.ended_at,
        )  # fmt: skip


def _not_active(based_on: int, active: int) -> StaleRequest:
    return StaleRequest(
        f"version {active} is active by now, and not {based_on}; look at what it changed, then apply yours again",
        request_id="", code="", state="",
    )  # fmt: skip


def _outdated(proposal: PolicyProposal, active: int) -> StaleRequest:
    return StaleRequest(
        f"the change {proposal.code} was made from version {proposal.based_on}, and version {active} is active by now; "
        "look at what that changed, then propose it again",
        request_id="", code=proposal.code, state=str(proposal.state),
    )  # fmt: skip
