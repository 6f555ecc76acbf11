"""What the API answers with, as the OpenAPI document tells it. The tests hold every answer against these."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, GetJsonSchemaHandler, RootModel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from assentry.core.action import Json, Risk
from assentry.core.briefing import Briefing
from assentry.core.request import Review, State
from assentry.core.run import RunState
from assentry.core.switch import Setting
from assentry.core.verdict import GateKind


class _Shown:
    """A briefing as a document: its arguments once, as data."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(schema)
        inside = handler.resolve_ref_schema(made)
        if inside["properties"].pop("args_text", None) is not None:
            inside["required"] = [name for name in inside["required"] if name != "args_text"]
        return made


Card = Annotated[Briefing, _Shown()]


def told(model: type[BaseModel], description: str, status: int = 200, **more: Json) -> dict[str, Any]:
    """What a route says of its answer. It is told, and tested, and costs nothing while it runs."""
    return {"response_model": None, "responses": {status: {"model": model, "description": description, **more}}}


class ProblemDocument(BaseModel):
    """An error, as RFC 9457 has it: what it is, and what to do about it. Some have ids beside these."""

    type: str = Field(examples=["/problems/already-decided"])
    title: str = Field(examples=["Somebody was faster"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["request 7k2m was approved by alice at 12:03"])
    instance: str = Field(default="", examples=["/api/v1/requests/7k2m/decision"])


class CardPage(BaseModel):
    """Cards, and where the next page begins."""

    mode: str = Field(description="enforce, or observe: nothing is held.")
    requests: list[Card]
    next: str = Field(description="`after` of the next page; empty where there is none.")


class ScopeDocument(BaseModel):
    """What a run may do; what is empty was not said."""

    actions: list[str]
    recipients: list[str]
    paths: list[str]
    limits: dict[str, str]


class RunDocument(BaseModel):
    """An agent's work as a whole."""

    id: str
    code: str
    state: RunState
    agent: str
    goal: str
    original: str = Field(description="What it was asked for, in the person's own words.")
    asked_by: str
    host: str
    key: str
    parent: str
    scope: ScopeDocument
    used: dict[str, str]
    steps: int
    spend: str
    waits: list[str] = Field(description="The requests it is parked on.")
    worker: str
    plan: list[dict[str, Any]]
    observations: list[dict[str, Any]]
    began: datetime
    changed: datetime | None
    by: str
    reason: str
    outcome: Any
    error: str


class StepDocument(BaseModel):
    """One request of a run, in short."""

    id: str
    code: str
    run: str
    says: str
    action: str
    risk: Risk
    gate: GateKind
    state: State
    decided_by: str
    word: str
    reason: str
    asked: datetime
    decided: datetime | None
    began: datetime | None
    finished: datetime | None
    waited_seconds: float | None
    ran_seconds: float | None
    error: str
    review: Review


class Background(BaseModel):
    """What is known beside the request itself."""

    run: RunDocument | None
    check_in: bool = Field(description="Somebody is asked to look at the run as a whole.")
    recent: list[StepDocument]
    drafts: list[dict[str, Any]] = Field(description="What it revises, oldest first.")


class WholeCard(BaseModel):
    """One card with everything about it."""

    request: Card
    background: Background
    you: str
    why_not: str = Field(description="Why you may not decide it; empty if you may.")
    version: int = Field(description="Also the ETag, for If-Match.")


class Done(BaseModel):
    """What was done, and the request as it is now."""

    did: str
    request: Card


class BulkItem(BaseModel):
    """What became of one request of many."""

    id: str
    code: str
    ok: bool
    state: str = Field(description="Where the request stands now.")
    problem: ProblemDocument | None = None


class BulkDone(BaseModel):
    """What became of each, in the order in which they were named."""

    did: str
    decided: int
    items: list[BulkItem]


class Noted(BaseModel):
    """It is on record."""

    ok: bool


class GrantDocument(BaseModel):
    """A standing permission."""

    id: str
    actions: list[str]
    agents: list[str]
    condition: str
    max_risk: Risk
    limit: int | None
    used: int
    budget: str | None
    spent: str
    currency: str
    reason: str
    granted_by: str
    expires_at: datetime
    revoked_at: datetime | None


class GrantList(BaseModel):
    """Standing permissions, newest first."""

    grants: list[GrantDocument]


class GrantGiven(BaseModel):
    """A standing permission as it stands now."""

    grant: GrantDocument


class Covered(BaseModel):
    """One request of the past, and what the grant would have made of it."""

    id: str
    code: str
    says: str
    agent: str
    action: str
    risk: Risk
    state: State
    asked_at: datetime
    covered: bool
    why_not: str


class GrantPreview(BaseModel):
    """What a grant would have covered of what was asked lately, newest first."""

    looked_at: int
    covered: int
    requests: list[Covered]


class AllowedSimilar(Done):
    """The decision, and the grant that came with it; none where more people have to approve."""

    grant: GrantDocument | None
    says: str


class SwitchDocument(BaseModel):
    """A stop switch that holds somebody up."""

    agent: str
    everything: bool
    setting: Setting
    by: str
    reason: str
    at: datetime


class SwitchList(BaseModel):
    """Every stop switch that holds somebody up."""

    switches: list[SwitchDocument]


class SwitchTurned(SwitchList):
    """The switches as they are now, the runs that were moved, and how many requests a stop withdrew."""

    runs: list[RunDocument]
    withdrawn: int


class RunPage(BaseModel):
    """Runs, newest first."""

    runs: list[RunDocument]
    next: str


class RunGiven(BaseModel):
    """A run as it stands now, and how many requests were withdrawn because it was stopped."""

    run: RunDocument
    withdrawn: int


class Timeline(BaseModel):
    """A run, its steps, oldest first, and the runs that worked for it with theirs."""

    run: RunDocument
    steps: list[StepDocument]
    earlier_steps: bool
    children: list[dict[str, Any]]
    more_children: bool


class EntryDocument(BaseModel):
    """One entry of the log."""

    index: int
    kind: str
    at: str
    subject: str
    actor: str
    body: dict[str, Any]
    says: str = Field(description="The same in words.")


class EntryPage(BaseModel):
    """Entries, newest first."""

    entries: list[EntryDocument]
    next: int | None = Field(description="`before` of the next page; null where there is none.")


class FaultDocument(BaseModel):
    """Something that is wrong with the log."""

    wrong: str
    says: str


class Verification(BaseModel):
    """What a verifier found."""

    ok: bool = Field(description="Nothing below the last checkpoint was changed, removed, added or moved.")
    entries: int
    sealed: int = Field(description="How many of them a signed checkpoint covers.")
    checkpoints: int
    root: str
    faults: list[FaultDocument]
    notes: list[str]


class PersonDocument(BaseModel):
    """Somebody who may be asked."""

    name: str
    roles: list[str]
    teams: list[str]
    email: str
    has_password: bool
    operates: bool = Field(description="May change policy, people, tokens and grants.")
    agents: list[str] = Field(description="What they own, and so do not decide on alone.")


class PeopleList(BaseModel):
    """Who is in this workspace."""

    workspace: str
    people: list[PersonDocument]


class PersonHere(PersonDocument):
    """You are a person."""

    kind: Literal["person"]
    workspace: str
    how: str = Field(description="How you logged in.")
    proved_at: datetime | None


class AgentHere(BaseModel):
    """You are an agent."""

    kind: Literal["agent"]
    workspace: str
    name: str
    agent: str
    trusted: bool = Field(description="The policy vouches for you under `agents:`.")


class Me(RootModel[PersonHere | AgentHere]):
    """Who you are here."""


class TokenDocument(BaseModel):
    """An agent's token, without what is secret of it."""

    id: str
    agent: str
    by: str
    made_at: datetime
    expires_at: datetime | None
    live: bool
    note: str


class TokenList(BaseModel):
    """Every token there was."""

    tokens: list[TokenDocument]
    next: str


class TokenGiven(BaseModel):
    """A new token, and the only time that it is seen."""

    token: TokenDocument
    secret: str


class TokenEnded(BaseModel):
    """The token as it is now."""

    token: TokenDocument


class Records(BaseModel):
    """Stored things, each as its kind is written."""

    found: Any


class Status(BaseModel):
    """How the server is."""

    status: str
