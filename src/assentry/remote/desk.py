"""A person's side of things on another machine: the same reading and the same words, carried out by the server.

What may be decided, and by whom, is judged there; what is worked out here is only for showing.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn, cast
from urllib.parse import quote

from assentry.core.action import Json
from assentry.core.authority import Principal
from assentry.core.decision import Finding, Opinion
from assentry.core.grant import Grant, Terms
from assentry.core.policy_proposal import PolicyProposal, ProposalState
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.core.switch import EVERYTHING, Setting, Switch
from assentry.engine.inbox import Inbox
from assentry.engine.judgement import Judgement
from assentry.engine.oversight import Oversight, Withdrawn
from assentry.engine.rules import Rules
from assentry.errors import NotFound, StoreElsewhere, StoreError
from assentry.ports import Filter, Logged, Page, RunFilter, Store, StoredPolicy
from assentry.remote.session import Session
from assentry.stores import records


class RemoteStore:
    """What can be read of a store through a server. It writes nothing: deciding is a call of its own."""

    def __init__(self, line: Session, workspace: str) -> None:
        self.line, self._workspace = line, workspace

    @property
    def address(self) -> str:
        return self.line.url

    async def open(self) -> None:
        """Ready for use: the server answers, and knows who calls."""
        await self.now()

    async def close(self) -> None:
        await self.line.close()

    async def identity(self) -> str:
        return self.line.url

    async def now(self) -> datetime:
        return datetime.fromisoformat(await self.line.read("clock"))

    async def request(self, workspace: str, request_id: str) -> Request | None:
        return _one(await self.line.read("request", id=request_id))

    async def find(self, workspace: str, prefix: str, limit: int = 10) -> tuple[Request, ...]:
        return _requests(await self.line.read("find", prefix=prefix, limit=limit))

    async def by_step(self, workspace: str, run: str, step: str) -> Request | None:
        return _one(await self.line.read("by_step", run=run, step=step))

    async def similar(self, workspace: str, agent: str, action: str, limit: int = 5) -> tuple[Request, ...]:
        return _requests(await self.line.read("similar", agent=agent, action=action, limit=limit))

    async def requests(self, workspace: str, wanted: Filter, *, after: str = "", limit: int = 50) -> Page:
        found = await self.line.read(
            "requests", states=[each.value for each in wanted.states], agent=wanted.agent, action=wanted.action,
            risk=wanted.risk, run=wanted.run, gate=wanted.gate, review_open=wanted.review_open, text=wanted.text,
            after=after, limit=limit,
        )  # fmt: skip
        return Page(_requests(found["requests"]), found["next"])

    async def due(self, workspace: str, limit: int = 100) -> tuple[Request, ...]:
        return _requests(await self.line.read("due", limit=limit))

    async def run(self, workspace: str, run_id: str) -> Run | None:
        found = await self.line.read("run", id=run_id)
        return records.read_run_record(found) if found else None

    async def run_by_key(self, workspace: str, agent: str, key: str) -> Run | None:
        found = await self.line.read("run_by_key", agent=agent, key=key)
        return records.read_run_record(found) if found else None

    async def find_runs(self, workspace: str, prefix: str, limit: int = 10) -> tuple[Run, ...]:
        found = await self.line.read("find_runs", prefix=prefix, limit=limit)
        return tuple(records.read_run_record(each) for each in found)

    async def runs(self, workspace: str, wanted: RunFilter, *, after: str = "", limit: int = 50) -> tuple[Run, ...]:
        states = [each.value for each in wanted.states]
        found = await self.line.read(
            "runs", states=states, agent=wanted.agent, parent=wanted.parent, after=after, limit=limit
        )
        return tuple(records.read_run_record(each) for each in found)

    async def switches(self, workspace: str) -> tuple[Switch, ...]:
        return tuple(records.read_switch_record(each) for each in await self.line.read("switches"))

    async def policy(self, workspace: str) -> StoredPolicy | None:
        found = await self.line.read("policy")
        return _version(found) if found else None

    async def policies(self, workspace: str, limit: int = 20) -> tuple[StoredPolicy, ...]:
        return tuple(_version(each) for each in await self.line.read("policies", limit=limit))

    async def grants(self, workspace: str, *, live_only: bool = True) -> tuple[Grant, ...]:
        found = await self.line.read("grants", live_only=live_only)
        return tuple(records.read_grant_record(each) for each in found)

    async def sequence(self, workspace: str) -> int:
        return int(await self.line.read("size"))

    async def entries(
        self, workspace: str, *, start: int = 0, limit: int = 1000, subject: str = "", newest_first: bool = False
    ) -> tuple[Logged, ...]:
        given = {"start": start, "limit": limit, "subject": subject, "newest_first": newest_first}
        return tuple(
            Logged(each["index"], each["text"], each["leaf"]) for each in await self.line.read("entries", **given)
        )

    def watch(self, notice: Callable[[Mapping[str, int] | None], None]) -> Callable[[], None]:
        return self.line.listen(notice)

    async def flush(self) -> None:
        return None

    async def transact(self, workspace: str, request_id: str | None, *_: Any, run: str = "", **__: Any) -> None:
        """Time is moved on by the server; whatever else would be written here is refused, never left out silently."""
        if request_id is None and not run:
            raise StoreElsewhere

    def __getattr__(self, name: str) -> NoReturn:
        raise StoreElsewhere


def remote_store(line: Session, workspace: str) -> Store:
    """What can be read there, as a store; the rest of a store is refused."""
    return cast("Store", RemoteStore(line, workspace))


class RemoteInbox(Inbox):
    """Decisions carried out by the server, in the name of whoever logged in."""

    def __init__(self, line: Session, store: Store, workspace: str, judgement: Judgement) -> None:
        super().__init__(store, workspace, judgement)
        self._line = line

    async def seen(self, by: Principal, request_id: str) -> None:
        await self._line.post(f"/api/v1/requests/{request_id}/seen", {})

    async def approve(self, by: Principal, request_id: str, *, note: str = "", **shown: str) -> Request:
        return await self._say(request_id, shown, word="approve", note=note)

    async def deny(self, by: Principal, request_id: str, reason: str, *, stop: bool = False, **shown: str) -> Request:
        return await self._say(request_id, shown, word="deny", reason=reason, stop=stop)

    async def revise(self, by: Principal, request_id: str, instructions: str, **shown: str) -> Request:
        return await self._say(request_id, shown, word="revise", instructions=instructions)

    async def modify(
        self, by: Principal, request_id: str, args: Mapping[str, Json], *, note: str = "", **shown: str
    ) -> Request:
        return await self._say(request_id, shown, word="modify", args=dict(args), note=note)

    async def choose(self, by: Principal, request_id: str, option: int, *, note: str = "", **shown: str) -> Request:
        return await self._say(request_id, shown, word="choose", option=option + 1, note=note)

    async def answer(self, by: Principal, request_id: str, value: Json, *, note: str = "", **shown: str) -> Request:
        return await self._say(request_id, shown, word="answer", answer=value, note=note)

    async def undo(self, by: Principal, request_id: str, reason: str = "") -> Request:
        return await self._after(request_id, "undo", {"reason": reason})

    async def reconcile(self, by: Principal, request_id: str, finding: Finding, note: str = "") -> Request:
        return await self._after(request_id, "reconcile", {"finding": finding.value, "note": note})

    async def review(self, by: Principal, request_id: str, opinion: Opinion, note: str = "") -> Request:
        return await self._after(request_id, "review", {"opinion": opinion.value, "note": note})

    async def _say(self, request_id: str, shown: Mapping[str, str], **said: Any) -> Request:
        more = {name: shown[name] for name in ("seen_digest", "confirm") if shown.get(name)}
        return await self._after(request_id, "decision", {**said, **more})

    async def _after(self, request_id: str, what: str, body: Mapping[str, Any]) -> Request:
        await self._line.post(f"/api/v1/requests/{request_id}/{what}", body)
        found = await self._store.request(self._workspace, request_id)
        if found is None:
            raise NotFound(f"request {request_id} is not there any more")
        return found


class RemoteOversight(Oversight):
    """Switches and runs, turned by the server."""

    def __init__(self, line: Session, store: Store, workspace: str) -> None:
        super().__init__(store, workspace)
        self._line = line

    async def pause(self, by: Principal, run: Run, reason: str = "", *, switch: str = "") -> Run:
        return await self._turned(run, "pause", reason)

    async def stop(self, by: Principal, run: Run, reason: str = "", *, withdrawn: Withdrawn | None = None) -> Run:
        return await self._turned(run, "stop", reason, withdrawn)

    async def go(self, by: Principal, run: Run, *, switch: bool = False) -> Run:
        return await self._turned(run, "go", "")

    async def hold(
        self, by: Principal, agent: str, setting: Setting, reason: str = "", *, withdrawn: Withdrawn | None = None
    ) -> AsyncIterator[Run]:
        async for run in self._switched(agent, str(setting), reason, withdrawn):
            yield run

    async def release(self, by: Principal, agent: str) -> AsyncIterator[Run]:
        async for run in self._switched(agent, "go", ""):
            yield run

    async def _turned(self, run: Run, what: str, reason: str, withdrawn: Withdrawn | None = None) -> Run:
        body = {"reason": reason} if what != "go" else {}
        told = await self._line.post(f"/api/v1/runs/{run.code}/{what}", body)
        _count(told, withdrawn)
        return await self._store.run(self._workspace, run.id) or run

    async def _switched(
        self, agent: str, setting: str, reason: str, withdrawn: Withdrawn | None = None
    ) -> AsyncIterator[Run]:
        before = {run.id: run.version for run in await self.everything("" if agent == EVERYTHING else agent)}
        whom: dict[str, Json] = {"everything": True} if agent == EVERYTHING else {"agent": agent}
        told = await self._line.post("/api/v1/switches", {**whom, "setting": setting, "reason": reason})
        _count(told, withdrawn)
        for run_id, version in before.items():
            run = await self._store.run(self._workspace, run_id)
            if run is not None and run.version > version:
                yield run


class RemoteRules(Rules):
    """Policy and grants, set by the server."""

    def __init__(self, line: Session, store: Store, workspace: str) -> None:
        super().__init__(store, workspace)
        self._line = line

    async def apply(
        self,
        by: Principal,
        text: str,
        file: str = "assentry.yaml",
        *,
        based_on: int | None = None,
        lock_me_out: bool = False,
    ) -> StoredPolicy | PolicyProposal:
        body = {"text": text, "file": file.rsplit("/", 1)[-1], "based_on": based_on, "lock_me_out": lock_me_out}
        made = await self._line.post("/api/v1/policy", body)
        return self._proposal(made["proposal"]) if "proposal" in made else await self._active()

    async def proposals(self) -> tuple[PolicyProposal, ...]:
        found = await self._line.get("/api/v1/policy/proposals")
        return tuple(self._proposal(each) for each in found["proposals"])

    async def proposal(self, code: str) -> PolicyProposal:
        found = await self._line.get(f"/api/v1/policy/proposals/{quote(code.strip(), safe='')}")
        return self._proposal(found["proposal"])

    async def confirm(self, by: Principal, proposal: PolicyProposal, seen: str) -> StoredPolicy:
        await self._line.post(f"/api/v1/policy/proposals/{proposal.code}/confirm", {"digest": seen})
        return await self._active()

    async def reject(self, by: Principal, proposal: PolicyProposal, reason: str = "") -> PolicyProposal:
        made = await self._line.post(f"/api/v1/policy/proposals/{proposal.code}/reject", {"reason": reason})
        return self._proposal(made["proposal"])

    async def _active(self) -> StoredPolicy:
        found = await self._store.policy(self._workspace)
        if found is None:
            raise StoreError("the server has no policy although it took this one; look at its log")
        return found

    def _proposal(self, told: Mapping[str, Any]) -> PolicyProposal:
        ended = told["ended_at"]
        return PolicyProposal(
            self._workspace, str(told["code"]), str(told["text"]), str(told["file"]), int(told["based_on"]),
            str(told["proposed_by"]), datetime.fromisoformat(told["proposed_at"]), ProposalState(told["state"]),
            str(told["ended_by"]), datetime.fromisoformat(ended) if ended else None, str(told["reason"]),
        )  # fmt: skip

    async def give(self, by: Principal, terms: Terms) -> Grant:
        body = {
            "actions": list(terms.actions), "agents": list(terms.agents), "life": f"{int(terms.life.total_seconds())}s",
            "condition": terms.condition, "limit": terms.limit,
            "budget": str(terms.budget) if terms.budget is not None else None, "currency": terms.currency,
            "max_risk": str(terms.max_risk), "reason": terms.reason,
        }  # fmt: skip
        made = await self._line.post(
            "/api/v1/grants", {name: value for name, value in body.items() if value is not None}
        )
        return await self._grant(str(made["grant"]["id"]))

    async def take_back(self, by: Principal, grant: Grant) -> Grant:
        await self._line.post(f"/api/v1/grants/{grant.id}/revoke", {})
        return await self._grant(grant.id)

    async def _grant(self, grant_id: str) -> Grant:
        for each in await self._store.grants(self._workspace, live_only=False):
            if each.id == grant_id:
                return each
        raise NotFound(f"there is no grant {grant_id}")


def _count(told: Mapping[str, Any], withdrawn: Withdrawn | None) -> None:
    if withdrawn is not None:
        withdrawn.requests += int(told.get("withdrawn", 0))


def _one(record: Any) -> Request | None:
    return records.read_request_record(record) if record else None


def _requests(found: Any) -> tuple[Request, ...]:
    return tuple(records.read_request_record(each) for each in found)


def _version(found: Mapping[str, Any]) -> StoredPolicy:
    at = datetime.fromisoformat(str(found["applied_at"]))
    return StoredPolicy(int(found["version"]), str(found["text"]), str(found["applied_by"]), at)
