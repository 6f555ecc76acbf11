"""What every page has: the templates, who looks at it, and how errors are told."""

from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from assentry.core.authority import may_change
from assentry.core.text import counted, visible
from assentry.engine.threads import in_thread
from assentry.errors import AssentryError
from assentry.server import problems
from assentry.server.looks.card import tone_class
from assentry.server.pages.listing import waiting
from assentry.server.problems import Problem
from assentry.server.visitors import Visitor, anybody, person

TEMPLATES = Path(__file__).parent.parent / "templates"


@cache
def templates() -> Environment:
    """The templates; everything that goes into them is escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        enable_async=False,
    )
    made.filters["line"] = lambda text: visible(str(text), lines=False)
    made.filters["lines"] = lambda text: visible(str(text))
    made.filters["tone"] = tone_class
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters["counted"] = counted
    made.filters["few"] = lambda number: "99+" if number > 99 else str(number)
    return made


async def page(
    request: Request, template: str, visitor: Visitor | None, /, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """The page of this name, for this visitor."""
    switches = visitor.room.desk.judgement.switches if visitor is not None else ()
    held = [each for each in switches if each.is_held]
    policy = visitor.room.desk.judgement.policy if visitor is not None else None
    common = {
        "visitor": visitor,
        "csrf": visitor.csrf if visitor is not None else "",
        "held": held,
        "observes": policy is not None and str(policy.mode) == "observe",
        "path": request.url.path,
        "here": str(request.base_url).rstrip("/"),
        "waiting": None,
        "rules_wait": 0,
    }
    if visitor is not None and status < 500:
        common["waiting"] = await waiting(visitor) if "waiting" not in values else None
        common["rules_wait"] = await _rules_wait(visitor)
    # Beside the loop: a card may hold a megabyte, and nobody else waits while it is drawn.
    render = partial(templates().get_template(f"{template}.html").render, **{**common, **values})
    return HTMLResponse(await in_thread(render), status)


async def _rules_wait(visitor: Visitor) -> int:
    """How many changes of the policy wait for a second person, for those who may be it."""
    desk, principal = visitor.room.desk, visitor.principal
    if not desk.judgement.policy.second_person or may_change(desk.judgement.policy, principal) is not None:
        return 0
    return sum(each.by != principal.name for each in await desk.rules.proposals())


async def person_or_door(request: Request) -> Visitor | Response:
    """Who looks at the page; or the way to the door, and back here afterwards."""
    try:
        return await person(request)
    except Problem as problem:
        if problem.status != 401 or request.method not in ("GET", "HEAD"):
            raise
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(back)}", 303)


def local_path(path: str) -> str:
    """`path` if it leads somewhere here, else the front page: no link of ours leads away."""
    inside = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if inside and path.isprintable() else "/"


async def error_page(request: Request, problem: Exception) -> Response:
    """What went wrong and what to do about it, on a page."""
    what = problems.situation_of(problem)
    visitor = None
    if what.status < 500:
        try:
            visitor = await anybody(request)
        except (Problem, AssentryError):
            visitor = None
    if visitor is not None and visitor.principal.kind != "person":
        visitor = None
    if what.status == 401 and request.method in ("GET", "HEAD"):
        return RedirectResponse(f"/login?next={quote(request.url.path)}", 303)
    more = problem.more if isinstance(problem, Problem) else {}
    code = getattr(problem, "code", "")
    return await page(
        request, "problem", visitor, status=what.status,
        title=what.title, detail=problems.detail_of(problem), code=code, step_up=more.get("step_up", ""),
        back=more.get("back", "/"),
    )  # fmt: skip


def icon(text: str) -> str:
    """The mark of Assentry, or how many wait, as a picture."""
    if not text:
        inside = '<path d="M8 17l5 5 11-12" fill="none" stroke="#fff" stroke-width="3.5" stroke-linecap="round"/>'
    else:
        size = 14 if len(text) > 2 else 19
        inside = (
            f'<text x="16" y="{16 + size * 0.36:.1f}" font-family="sans-serif" font-weight="bold" font-size="{size}" '
            f'text-anchor="middle" fill="#fff">{text}</text>'
        )
    colour = "#b42318" if text else "#1b1f24"
    box = f'<rect width="32" height="32" rx="7" fill="{colour}"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{box}{inside}</svg>'
