"""What happens inside one write transaction: reading the current state, taking the step, writing the change."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import apsw

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.credential import Credential
from assentry.core.grant import Grant
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.request import Request
from assentry.core.run import Run, RunState
from assentry.core.switch import EVERYTHING, Switch
from assentry.errors import Conflict, DuplicateStep, PolicyMoved, StaleRequest, StoreError
from assentry.ports import Step, View
from assentry.stores import rows
from assentry.stores.rows import micros
from assentry.stores.sqlite.asks import Asks
from assentry.stores.statements import statements

SQL = statements("sqlite")
_KEPT = 1024

Mark = tuple[dict[str, int], bool, int, int]


class Transaction:
    """The writer's connection between BEGIN and COMMIT, and what is to be said about it afterwards."""

    def __init__(self, connection: apsw.Connection, clock: Callable[[], datetime], asks: Asks) -> None:
        self.connection, self.clock, self._asks = connection, clock, asks
        self.news: dict[str, int] = {}
        self.dirty = False
        self.first_entry = self.last_entry = 0
        self._data_version = -1
        self._next_index: dict[str, int] = {}
        self._requests: dict[tuple[str, str], Request] = {}
        self._held_up: dict[str, tuple[Switch, ...]] = {}
        self._policies: dict[str, int] = {}

    def begin(self) -> None:
        """A new transaction. What is known of the last one holds unless another connection has written since."""
        self.news = {}
        self.dirty = False
        self.first_entry = self.last_entry = 0
        # Asked for under the lock, it differs if another connection has written since the last time, and only then.
        version = self.connection.pragma("data_version")
        if version != self._data_version:
            self.forget()
            self._data_version = version

    def forget(self) -> None:
        """Nothing is known: others have written, or what we wrote was rolled back."""
        self._next_index.clear()
        self._requests.clear()
        self._held_up.clear()
        self._policies.clear()

    def mark(self) -> Mark:
        """How it stands now, to go back to."""
        return self.news.copy(), self.dirty, self.first_entry, self.last_entry

    def back_to(self, mark: Mark) -> None:
        """What came after `mark` was rolled back."""
        self.news, self.dirty, self.first_entry, self.last_entry = mark
        self.forget()

    def execute(self, name: str, values: dict[str, Any]) -> None:
        self.connection.execute(SQL[name], values)

    def fetch(self, name: str, values: dict[str, Any]) -> list[Any]:
        return self.connection.execute(SQL[name], values).fetchall()

    def transact(
        self,
        workspace: str,
        request_id: str | None,
        step: Step,
        grants: Sequence[str],
        run_id: str | None = None,
        agent: str = "",
        policy: int | None = None,
    ) -> Change | None:
        """The change that `step` makes of the current state, written."""
        if policy is not None and policy != self.policy(workspace):
            raise PolicyMoved(policy)
        current = None if request_id is None else self.request(workspace, request_id)
        named = tuple(grant for name in grants if (grant := self.grant(workspace, name)) is not None)
        run = None if run_id is None else self.run(workspace, run_id)
        change = step(View(self.clock(), current, named, run, self.switches(workspace, agent) if agent else ()))
        if change is not None:
            self.write(workspace, change)
        return change

    def write(self, workspace: str, change: Change) -> None:
        """The change is part of this transaction."""
        # What cannot be written is found out before anything is.
        entries = [rows.entry_columns(entry, micros) for entry in change.entries]
        request = change.request
        if request is not None:
            if request.ask.workspace != workspace:
                raise StoreError("a change belongs to another workspace than the one it was made in; report this")
            self._insert(request) if change.new else self._update(request)
            self.news[request.ask.id] = request.version
        for grant in change.grants:
            self._put_grant(grant)
        if change.run is not None:
            if change.run.workspace != workspace:
                raise StoreError("a change belongs to another workspace than the one it was made in; report this")
            self._put_run(change.run, new=change.new_run, snapshot=change.snapshot)
        if change.switch is not None:
            self._put_switch(change.switch)
        for credential in change.credentials:
            self._put_credential(credential)
        if change.proposal is not None:
            self.put_proposal(change.proposal)
        for row in entries:
            self.append_row(row)

    def request(self, workspace: str, request_id: str) -> Request | None:
        """The request as it is inside this transaction."""
        known = self._requests.get((workspace, request_id))
        if known is not None:
            return known
        key = {"workspace": workspace, "id": request_id}
        found = self.fetch("read_moving", key)
        if not found:
            return None
        seq, purged, body = found[0]
        ask = None if purged else self._asks.get(workspace, request_id)
        if ask is None:
            stored = self.fetch("read_ask", {"seq": seq})
            text = stored[0][0] if stored else ""
            ask = rows.read_ask(text, request_id)
            if not purged:
                self._asks.keep(ask, text)
        return rows.read_request(ask, body)

    def grant(self, workspace: str, grant_id: str) -> Grant | None:
        found = self.fetch("read_grant", {"workspace": workspace, "id": grant_id})
        return rows.read_grant(found[0][0], grant_id) if found else None

    def run(self, workspace: str, run_id: str) -> Run | None:
        found = self.fetch("read_run", {"workspace": workspace, "id": run_id})
        return rows.read_run(*found[0]) if found else None

    def switches(self, workspace: str, agent: str) -> tuple[Switch, ...]:
        """Those that hold this agent up."""
        held = self._held_up.get(workspace)
        if held is None:
            found = (rows.read_switch(text, key) for text, key in self.fetch("switches", {"workspace": workspace}))
            held = self._held_up[workspace] = tuple(switch for switch in found if switch.is_held)
        return tuple(switch for switch in held if switch.agent in (agent, EVERYTHING))

    def policy(self, workspace: str) -> int:
        """The version of the active policy; 0 where none was ever applied."""
        version = self._policies.get(workspace)
        if version is None:
            found = self.fetch("policy", {"workspace": workspace, "limit": 1})
            version = self._policies[workspace] = int(found[0][0]) if found else 0
        return version

    def append(self, entries: Sequence[Entry]) -> None:
        """The entries stand at the end of their workspace's log."""
        for entry in entries:
            self.append_row(rows.entry_columns(entry, micros))

    def append_row(self, row: rows.Row) -> None:
        """The entry of this row stands at the end of its workspace's log."""
        workspace = row["workspace"]
        index = self._next_index.get(workspace)
        if index is None:
            # The lock on the file is held, so nobody else can take this index.
            found = self.fetch("next_index", {"workspace": workspace})
            index = found[0][0] if found else 0
        row["idx"] = index
        self.execute("insert_entry", row)
        self._next_index[workspace] = index + 1
        self.last_entry = self.connection.last_insert_rowid()
        self.first_entry = self.first_entry or self.last_entry
        self.dirty = True

    def _insert(self, request: Request) -> None:
        row = rows.all_columns(request, micros)
        try:
            self.execute("insert_request", row)
        except apsw.ConstraintError:
            raise self._taken(request) from None
        row["seq"] = self.connection.last_insert_rowid()
        self.execute("insert_ask", row)
        self.dirty = True

    def _taken(self, request: Request) -> Exception:
        ask = request.ask
        key = {"workspace": ask.workspace, "run": rows.column(ask.run), "step": rows.column(ask.step)}
        rows_found = self.fetch("by_step", key) if ask.run and ask.step else []
        if not ask.run:
            same = {"workspace": ask.workspace, "agent": rows.column(ask.agent), "step": rows.step_of(ask)}
            rows_found = self.fetch("by_content", same)
        if not rows_found:
            return Conflict(
                f"there is a request with the id {ask.id} already; propose again", request_id=ask.id, code=ask.code,
                state=str(request.state),
            )  # fmt: skip
        text, body, other = rows_found[0]
        found = rows.read_request(rows.read_ask(text, other), body)
        return DuplicateStep(
            f"request {found.code} asks for this already; wait for that one",
            request_id=found.id, code=found.code, state=str(found.state),
        )  # fmt: skip

    def _update(self, request: Request) -> None:
        row = rows.moving_columns(request, micros)
        try:
            self.execute("update_request", row)
        except apsw.ConstraintError:
            raise rows.asked_already(request) from None
        if self.connection.changes() != 1:
            raise StaleRequest(
                f"request {request.code} changed since it was read; look at it again",
                request_id=request.id, code=request.code, state=str(request.state),
            )  # fmt: skip
        self.dirty = True
        key = request.ask.workspace, request.ask.id
        if request.candidate is not request.ask.candidate:
            self.execute("update_action", {name: row[name] for name in ("workspace", "id", "action")})
            self._requests.pop(key, None)
        elif self._asks.get(*key) is request.ask:
            # Made of what was read here and written as it is: reading it again would give the same.
            if len(self._requests) >= _KEPT and key not in self._requests:
                del self._requests[next(iter(self._requests))]
            self._requests[key] = request
        else:
            # Its ask was read anew meanwhile, or is no longer kept: what is known of the request is out of date.
            self._requests.pop(key, None)

    def purge(self, stub: Request) -> None:
        """The request is replaced by what remains of it, its payload overwritten."""
        row = rows.all_columns(stub, micros)
        self.execute("purge_ask", {name: row[name] for name in ("workspace", "id", "title", "ask")})
        self._asks.forget(stub.workspace, stub.id)
        self._requests.pop((stub.workspace, stub.id), None)
        self._update(stub)
        self.news[stub.id] = stub.version

    def _put_switch(self, switch: Switch) -> None:
        self.execute("put_switch", rows.switch_columns(switch))
        self._held_up.pop(switch.workspace, None)
        if self.connection.changes() != 1:
            raise StaleRequest("the switch was set by somebody else just now", request_id="", code="", state="")
        self.news[rows.notice_key("switch", switch.agent)] = switch.version

    def _put_credential(self, credential: Credential) -> None:
        name = "insert_credential" if credential.version == 1 else "update_credential"
        self.execute(name, rows.credential_columns(credential, micros))
        if self.connection.changes() != 1:
            raise rows.stale_credential(credential)
        if credential.is_proof:
            self.news[rows.notice_key("identity", credential.holder)] = credential.version

    def put_proposal(self, proposal: PolicyProposal) -> None:
        """It waits, or ends if it did."""
        name, row = rows.proposal_write(proposal)
        self.execute(name, row)
        if self.connection.changes() != 1:
            raise rows.stale_proposal(proposal)

    def _put_run(self, run: Run, *, new: bool, snapshot: str | None) -> None:
        row = rows.run_columns(run, micros)
        if run.waits and run.state is RunState.PARKED:
            wanted = {"workspace": run.workspace, "requests": json.dumps(run.waits), "wanted": len(set(run.waits))}
            row["wakeable"] = self.fetch("is_decided", wanted)[0][0]
        try:
            self.execute("insert_run" if new else "update_run", row)
            stale = self.connection.changes() != 1
        except apsw.ConstraintError:
            stale = True
        if stale:
            raise StaleRequest(
                f"run {run.code} changed since it was read; look at it again",
                request_id=run.id, code=run.code, state=str(run.state),
            )  # fmt: skip
        if not new:
            self.execute("forget_waits", {"workspace": run.workspace, "id": run.id})
        for request in run.waits:
            self.execute("wait_for", {"workspace": run.workspace, "request": request, "id": run.id})
        if snapshot is not None:
            self.execute("put_snapshot", {"workspace": run.workspace, "id": run.id, "text": snapshot})
        self.news[f"run:{run.id}"] = run.version
        self.dirty = True

    def _put_grant(self, grant: Grant) -> None:
        row = rows.grant_columns(grant, micros)
        try:
            self.execute("insert_grant" if grant.version == 1 else "update_grant", row)
            stale = self.connection.changes() != 1
        except apsw.ConstraintError:
            stale = True
        if stale:
            raise StaleRequest(
                f"grant {grant.id} changed since it was read; look at it again",
                request_id="", code="", state="",
            )  # fmt: skip
        self.news[f"grant:{grant.id}"] = grant.version
        self.dirty = True
