"""The routes of the application, whichever router they were written in."""

from collections.abc import Iterator

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute


def api_routes(within: FastAPI | APIRouter) -> Iterator[APIRoute]:
    """Every route, also of the routers that were included."""
    for route in within.routes:
        inside = getattr(route, "original_router", None)
        if isinstance(inside, APIRouter):
            yield from api_routes(inside)
        elif isinstance(route, APIRoute):
            yield route
