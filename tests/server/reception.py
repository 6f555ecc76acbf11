"""The application on a real database with people, agents and something to decide; every answer held against OpenAPI."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import httpx
from jsonschema import Draft202012Validator
from starlette.routing import compile_path

from assentry.core.action import Declaration, Risk
from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.core.request import Request
from assentry.server.visitors import csrf_for
from tests.stage import Application, application

POLICY = """
people:
  ann: {roles: [operator], teams: [platform], email: ann@example.com}
  bea: {teams: [platform]}
  cem: {teams: [billing]}
agents:
  sweeper: {owner: ann}
self_review: allow
rules:
  - {name: launch, actions: ["launch_*"], gate: manual, reviewers: ["team:platform"]}
  - {name: two, actions: ["merge_*"], gate: hard, quorum: 2, reviewers: ["team:platform"]}
  - {name: looked at later, actions: ["note_*"], gate: watch, review: after, reviewers: ["team:platform"]}
  - {name: platform, actions: ["*"], when: "!effect.read", gate: hard, reviewers: ["team:platform"]}
"""
RISKY = Declaration(risk=Risk.RISKY)
KINDS = ("none", "agent", "other agent", "other team", "reviewer", "operator", "expired", "revoked", "revoked agent")


def conforms(document: dict[str, Any], answer: httpx.Response) -> None:
    """The answer is one that the document tells of."""
    operation = operation_of(document, answer.request.method, answer.request.url.path)
    assert operation is not None, f"{answer.request.method} {answer.request.url.path} is not in the document"
    told = operation["responses"]
    response = told.get(str(answer.status_code)) or told.get(f"{answer.status_code // 100}XX")
    assert response is not None, f"{answer.request.url.path}: {answer.status_code} is not told of: {answer.text[:300]}"
    media = answer.headers["content-type"].partition(";")[0]
    content = response["content"]
    assert media in content, f"{media} is not told of, only {list(content)}"
    if media.endswith("json") and (schema := content[media].get("schema")):
        Draft202012Validator({**schema, "components": document["components"]}).validate(answer.json())


def operation_of(document: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """What the document says of this call."""
    for template, operations in sorted(document["paths"].items(), key=lambda pair: pair[0].count("{")):
        if compile_path(template)[0].match(path) and method.lower() in operations:
            found: dict[str, Any] = operations[method.lower()]
            return found
    return None


@dataclass
class Reception(Application):
    """What a test of the API works with."""

    secrets: dict[str, str] = field(default_factory=dict)

    @cached_property
    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        made = httpx.AsyncClient(transport=transport, base_url="http://assentry.test")
        self.closing.push_async_callback(made.aclose)
        return made

    async def call(self, who: str, method: str, path: str, json: Any = None, **headers: str) -> httpx.Response:
        """The answer, as the document tells of it. Headers are named with underscores."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if secret := self.secrets.get(who):
            sent["authorization"] = f"Bearer {secret}"
        answer = await self.client.request(method, f"/api/v1{path}", json=json, headers=sent)
        conforms(self.app.openapi(), answer)
        return answer

    async def get(self, path: str, who: str = "reviewer", **headers: str) -> Any:
        answer = await self.call(who, "GET", path, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, json: Any = None, who: str = "reviewer", status: int = 200, **headers: str) -> Any:
        answer = await self.call(who, "POST", path, json, **headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def browsing(self, who: str = "reviewer") -> dict[str, str]:
        """The headers of a browser where somebody has logged in, for pages and their forms."""
        secret = self.secrets[who]
        session = await self.identities.session(secret, self.desk.judgement.policy)
        assert session is not None
        return {"cookie": f"assentry-session={secret}", "x-assentry-csrf": csrf_for(session)}

    async def asked(self, action: str = "tidy_shelf", agent: str = "sweeper", **args: Any) -> Request:
        """A request that waits for a person."""
        declared = Declaration(risk=Risk.CRITICAL) if action.startswith("launch") else RISKY
        proposal = await self.gate.propose(action, args, agent=agent, declared=declared)
        assert proposal.request is not None
        return proposal.request

    async def carried_out(self, action: str, agent: str = "sweeper", **args: Any) -> Request:
        """A request that has run."""
        proposal = await self.gate.propose(action, args, agent=agent, declared=RISKY)
        async with proposal.execution() as running:
            running.result = "done"
        assert proposal.request is not None
        return proposal.request

    async def principals(self) -> None:
        """Somebody of every kind."""
        ids, ann = self.identities, Principal("ann")
        for who, name in (("operator", "ann"), ("reviewer", "bea"), ("other team", "cem"), ("revoked", "bea")):
            self.secrets[who] = await ids.begin_session(name, "password")
        for who, name in (("agent", "sweeper"), ("other agent", "stranger"), ("revoked agent", "sweeper")):
            made, self.secrets[who] = await ids.give_token(ann, name)
            if who == "revoked agent":
                await ids.end(ann, CredentialKind.TOKEN, made.id)
        session = await ids.session(self.secrets["revoked"], self.desk.judgement.policy)
        assert session is not None
        await ids.log_out(session)
        self.secrets["expired"] = await self._expired()

    async def _expired(self) -> str:
        secret = await self.identities.begin_session("bea", "password")
        store = self.premises.store
        (live,) = [
            each
            for each in await store.credentials("default", CredentialKind.SESSION, holder="bea", limit=100)
            if each.ended_at is None and each.id not in {_hash(self.secrets["reviewer"])}
        ]
        past = await store.now() - timedelta(hours=1)
        gone = replace(live, version=live.version + 1, expires_at=past)
        await store.transact("default", None, lambda _: Change(credentials=(gone,)))
        return secret

    async def reply(self, who: str = "") -> Credential:
        """The only reply that is kept."""
        (found,) = await self.premises.store.credentials("default", CredentialKind.REPLY, holder=who)
        return found


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@asynccontextmanager
async def reception(database: str, policy: str = POLICY) -> AsyncIterator[Reception]:
    """Everything is open inside, and gone afterwards."""
    async with application(database, Reception, policy=policy) as made:
        if policy:
            await made.principals()
        yield made
