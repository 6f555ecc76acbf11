"""For operations: alive, ready, and numbers."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import generate_latest

from assentry.errors import AssentryError
from assentry.server.api.answers import Status, told
from assentry.server.visitors import premises_of

router = APIRouter(tags=["operations"])


@router.get("/healthz", summary="Is the process alive?", **told(Status, "It is."))
async def alive() -> dict[str, str]:
    """Answers for as long as the process can."""
    return {"status": "alive"}


@router.get(
    "/readyz",
    summary="Can it do its work?",
    response_model=None,
    responses={
        200: {"model": Status, "description": "It can."},
        503: {"model": Status, "description": "The database cannot be read."},
    },
)
async def ready(request: Request) -> Response:
    """Answers 200 once the database can be read, and 503 while it cannot."""
    try:
        premises = premises_of(request)
        await premises.store.policy(premises.settings.workspace)
    except AssentryError:
        return JSONResponse({"status": "the database cannot be read"}, 503)
    return JSONResponse({"status": "ready"})


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses={200: {"description": "Counts and times.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Counts and times; no names of requests, people or agents."""
    meters = request.app.state.meters
    meters.streams.set(premises_of(request).events.listening)
    return Response(generate_latest(meters.registry), media_type="text/plain; version=0.0.4")
