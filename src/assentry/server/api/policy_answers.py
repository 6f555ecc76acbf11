"""What the API answers with about the policy: its text, its versions, what waits, and what it makes of a call."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from assentry.core.action import Fact, Risk
from assentry.core.deciders import Deciders
from assentry.core.effect_text import Answer
from assentry.core.policy_proposal import ProposalState
from assentry.core.verdict import GateKind, Quorum, Trigger


class PolicyShown(BaseModel):
    """A policy as it was applied."""

    version: int = Field(description="0 is the built-in one.")
    applied_by: str
    applied_at: datetime | None
    text: str
    document: dict[str, Any] = Field(description="What it says, without what is the default anyway.")


class PolicyVersion(BaseModel):
    """One version, and what it changed, a sentence each."""

    version: int
    applied_by: str
    applied_at: datetime
    changes: list[str]


class PolicyHistory(BaseModel):
    """Versions, newest first."""

    versions: list[PolicyVersion]


class PolicyChecked(BaseModel):
    """What is to be said about a text."""

    ok: bool
    complaints: list[str] = Field(description="Why it must not be loaded, each with its line.")
    warnings: list[str]
    changes: list[str] = Field(description="What it would change, a sentence each.")


class PolicyApplied(BaseModel):
    """What is active now."""

    version: int
    applied: bool = Field(description="False where this text was active already.")
    mode: str
    changes: list[str]
    warnings: list[str]


class ProposalDocument(BaseModel):
    """A change of the policy that waits, or waited, for a second person."""

    code: str
    state: ProposalState
    proposed_by: str
    proposed_at: datetime
    based_on: int = Field(description="The version it was made from; while another is active it cannot be confirmed.")
    file: str
    digest: str = Field(description="Of the text; whoever confirms it sends the one they saw.")
    text: str
    changes: list[str] = Field(description="What it changes, a sentence each.")
    warnings: list[str]
    why_not: str = Field(description="Why you cannot confirm it; empty if you can.")
    ended_by: str
    ended_at: datetime | None
    reason: str = Field(description="Why it was rejected.")


class PolicyProposed(BaseModel):
    """A proposed change. Nothing is changed until another person confirms it."""

    proposal: ProposalDocument


class ProposalList(BaseModel):
    """What waits for a second person, newest first."""

    proposals: list[ProposalDocument]


class RuleConsidered(BaseModel):
    """One rule and how it met the call."""

    rule: str
    match: str
    says: str
    line: int


class GrantConsidered(BaseModel):
    """One grant, and why it does not cover the call; empty if it does."""

    grant: str
    why_not: str


class EffectDocument(BaseModel):
    """The four answers."""

    reversible: bool
    reach: str
    outside: bool
    money: bool


class Explained(BaseModel):
    """What the policy makes of a call, and everything that led there."""

    policy: str
    gate: GateKind
    observed: GateKind | None
    because: str
    rule: str
    next_rule: str
    risk: Risk
    effect: EffectDocument
    answers: list[Answer] = Field(description="The same in words, each with what it rests on.")
    basis: str
    reasons: list[str]
    declared: list[str]
    facts: list[Fact]
    triggers: list[Trigger]
    rules: list[RuleConsidered]
    grants: list[GrantConsidered]
    grant: str | None
    reviewers: list[str]
    quorum: Quorum
    deciders: Deciders
    ladder: str
    lines: list[str]
