"""The cookie of a session: its name, its flags, and the layer that sets it on whatever answer there is."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assentry.engine.identity import SESSION_LIFE

_KEPT = "assentry.cookies"


def cookie_name(request: Request, what: str = "") -> str:
    """A cookie that only https may carry is bound to this very host; on the machine itself there is no https.

    There several servers share one host, and cookies know no ports: the port is in the name, so that logging in to one
    does not log out of another.
    """
    if request.url.scheme == "https":
        return f"__Host-assentry-{what}" if what else "__Host-assentry"
    port = f"-{request.url.port}" if request.url.port else ""
    return f"assentry-{what or 'session'}{port}"


def set_cookie(request: Request, value: str, what: str = "", life: float = SESSION_LIFE.total_seconds()) -> None:
    """The answer to this call sets the cookie, whoever makes the answer. The last value set is the one that counts."""
    request.scope[_KEPT][what] = (cookie_name(request, what), value, int(life), request.url.scheme == "https")


def drop_cookie(request: Request, what: str = "") -> None:
    """The answer to this call takes the cookie away."""
    set_cookie(request, "", what, 0)


class Cookies:
    """An ASGI layer that hands out what was set while the call was answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        kept: dict[str, tuple[str, str, int, bool]] = {}
        scope[_KEPT] = kept

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and kept:
                made = Response()
                for name, value, life, secure in kept.values():
                    # A browser ignores a __Host- cookie without all of these, also where it is taken away.
                    made.set_cookie(name, value, max_age=life, path="/", secure=secure, httponly=True, samesite="lax")
                out = MutableHeaders(scope=message)
                for value in made.headers.getlist("set-cookie"):
                    out.append("set-cookie", value)
            await send(message)

        return await self._app(scope, receive, answer)
