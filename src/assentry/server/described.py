"""The OpenAPI document: who may call each operation, what may go wrong, and how a call is repeated safely.

What it says of who may call is read from the routes themselves, so that it cannot say anything else than what holds.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from assentry.server.api.answers import ProblemDocument
from assentry.server.problems import MEDIA_TYPE
from assentry.server.repeats import HEADER, LONGEST_KEY
from assentry.server.routes import api_routes
from assentry.server.visitors import agent, operator, person, somebody

PREFIX = "/api/v1"

_ABOUT = """
The human checkpoint for AI agents. **Agents** propose what they want to do and wait; **people** decide.

- An agent sends `Authorization: Bearer aat_…` (`assentry token give AGENT`). It proposes and reads what it asked for.
  No token decides anything: there is no such scope to give.
- A person's program sends `Authorization: Bearer aps_…`; a page has the same session in a cookie and proves with every
  change, in `X-Assentry-Csrf`, that it is ours.
- Every error is a problem document (RFC 9457) that says what to do next.
- Every POST may carry an `Idempotency-Key`: it then happens once, and a repetition gets the same answer.
- A decision names the digest of what was shown (`seen_digest`). Whatever is another by now is not decided.
- GET never changes anything.
"""

TAGS = {
    "requests": "What waits for a person, and what people say about it.",
    "agents": "For agents: propose, learn what became of it, ask people, keep runs. Each sees only its own.",
    "grants": "What may pass without asking: scoped, counted, budgeted, expiring.",
    "stop switch": "Pause or stop an agent, or everything, at its next gate.",
    "runs": "An agent's work as a whole, step by step.",
    "log": "What happened, who did it, and the proof that nobody changed the record.",
    "policy": "The rules: read, check, explain, apply; where they say so, by two people.",
    "people": "Who is here.",
    "tokens": "With what agents prove who they are.",
    "terminals": "For `assentry` on another machine: log in, and read what is stored.",
    "operations": "For whoever runs the server. Needs no credentials and tells nothing about anybody.",
}
SCHEMES = {
    "agentToken": {
        "type": "http", "scheme": "bearer", "bearerFormat": "aat_…",
        "description": "An agent's token: proposes and reads what it asked for. It never decides.",
    },
    "personSession": {
        "type": "http", "scheme": "bearer", "bearerFormat": "aps_…",
        "description": "A person's session, for programs that people use.",
    },
    "pageSession": {
        "type": "apiKey", "in": "cookie", "name": "__Host-assentry",
        "description": "The same session in a cookie (`assentry-session-PORT` without https). Every change also needs "
        "the page's `X-Assentry-Csrf`.",
    },
}  # fmt: skip
_PERSON: list[dict[str, list[str]]] = [{"personSession": []}, {"pageSession": []}]
_AGENT: list[dict[str, list[str]]] = [{"agentToken": []}]
_WHO = {person: ("person", _PERSON), operator: ("operator", _PERSON), agent: ("agent", _AGENT),
        somebody: ("anybody", [*_AGENT, *_PERSON])}  # fmt: skip
_WRONG = {
    "401": "Nobody is known by what was sent.",
    "403": "You may not do this; `detail` says who may.",
    "404": "There is no such thing, or several begin like that.",
    "409": "It is not in a state for that, somebody was faster, or it changed since it was shown.",
    "412": "It changed since the version that If-Match names.",
    "422": "Something in the call does not fit; `detail` says what.",
    "428": "Critical: `phrase` is what must be typed to confirm it.",
    "4XX": "Any other problem.",
}
_KEY = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "description": "Your name for this call. With the same key it happens once, and for 24 hours a repetition gets the "
    "same answer; the same key for another call is a 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
}  # fmt: skip


def described(app: FastAPI) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, summary=app.summary, description=_ABOUT, routes=app.routes
        )
        components = made.setdefault("components", {})
        components["securitySchemes"] = SCHEMES
        schema = ProblemDocument.model_json_schema()
        schemas = components.setdefault("schemas", {})
        schemas["ProblemDocument"] = schema
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for route in api_routes(app):
            for method in route.methods or ():
                told_of = made["paths"].get(route.path_format, {}).get(method.lower())
                if told_of is not None:
                    _describe(told_of, route, method)
        used = [tag for path in made["paths"].values() for each in path.values() for tag in each.get("tags", ())]
        order = [*(name for name in TAGS if name in used), *(name for name in used if name not in TAGS)]
        made["tags"] = [{"name": name, "description": TAGS.get(name, "")} for name in dict.fromkeys(order)]
        app.openapi_schema = made
    return app.openapi_schema


def caller_of(route: APIRoute) -> str:
    """Who may call it: person, operator, agent, anybody who is known, or everybody."""
    found = [_WHO[call][0] for call in _calls(route.dependant) if call in _WHO]
    return found[0] if found else "everybody"


def _describe(operation: dict[str, Any], route: APIRoute, method: str) -> None:
    operation["operationId"] = f"{route.endpoint.__module__.rpartition('.')[2]}_{route.name}"
    if not route.path.startswith(PREFIX):
        return
    who = caller_of(route)
    security = next((schemes for name, schemes in _WHO.values() if name == who), [])
    operation["security"] = security
    operation["x-caller"] = who
    responses = operation["responses"]
    responses.pop("422", None)  # the framework's own shape, which is never sent
    for status in ("401", "403", *_likely(route, method), "4XX"):
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
        responses.setdefault(status, {"description": _WRONG[status], "content": content})
    given = operation.setdefault("parameters", [])
    if method == "POST" and not any(each["name"].lower() == HEADER for each in given):
        given.append(_KEY)


def _likely(route: APIRoute, method: str) -> Iterator[str]:
    if route.dependant.path_params:
        yield "404"
    if method == "POST":
        yield "409"
    if any(each.name == "if_match" for each in route.dependant.header_params):
        yield "412"
    if route.dependant.path_params or route.dependant.query_params or route.body_field:
        yield "422"
    if route.path.endswith("/decision"):
        yield "428"


def _calls(dependant: Dependant) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _calls(each)
