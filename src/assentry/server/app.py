"""The application: the API, the pages, and what surrounds them."""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute

from assentry.errors import AssentryError
from assentry.server import problems
from assentry.server.api import router as api
from assentry.server.cookies import Cookies
from assentry.server.described import described
from assentry.server.pages import router as pages
from assentry.server.pages.frame import error_page
from assentry.server.premises import Premises
from assentry.server.repeats import Repeats
from assentry.server.wire import Meters, Wire

log = logging.getLogger("assentry.server")

HERE = Path(__file__).parent


def create_app(premises: Premises, *, hosts: Collection[str] = (), public: str = "") -> FastAPI:
    """The application on these premises. `hosts` are the names it goes by; others are turned away.

    `public` is how people reach it: where that is https, cookies are for https whatever the proxy says.
    """

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await premises.open()
        try:
            yield
        finally:
            await premises.close()

    meters = Meters()
    app = FastAPI(
        title="Assentry",
        summary="The human checkpoint for AI agents",
        version="1",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    app.state.premises, app.state.meters = premises, meters
    for kind in (AssentryError, problems.Problem, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _told)
    app.add_exception_handler(Exception, _unexpected)
    app.router.routes.extend(_routes())
    # Compressed, because nothing secret is in these files; pages hold tokens, whose compressed size could betray them.
    app.mount("/static", GZipMiddleware(StaticFiles(directory=HERE / "static")), name="static")
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    app.add_middleware(Repeats)
    app.add_middleware(Cookies)
    app.add_middleware(Wire, hosts=hosts, meters=meters, public=public)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """What every application in this process answers; what FastAPI makes of it is made once."""
    whole = APIRouter()
    whole.include_router(api)
    whole.include_router(pages)
    return tuple(whole.routes)


async def _told(request: Request, problem: Exception) -> Response:
    """The problem, as a page for people and as a document for programs."""
    if wants_page(request):
        return await error_page(request, problem)
    return problems.answer(request, problem)


async def _unexpected(request: Request, problem: Exception) -> Response:
    log.error("unexpected error at %s", request.scope.get("route"), exc_info=problem)
    return await _told(request, problem)


def wants_page(request: Request) -> bool:
    """Somebody looks at it in a browser."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")
