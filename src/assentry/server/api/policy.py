"""For people: the policy. Anybody reads it and asks what it makes of a call; operators change it, on record."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from assentry.core.action import Declaration, Reach, Risk
from assentry.core.authority import may_change
from assentry.core.policy import Policy, builtin_policy
from assentry.core.policy_file import load_policy, stored_policy, to_document
from assentry.core.policy_proposal import PolicyProposal
from assentry.engine.judgement import Judgement
from assentry.engine.policies import apply_policy
from assentry.engine.threads import in_thread
from assentry.errors import NotFound, PolicyError, StaleRequest
from assentry.ports import StoredPolicy
from assentry.server.api.answers import told
from assentry.server.api.asking import Body
from assentry.server.api.policy_answers import (
    Explained,
    PolicyApplied,
    PolicyChecked,
    PolicyHistory,
    PolicyProposed,
    PolicyShown,
)
from assentry.server.problems import Problem
from assentry.server.visitors import Operator, Person, Visitor
from assentry.telling.differing import changes
from assentry.telling.explaining import Call, explained, explanation_document
from assentry.telling.plain import plain_json
from assentry.telling.waiting_policies import proposal_document, waiting_policy

router = APIRouter(prefix="/api/v1", tags=["policy"])

_FILE = "policy"
Text = Annotated[str, Field(max_length=500_000, description="YAML or JSON, as `assentry policy show` prints it.")]
Share = Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)]
Cost = Annotated[float | None, Field(ge=0, le=1e15, allow_inf_nan=False)]


class Checked(Body):
    """A policy, as text."""

    text: Text


class Applied(Checked):
    """A policy that is to hold from now on."""

    based_on: Annotated[int | None, Field(ge=0, description="The version it was made from; another one is a 412.")] = (
        None
    )
    file: Annotated[str, Field(max_length=200, description="What it is called where it came from; on record.")] = _FILE
    lock_me_out: Annotated[bool, Field(description="Also where you could not change it back.")] = False


class Declared(Body):
    """What the operator's code says of the action."""

    reversible: bool | None = None
    reach: Reach | None = None
    outside: bool | None = None
    money: bool | None = None
    risk: Risk | None = None


class Asked(Body):
    """A call that nobody made yet."""

    action: Annotated[str, Field(min_length=1, max_length=200, examples=["delete_files"])]
    args: Annotated[dict[str, Any], Field(examples=[{"files": ["a", "b"]}])] = Field(default_factory=dict)
    agent: Annotated[str, Field(min_length=1, max_length=200)] = "agent"
    confidence: Share = None
    cost: Cost = None
    trusted: Annotated[bool, Field(description="Somebody vouches for the tool's source.")] = True
    declared: Declared = Field(default_factory=Declared)
    text: Annotated[Text | None, Field(description="Another policy than the active one.")] = None


@router.get("/policy", summary="The rules that hold", **told(PolicyShown, "The active one, or the version named."))
async def policy(
    visitor: Person,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="An earlier one.")] = None,
) -> dict[str, Any]:
    """The policy's text, what it says as data, and who applied it when. Version 0 is the built-in one."""
    stored = await _stored(visitor, version)
    if stored is None:
        shown = to_document(builtin_policy())
        return {"version": 0, "applied_by": "", "applied_at": None, "text": "", "document": plain_json(shown)}
    document = to_document(stored_policy(stored.text, stored.version))
    return {
        "version": stored.version,
        "applied_by": stored.applied_by,
        "applied_at": stored.applied_at.isoformat(),
        "text": stored.text,
        "document": plain_json(document),
    }


@router.get("/policy/history", summary="Who changed what", **told(PolicyHistory, "Newest first."))
async def history(
    visitor: Person, limit: Annotated[int, Query(ge=1, le=100, description="How many versions.")] = 20
) -> dict[str, Any]:
    """Versions with what each changed, a sentence each."""
    found = await visitor.room.desk.store.policies(visitor.room.name, limit + 1)
    versions = [
        {
            "version": each.version,
            "applied_by": each.applied_by,
            "applied_at": each.applied_at.isoformat(),
            "changes": list(_changed(each, found[place + 1 : place + 2])),
        }
        for place, each in enumerate(found[:limit])
    ]
    return {"versions": versions}


@router.post("/policy/check", summary="Is this text fine?", **told(PolicyChecked, "Nothing was changed."))
async def check(visitor: Person, given: Checked) -> dict[str, Any]:
    """Everything that is wrong with a policy, each with its line, and what it would change. Changes nothing."""
    try:
        new = await _read(given.text, await visitor.room.desk.store.now())
    except PolicyError as problem:
        return {"ok": False, "complaints": list(problem.complaints), "warnings": [], "changes": []}
    old = visitor.room.desk.judgement.policy
    found = changes(to_document(old), to_document(new))
    return {"ok": True, "complaints": [], "warnings": _warnings(visitor, new), "changes": list(found)}


@router.post("/policy/explain", summary="What would it make of a call?", **told(Explained, "Nothing was changed."))
async def explain(visitor: Person, asked: Asked) -> dict[str, Any]:
    """Which gate, by which rule and why, and what else would have matched; by the active policy or by `text`."""
    desk = visitor.room.desk
    judgement, source = desk.judgement, f"policy version {desk.judgement.policy.version}"
    if asked.text is not None:
        judgement, source = Judgement(desk.store, visitor.room.name, await _read(asked.text)), "the text given"
    call = Call(
        asked.action, asked.args, asked.agent, asked.confidence, asked.cost, asked.trusted,
        Declaration(**asked.declared.model_dump()),
    )  # fmt: skip
    found = explained(judgement, call, await desk.store.now())
    made: dict[str, Any] = plain_json(explanation_document(found, source))
    return made


@router.post(
    "/policy",
    summary="Make it the active one",
    response_model=None,
    responses={
        200: {"model": PolicyApplied, "description": "What is active now."},
        202: {"model": PolicyProposed, "description": "It waits for a second person; nothing is changed yet."},
    },
)
async def apply(visitor: Operator, given: Applied, response: Response) -> dict[str, Any]:
    """The text holds from now on, as a new version, with who applied it on record. For operators.

    With `based_on`, somebody else's version in between is a 412. A text by which you could not change the policy
    again is refused (409) unless you say `lock_me_out`. Where the active policy says `second_person`, nothing is
    changed: the answer is a 202 with the proposal, which another operator confirms.
    """
    room, store = visitor.room, visitor.room.desk.store
    new = await _read(given.text, await store.now())
    active = await store.policy(room.name)
    version = active.version if active is not None else 0
    _check_based_on(given, version)
    reason = may_change(new, visitor.principal)
    if reason is not None and not given.lock_me_out:
        raise Problem(409, f'you could not change it back: {reason}; add "lock_me_out": true if that is meant')
    is_same = active is not None and active.text == given.text
    found = changes(to_document(room.desk.judgement.policy), to_document(new))
    if not is_same:
        try:
            made = await apply_policy(
                store, room.name, given.text, visitor.principal, given.file, based_on=given.based_on
            )
        except StaleRequest as problem:  # somebody was faster since it was looked at above
            raise Problem(412, str(problem)) from None
        await room.desk.judgement.refresh()
        if isinstance(made, PolicyProposal):
            response.status_code = 202
            return {"proposal": proposal_told(visitor, made)}
        version = made.version
    return {
        "version": version, "applied": not is_same, "mode": str(new.mode), "changes": list(found),
        "warnings": _warnings(visitor, new),
    }  # fmt: skip


def proposal_told(visitor: Visitor, proposal: PolicyProposal) -> dict[str, Any]:
    """A change of the policy that waits, as this person sees it."""
    waiting = waiting_policy(visitor.room.desk.judgement.policy, proposal, visitor.principal)
    made: dict[str, Any] = plain_json(proposal_document(waiting))
    return made


async def _read(text: str, now: datetime | None = None) -> Policy:
    """The text as a policy, checked beside the loop: a large one takes a second."""
    return await in_thread(partial(load_policy, text, _FILE, now=now))


def _check_based_on(given: Applied, version: int) -> None:
    if given.based_on is not None and given.based_on != version:
        raise Problem(412, f"version {version} is active by now; look at what it changed, then apply yours again")


def _warnings(visitor: Visitor, new: Policy) -> list[str]:
    reason = may_change(new, visitor.principal)
    return [*new.warnings, *([f"you could not change it back: {reason}"] if reason is not None else [])]


async def _stored(visitor: Visitor, version: int | None) -> StoredPolicy | None:
    store, workspace = visitor.room.desk.store, visitor.room.name
    active = await store.policy(workspace)
    if version is None or (active is not None and active.version == version):
        return active
    wanted = active.version - version + 1 if active is not None else 0
    found = await store.policies(workspace, wanted) if wanted > 0 else ()
    match = next((each for each in found if each.version == version), None)
    if match is None:
        raise NotFound(f"there is no version {version} of the policy; GET /api/v1/policy/history lists them")
    return match


def _changed(each: StoredPolicy, before: tuple[StoredPolicy, ...]) -> tuple[str, ...]:
    earlier = stored_policy(before[0].text, before[0].version) if before else builtin_policy()
    return changes(to_document(earlier), to_document(stored_policy(each.text, each.version)))
