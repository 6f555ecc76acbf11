"""A small OpenID Connect provider on a port of its own: it logs in whoever it is told to, and lies when asked to."""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.stage import PATIENCE

CLIENT, SECRET = "assentry-at-test", "a secret of the provider"


@dataclass
class Provider:
    """Who is logged in there, and what it says of them."""

    url: str = ""
    email: str = "ada@example.com"
    verified: Any = True
    logged_in_ago: float = 0.0
    """How long ago, in seconds; 0 is whenever somebody comes."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Said instead of the truth; `None` leaves a claim out."""
    algorithm: str = "RS256"
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    signs_with: Any = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    def app(self) -> FastAPI:
        app = FastAPI()
        app.get("/.well-known/openid-configuration")(self._metadata)
        app.get("/jwks")(self._jwks)
        app.get("/authorize")(self._authorize)
        app.post("/token")(self._token)
        return app

    async def visit(self, address: str) -> dict[str, str]:
        """What the browser brings back from there."""
        async with httpx.AsyncClient() as browser:
            answer = await browser.get(address)
        return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}

    async def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
        }

    async def _jwks(self) -> dict[str, Any]:
        return {"keys": [self.key.as_dict(private=False, use="sig", alg="RS256")]}

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.asked.append(query)
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = urlencode({"code": code, "state": query["state"], "iss": self.url})
        return RedirectResponse(f"{query['redirect_uri']}?{back}", 302)

    async def _token(self, request: Request) -> Response:
        form = dict(await request.form())
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        asked = self.codes.pop(str(form.get("code")), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(str(form.get("code_verifier")).encode()).digest())
        if (
            asked is None
            or request.headers.get("authorization") != f"Basic {basic}"
            or challenge.rstrip(b"=").decode() != asked["code_challenge"]
            or form.get("redirect_uri") != asked["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": self._id_token(asked)})

    def _id_token(self, asked: dict[str, str]) -> str:
        now = int(time.time())
        truth = {
            "iss": self.url, "sub": "u1", "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            "auth_time": now - self.logged_in_ago, "email": self.email, "email_verified": self.verified,
        }  # fmt: skip
        claims = {name: value for name, value in {**truth, **self.claims}.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.key.kid}
        if self.algorithm in ("none", "HS256"):
            text = ".".join(_encoded(json.dumps(each).encode()) for each in (header, claims))
            # The public key taken for a shared secret; our own library would refuse to sign with it.
            forged = hmac.digest(self.key.as_pem(private=False), text.encode(), "sha256")
            return f"{text}.{_encoded(forged) if self.algorithm == 'HS256' else ''}"
        return jwt.encode(header, claims, self.signs_with or self.key, algorithms=[self.algorithm])


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """It answers inside."""
    made, listening = Provider(), socket.socket()
    listening.bind(("127.0.0.1", 0))
    made.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(made.app(), log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    async with asyncio.timeout(PATIENCE):
        while not server.started:
            await asyncio.sleep(0.01)
    try:
        yield made
    finally:
        server.should_exit = True
        await serving
