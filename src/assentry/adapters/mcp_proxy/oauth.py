"""OAuth as the specification of MCP has it: whom to ask, registering with them, a code for a token, a token renewed.

Whatever a server or its provider says is hostile until it was checked: addresses are https (or this machine), are never
followed elsewhere, and name each other.
"""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from assentry.core.addresses import is_local, is_safe
from assentry.errors import SettingsError
from assentry.extras import needs

_SECONDS = 20.0
_LARGEST = 1_000_000
_AWAY = (httpx.HTTPError, httpx.InvalidURL, TimeoutError)
_PARAMETER = re.compile(r'([a-z_]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))', re.IGNORECASE)
_METHODS = ("none", "client_secret_basic", "client_secret_post")


@dataclass(frozen=True, slots=True)
class Provider:
    """Who gives out tokens for a server."""

    issuer: str
    authorize: str
    token: str
    register: str
    methods: tuple[str, ...]
    """How programs may say who they are."""
    scope: str
    """What is asked for."""
    says_issuer: bool = False
    """The browser always comes back with its name."""


@dataclass(frozen=True, slots=True)
class Client:
    """What the provider calls us."""

    id: str
    secret: str = field(default="", repr=False)
    method: str = "none"


@dataclass(frozen=True, slots=True)
class Login:
    """What somebody was given for a server."""

    id: str
    """Another one each time somebody logs in."""
    url: str
    token_endpoint: str
    client: Client
    access: str = field(repr=False)
    refresh: str = field(default="", repr=False)
    expires_at: float = 0
    """By the clock of this machine; 0 where nobody said."""

    def is_over(self, now: float) -> bool:
        """It ends before an answer would be here."""
        return bool(self.expires_at) and now > self.expires_at - _SECONDS


async def provider_of(url: str) -> Provider:
    """Who gives out tokens for the server at this address."""
    if not is_safe(url):
        raise SettingsError("only a server whose address begins with https:// can be logged in to")
    local = is_local(url)
    challenge = await _challenge(url)
    found = await _first(_resource_places(url, challenge.get("resource_metadata", "")), local)
    issuer = _origin(url)
    if found is not None:
        if not _covers(str(found.get("resource", "")), url):
            raise SettingsError("the server says whom to ask for something else than itself, so it is not asked")
        named = found.get("authorization_servers")
        issuer = str(named[0]) if isinstance(named, list) and named else issuer
    metadata = await _first(_provider_places(issuer), local) if is_safe(issuer, local=local) else None
    if metadata is None or str(metadata.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise SettingsError("whoever gives out tokens for this server cannot be found; pass one with --header instead")
    if "S256" not in _texts(metadata, "code_challenge_methods_supported"):
        raise SettingsError("whoever gives out tokens for this server does not protect them on their way (PKCE, S256)")
    scope = challenge.get("scope") or " ".join(_texts(found or {}, "scopes_supported"))
    register = str(metadata.get("registration_endpoint") or "")
    register = register if is_safe(register, local=local) else ""
    methods = _texts(metadata, "token_endpoint_auth_methods_supported") or ("client_secret_basic",)
    authorize, token = (_endpoint(metadata, f"{name}_endpoint", local) for name in ("authorization", "token"))
    said = str(metadata["issuer"])
    await _is_its_own(authorize, said, local)
    says_issuer = metadata.get("authorization_response_iss_parameter_supported") is True
    return Provider(said, authorize, token, register, methods, scope, says_issuer)


async def registered(provider: Provider, returns: str) -> Client:
    """The provider knows this program from now on."""
    if not provider.register:
        raise SettingsError(
            "the provider registers nobody by itself: register Assentry there, and name it (--client-id)"
        )
    method = next((each for each in _METHODS if each in provider.methods), "none")
    said = {
        "client_name": "Assentry", "redirect_uris": [returns], "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"], "token_endpoint_auth_method": method,
        **({"scope": provider.scope} if provider.scope else {}),
    }  # fmt: skip
    told = await _asked("POST", provider.register, json=said)
    known, secret = told.get("client_id"), told.get("client_secret")
    if not isinstance(known, str) or not known:
        raise SettingsError(f"the provider did not register this program{_error(told)}")
    given = told.get("token_endpoint_auth_method", method)
    given = given if isinstance(given, str) and given in _METHODS else method
    return Client(_sendable(known), _sendable(secret) if isinstance(secret, str) and secret else "", given)


def named(provider: Provider, client_id: str, secret: str) -> Client:
    """A program that somebody registered there."""
    wanted = _METHODS[1:] if secret else _METHODS[:1]
    return Client(client_id, secret, next((each for each in wanted if each in provider.methods), wanted[0]))


def client_class() -> Any:
    """What speaks OAuth; raises `MissingExtra` where it is not installed."""
    with needs("mcp", "logging in to an MCP server"):
        from authlib.oauth2.client import OAuth2Client

    return OAuth2Client


def address(provider: Provider, client: Client, url: str, returns: str, state: str, verifier: str) -> str:
    """Where a person's browser goes."""
    made = client_class()(
        None, client.id, scope=provider.scope or None, redirect_uri=returns, code_challenge_method="S256"
    )
    found, _ = made.create_authorization_url(provider.authorize, state=state, code_verifier=verifier, resource=url)
    return str(found)


async def logged_in(provider: Provider, client: Client, url: str, returns: str, code: str, verifier: str) -> Login:
    """What the provider gives for the code that came back."""
    body = urlencode(
        {
            "grant_type": "authorization_code", "code": code, "redirect_uri": returns, "code_verifier": verifier,
            "client_id": client.id, "resource": url,
        }
    )  # fmt: skip
    return _with(Login(token_hex(8), url, provider.token, client, ""), await _tokens(provider.token, client, body))


async def renewed(login: Login) -> Login:
    """The same with a token that lasts."""
    body = urlencode(
        {
            "grant_type": "refresh_token", "refresh_token": login.refresh, "client_id": login.client.id,
            "resource": login.url,
        }
    )  # fmt: skip
    return _with(login, await _tokens(login.token_endpoint, login.client, body))


# Whom to ask


async def _challenge(url: str) -> dict[str, str]:
    """What the server says to whoever comes without a token."""
    said = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream"}
    try:
        async with (
            asyncio.timeout(_SECONDS),
            _client(url) as client,
            client.stream("POST", url, json=said, headers=headers) as answer,
        ):
            if answer.is_success:
                raise SettingsError("the server lets everybody in; there is nothing to log in to")
            told = answer.headers.get("www-authenticate", "")
    except _AWAY as problem:
        raise SettingsError(f"the server could not be reached ({type(problem).__name__})") from None
    return {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(told[:10_000])}


def _resource_places(url: str, told: str) -> Iterator[str]:
    if told:
        yield told
    path = urlsplit(url).path.rstrip("/")
    if path:
        yield f"{_origin(url)}/.well-known/oauth-protected-resource{path}"
    yield f"{_origin(url)}/.well-known/oauth-protected-resource"


def _provider_places(issuer: str) -> Iterator[str]:
    origin, path = _origin(issuer), urlsplit(issuer).path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


def _covers(resource: str, url: str) -> bool:
    """The server is what this is said of: it, or a part of it."""
    if not is_safe(resource) or _origin(resource) != _origin(url):
        return False
    whole, part = (urlsplit(each).path.rstrip("/") for each in (resource, url))
    return part == whole or part.startswith(f"{whole}/")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"


async def _is_its_own(authorize: str, issuer: str, local: bool) -> None:
    """Where the person logs in, and whoever is given the code, are not two providers, one of which pretends."""
    if _origin(authorize) == _origin(issuer):
        return
    other = await _first(_provider_places(_origin(authorize)), local)
    if other is not None and str(other.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise SettingsError("the server would have you log in at one provider and give what comes back to another")


async def _first(places: Iterator[str], local: bool) -> dict[str, Any] | None:
    """What is published at the first of these places that has anything."""
    for place in places:
        if is_safe(place, local=local):
            try:
                return await _asked("GET", place)
            except _NotThere:
                continue
    return None


# Asking them


class _NotThere(SettingsError):
    """There is nothing at this address."""


async def _tokens(endpoint: str, client: Client, body: str) -> Mapping[str, Any]:
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    auth = client_class()(None, client.id, client.secret or None).client_auth(client.method)
    url, headers, body = auth.prepare("POST", endpoint, headers, body)
    told = await _asked("POST", url, headers=headers, content=body)
    if not isinstance(told.get("access_token"), str) or str(told.get("token_type", "bearer")).lower() != "bearer":
        raise SettingsError(f"the provider gave no token{_error(told)}; log in again (--login)")
    return told


def _with(login: Login, told: Mapping[str, Any]) -> Login:
    lasts, refresh = told.get("expires_in"), told.get("refresh_token")
    is_number = isinstance(lasts, int | float) and not isinstance(lasts, bool) and 0 < lasts < 1e10
    return replace(
        login,
        access=_sendable(told["access_token"]),
        refresh=_sendable(refresh) if isinstance(refresh, str) and refresh else login.refresh,
        expires_at=time.time() + float(str(lasts)) if is_number else 0,
    )


def _sendable(token: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise SettingsError("the provider gave something that cannot be sent back to it")
    return token


def _client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False, trust_env=not is_local(url))


async def _asked(method: str, url: str, **options: Any) -> dict[str, Any]:
    """What is answered there, also where that is an error in its own words. Never followed elsewhere."""
    try:
        async with (
            asyncio.timeout(_SECONDS),
            _client(url) as client,
            client.stream(method, url, **options) as answer,
        ):
            content = b""
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > _LARGEST:
                    raise _NotThere(f"{_origin(url)} answered at too great length")
        found = json.loads(content)
    except _AWAY as problem:
        raise SettingsError(f"{_origin(url)} could not be reached ({type(problem).__name__}); try again") from None
    except (ValueError, RecursionError):
        raise _NotThere(f"{_origin(url)} gave an answer that cannot be read") from None
    if not isinstance(found, dict) or (method == "GET" and not answer.is_success):
        raise _NotThere(f"{_origin(url)} has nothing to say of it")
    return found


def _endpoint(metadata: Mapping[str, Any], name: str, local: bool) -> str:
    found = metadata.get(name)
    if not isinstance(found, str) or not is_safe(found, local=local):
        raise SettingsError(f"whoever gives out tokens for this server publishes no {name} that can be used")
    return found


def _texts(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = said.get(name)
    listed = found if isinstance(found, list) else []
    return tuple(each for each in listed if isinstance(each, str) and each.isascii() and each.isprintable())


def _error(told: Mapping[str, Any]) -> str:
    said = re.sub(r"[^a-z0-9_.-]", "", str(told.get("error", "")).lower())[:60]
    return f" ({said})" if said else ""
