"""The API: for people who decide, for agents that ask, and for operations."""

from fastapi import APIRouter

from assent.server.api import agent_runs, operations, proposals, records, requests, sessions

router = APIRouter()
router.include_router(operations.router)
router.include_router(requests.router)
router.include_router(records.router)
router.include_router(sessions.router)
router.include_router(proposals.router)
router.include_router(agent_runs.router)
