"""To the provider of single sign-on and back.

Coming back is a GET, and a GET changes nothing: it shows a page whose form brings the answer to us, and the page sends
it by itself. What has to come back is bound to this browser by a cookie and kept in the store for one use.
"""

import base64
import hashlib
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from assentry.core.authority import person_with_email
from assentry.engine.challenges import Challenges
from assentry.errors import NotAllowed
from assentry.server.cookies import cookie_name, drop_cookie, set_cookie
from assentry.server.entering import let_in, proved, same_site
from assentry.server.pages.frame import local_path, page
from assentry.server.problems import Problem
from assentry.server.visitors import Anybody, Person, Visitor, origin_of, premises_of

if TYPE_CHECKING:
    from assentry.server.sign_on import Question, SignOn

router = APIRouter(prefix="/sso")

_COOKIE = "sso"
_LIFE = 600.0
_KNOWN_ERRORS = ("access_denied", "login_required", "interaction_required", "temporarily_unavailable", "server_error")


@router.post("/begin")
async def begin(request: Request, next: Annotated[str, Form(max_length=2_000)] = "/") -> Response:
    """To the provider, to log in."""
    same_site(request)
    return await _sent(request, "log in", local_path(next), None)


@router.post("/prove")
async def begin_proof(
    request: Request, visitor: Person, next: Annotated[str, Form(max_length=2_000)] = "/"
) -> Response:
    """To the provider, to log in there once more."""
    return await _sent(request, "prove", local_path(next), visitor)


@router.get("/return")
async def came_back(request: Request, code: str = "", state: str = "", iss: str = "", error: str = "") -> Response:
    """The page that brings the provider's answer to us."""
    sign_on = _sign_on(request)
    told = (error if error in _KNOWN_ERRORS else "it gave no reason that we know") if error or not code else ""
    fits = len(code) <= 4_000 and len(state) <= 200 and len(iss) <= 2_000
    if told or not fits:
        return await page(request, "sso", None, status=403, provider=sign_on.name, told=told or "too long", address="")
    values = {"code": code, "state": state, "iss": iss}
    return await page(request, "sso_return", None, provider=sign_on.name, values=values)


@router.post("/return")
async def returned(
    request: Request,
    visitor: Anybody,
    code: Annotated[str, Form(max_length=4_000)],
    state: Annotated[str, Form(max_length=200)],
    iss: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """In, or proved, if the provider's answer is for the question that this browser asked."""
    same_site(request)
    sign_on, secret = _sign_on(request), request.cookies.get(cookie_name(request, _COOKIE), "")
    premises = premises_of(request)
    workspace, now = premises.settings.workspace, await premises.store.now()
    asked = await Challenges(premises.store, workspace).take(f"{secret}.{state}", "sso") if secret else None
    if asked is None or (iss and iss != sign_on.issuer):
        raise NotAllowed("this answer fits no question of this browser, or it is too old; begin again", principal="")
    drop_cookie(request, _COOKIE)
    proves = asked.about["what"] == "prove"
    question = _question(request, secret, state)
    if proves:
        question = replace(question, fresh_since=asked.made_at)
    address = sign_on.address_of(await sign_on.claims(question, code, now))
    policy = (await premises.room(workspace)).desk.judgement.policy
    person = person_with_email(policy, address)
    if person is None:
        raise NotAllowed(
            f"{address} is nobody here; an operator can add `email: {address}` to a person of the policy", principal=""
        )
    path = local_path(str(asked.about["next"]))
    if not proves:
        await let_in(request, visitor, workspace, person.name, "sso")
        return RedirectResponse(path, 303)
    if visitor is None or visitor.session is None or visitor.session.family != asked.about["family"]:
        raise NotAllowed("this proof is for another session; begin again", principal=person.name)
    if visitor.principal.name != person.name or visitor.session.workspace != workspace:
        raise NotAllowed(f"you logged in there as {address}, who is somebody else here", principal=person.name)
    return await proved(request, visitor, "sso", path)


async def _sent(request: Request, what: str, path: str, visitor: Visitor | None) -> Response:
    sign_on, premises = _sign_on(request), premises_of(request)
    if visitor is None:
        premises.knocks.heard(request)
    secret, state = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    question = _question(request, secret, state)
    family, holder = "", ""
    if visitor is not None:
        family, holder = visitor.known_session.family, visitor.principal.name
        question = replace(question, fresh_since=await premises.store.now())
    address = await sign_on.address(question)
    await Challenges(premises.store, premises.settings.workspace).ask(
        f"{secret}.{state}", "sso", holder, what=what, next=path, family=family
    )
    set_cookie(request, secret, _COOKIE, _LIFE)
    # Not a redirect: `form-action 'self'` holds for wherever a form's answer leads.
    return await page(request, "sso", None, provider=sign_on.name, told="", address=address)


def _question(request: Request, secret: str, state: str) -> "Question":
    """Nonce and verifier come from what only this browser has, so that nothing of them is kept here."""
    from assentry.server.sign_on import Question

    returns = origin_of(request) + "/sso/return"
    return Question(returns, state, _made("nonce", secret, state), _made("verifier", secret, state))


def _made(what: str, secret: str, state: str) -> str:
    digest = hashlib.sha256(f"{what}:{secret}:{state}".encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _sign_on(request: Request) -> "SignOn":
    found = premises_of(request).sign_on
    if found is None:
        raise Problem(404, "there is no single sign-on here; an operator can set sso_issuer")
    return found
