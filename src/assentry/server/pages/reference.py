"""The page of the API: every operation in a list, from the same document that programs read."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from assentry.server.pages.frame import page

router = APIRouter()

_CALLERS = {
    "person": "people",
    "operator": "operators",
    "agent": "agents",
    "anybody": "agents and people",
    "everybody": "everybody",
}


@router.get("/api")
async def reference(request: Request) -> HTMLResponse:
    """What the API can do, by subject."""
    document = request.app.openapi()
    parts = [{"name": tag["name"], "says": tag["description"], "operations": []} for tag in document["tags"]]
    by_name = {part["name"]: part["operations"] for part in parts}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_name[operation["tags"][0]].append(_line(path, method, operation))
    about = [line.strip() for line in document["info"]["description"].strip().splitlines()]
    return await page(request, "reference", None, parts=parts, about=_paragraphs(about))


def _line(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    return {
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "says": operation.get("description", "").split("\n\n"),
        "caller": _CALLERS[operation.get("x-caller", "everybody")],
        "parameters": [
            {"name": each["name"], "where": each["in"], "says": each.get("description", "")}
            for each in operation.get("parameters", ())
            if each["name"] != "Idempotency-Key"
        ],
    }


def _paragraphs(lines: list[str]) -> list[str]:
    """Lines that belong together, without the marks of Markdown."""
    found = [""]
    for line in lines:
        if not line or line.startswith("- "):
            found.append("")
        found[-1] = f"{found[-1]} {line.removeprefix('- ')}".strip()
    return [each.replace("**", "").replace("`", "") for each in found if each]
