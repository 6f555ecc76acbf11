"""The API: for people who decide, for agents that ask, and for operations."""

from fastapi import APIRouter

from assent.server.api import (
    afterwards,
    agent_runs,
    bulk,
    grants,
    log,
    operations,
    people,
    policy,
    proposals,
    records,
    requests,
    runs,
    sessions,
    switches,
    tokens,
)

router = APIRouter()
_PEOPLE = (requests, bulk, afterwards, grants, switches, runs, log, policy, people, tokens, sessions, records)
_AGENTS = (proposals, agent_runs)
for part in (*_PEOPLE, *_AGENTS, operations):
    router.include_router(part.router)
