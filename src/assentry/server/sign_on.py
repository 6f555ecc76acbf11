"""Single sign-on with OpenID Connect: where the provider is asked, and what of its answer is believed.

Nothing here lets anybody in. What is returned are claims that the provider signed for us, now, and for this very
question.
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.oauth2.client import OAuth2Client
from authlib.oauth2.rfc6749.parameters import prepare_token_request
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from assentry.core.addresses import is_safe
from assentry.errors import NotAllowed, SettingsError
from assentry.server.problems import Problem
from assentry.settings import Settings

log = logging.getLogger("assentry.sign_on")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Only what a provider signs with a key that nobody else has: no `none`, and no secret that we know too."""
LEEWAY = timedelta(seconds=60)
"""How far the provider's clock may be from ours."""
_KEPT = 600.0
_AGAIN = 10.0
"""After so many seconds a key that is not known is looked for once more."""
_NOT_BELIEVED = "the provider's answer cannot be believed"


@dataclass(frozen=True, slots=True)
class Question:
    """One log-in at the provider: what goes there, and what has to come back."""

    returns: str
    """Where the provider sends the browser."""
    state: str
    nonce: str
    verifier: str
    fresh_since: datetime | None = None
    """The person has to log in there after this, whatever session they have with the provider."""


@dataclass(slots=True)
class _Known:
    """What the provider publishes of itself, and when it was read."""

    metadata: dict[str, Any]
    keys: KeySet
    read_at: float


class SignOn:
    """One provider, as the settings name it."""

    def __init__(self, issuer: str, client_id: str, secret: str = "", claim: str = "email") -> None:
        self.issuer, self.claim = issuer, claim
        self._client_id, self._secret = client_id, secret
        self._known: _Known | None = None

    @property
    def name(self) -> str:
        """How people know the provider."""
        return urlsplit(self.issuer).netloc

    async def address(self, question: Question) -> str:
        """Where the browser goes to ask."""
        known = await self._published()
        more = {"prompt": "login", "max_age": "0"} if question.fresh_since is not None else {}
        client = self._client(question)
        url, _ = client.create_authorization_url(
            _endpoint(known.metadata, "authorization_endpoint"),
            state=question.state, code_verifier=question.verifier, nonce=question.nonce, **more,
        )  # fmt: skip
        return str(url)

    async def claims(self, question: Question, code: str, now: datetime) -> dict[str, Any]:
        """What the provider says of whoever came back with this code, signed by it for us and for this question."""
        known = await self._published()
        token = await self._token(known, question, code)
        signed = await self._verified(known, token)
        wanted = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self._client_id},
        }
        claims = CodeIDToken(
            signed.claims, signed.header, wanted, {"nonce": question.nonce, "client_id": self._client_id}
        )
        try:
            claims.validate(int(now.timestamp()), int(LEEWAY.total_seconds()))
        except JoseError as problem:
            log.warning("an ID token was refused: %s", problem.error)
            raise NotAllowed(f"{_NOT_BELIEVED} ({problem.error}); try again", principal="") from None
        if question.fresh_since is not None:
            _check_fresh(claims.get("auth_time"), question.fresh_since, now)
        return dict(claims)

    def address_of(self, claims: dict[str, Any]) -> str:
        """What the policy has as `email:` of this person; the provider must have verified an e-mail address."""
        found = claims.get(self.claim)
        if not isinstance(found, str) or not found or len(found) > 320 or not found.isprintable():
            raise NotAllowed(
                f"the provider does not say who this is: its ID token has no {self.claim}; an operator can have the "
                "provider send it, or name another one with sso_claim",
                principal="",
            )
        if self.claim == "email" and claims.get("email_verified") is not True:
            raise NotAllowed("the provider has not verified this e-mail address; verify it there first", principal="")
        return found

    def _client(self, question: Question) -> OAuth2Client:
        scope = "openid email profile"
        return OAuth2Client(
            None, self._client_id, self._secret or None,
            scope=scope, redirect_uri=question.returns, code_challenge_method="S256",
        )  # fmt: skip

    async def _token(self, known: _Known, question: Question, code: str) -> str:
        client = self._client(question)
        body = prepare_token_request(
            "authorization_code", redirect_uri=question.returns, code=code, code_verifier=question.verifier
        )
        methods = known.metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        by_post = "client_secret_basic" not in methods and "client_secret_post" in methods
        method = "none" if not self._secret else "client_secret_post" if by_post else "client_secret_basic"
        url, headers, body = client.client_auth(method).prepare(
            "POST",
            _endpoint(known.metadata, "token_endpoint"),
            {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"},
            body,
        )
        answer = await _fetched("POST", url, headers=headers, content=body)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise NotAllowed("the provider did not take the code that came back; try again", principal="")
        return token

    async def _verified(self, known: _Known, token: str) -> jwt.Token:
        for attempt in (known, None):
            try:
                keys = (attempt or await self._published(again=True)).keys
                return jwt.decode(token, keys, algorithms=ALGORITHMS)
            except InvalidKeyIdError:
                continue  # The provider may have taken another key meanwhile.
            except (JoseError, ValueError, TypeError, KeyError) as problem:
                log.warning("an ID token was refused: %s", type(problem).__name__)
                break
        raise NotAllowed(f"{_NOT_BELIEVED} (its signature); try again", principal="")

    async def _published(self, *, again: bool = False) -> _Known:
        known, now = self._known, time.monotonic()
        if known is not None and now - known.read_at < (_AGAIN if again else _KEPT):
            return known
        metadata = await _fetched("GET", self.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if metadata.get("issuer") != self.issuer:
            raise Problem(503, "the single sign-on provider calls itself something else than sso_issuer says")
        found = await _fetched("GET", _endpoint(metadata, "jwks_uri"))
        try:
            public = [each for each in found["keys"] if each.get("kty") in ("RSA", "EC", "OKP") and not each.get("d")]
            keys = KeySet.import_key_set({"keys": public})
        except (JoseError, ValueError, TypeError, KeyError, AttributeError):
            raise Problem(503, "the single sign-on provider publishes no keys that can be used") from None
        self._known = _Known(metadata, keys, now)
        return self._known


def sign_on_for(settings: Settings) -> SignOn | None:
    """The provider that the settings name, if they name one."""
    if not settings.sso_issuer:
        return None
    if not is_safe(settings.sso_issuer) or not settings.sso_client_id:
        raise SettingsError("sso_issuer is the provider's https address, and sso_client_id is what it calls us")
    secret = ""
    if settings.sso_client_secret_file:
        try:
            secret = Path(settings.sso_client_secret_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError("the file that sso_client_secret_file names cannot be read; check the path") from None
    return SignOn(settings.sso_issuer, settings.sso_client_id, secret, settings.sso_claim or "email")


def _endpoint(metadata: dict[str, Any], name: str) -> str:
    found = metadata.get(name)
    if not isinstance(found, str) or not is_safe(found):
        raise Problem(503, f"the single sign-on provider publishes no {name} that can be used")
    return found


def _check_fresh(auth_time: object, since: datetime, now: datetime) -> None:
    """They logged in there just now, and not some time ago."""
    known = isinstance(auth_time, int | float) and not isinstance(auth_time, bool)
    if not known or not (since - LEEWAY).timestamp() <= float(str(auth_time)) <= (now + LEEWAY).timestamp():
        raise NotAllowed("the provider did not have you log in once more; try again", principal="")


async def _fetched(method: str, url: str, **options: Any) -> dict[str, Any]:
    """What the provider answers. Never followed elsewhere, and never waited for without end."""
    try:
        async with httpx.AsyncClient(timeout=10, follow_redirects=False) as client:
            answer = await client.request(method, url, **options)
        found = answer.json() if len(answer.content) <= 1_000_000 else None
    except (httpx.HTTPError, ValueError) as problem:
        log.warning("the provider of single sign-on could not be asked: %s", type(problem).__name__)
        raise Problem(503, "the single sign-on provider cannot be reached; try again, or come in another way") from None
    if not isinstance(found, dict):
        raise Problem(503, "the single sign-on provider gave an answer that cannot be read")
    return found
