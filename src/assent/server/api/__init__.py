"""The API: for people who decide, for agents that ask, and for operations."""

from fastapi import APIRouter

from assent.server.api import (
    afterwards,
    bulk,
    grants,
    log,
    operations,
    people,
    policy,
    records,
    requests,
    runs,
    sessions,
    switches,
    tokens,
)

router = APIRouter()
for part in (requests, bulk, afterwards, grants, switches, runs, log, policy, people, tokens, sessions, records):
    router.include_router(part.router)
router.include_router(operations.router)
