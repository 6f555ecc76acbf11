"""The API: for people who decide, for agents that ask, and for operations."""

from fastapi import APIRouter

from assentry.server.api import (
    afterwards,
    agent_runs,
    bulk,
    grants,
    log,
    operations,
    people,
    policy,
    policy_proposals,
    proposals,
    records,
    requests,
    runs,
    sessions,
    switches,
    tokens,
)

router = APIRouter()
_RULES = (grants, switches, policy, policy_proposals)
_PEOPLE = (requests, bulk, afterwards, *_RULES, runs, log, people, tokens, sessions, records)
_AGENTS = (proposals, agent_runs)
for part in (*_PEOPLE, *_AGENTS, operations):
    router.include_router(part.router)
