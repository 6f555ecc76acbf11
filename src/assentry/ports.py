"""What the engine needs of the world, as protocols. Nothing here does anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol

from assentry.core.audit import Entry
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.core.grant import Grant
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.request import Request, State
from assentry.core.run import Run, RunState
from assentry.core.switch import Switch


@dataclass(frozen=True, slots=True)
class View:
    """What a store shows to the pure function that decides a change, inside the transaction."""

    now: datetime
    """The database's clock."""
    request: Request | None
    grants: tuple[Grant, ...] = ()
    run: Run | None = None
    switches: tuple[Switch, ...] = ()
    """Those that hold up the agent that the transaction names."""


Step = Callable[[View], Change | None]
"""A pure function; may be called more than once. `None` means nothing is to be changed."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which requests are wanted. Empty fields do not filter."""

    states: tuple[State, ...] = ()
    agent: str = ""
    action: str = ""
    risk: str = ""
    run: str = ""
    gate: str = ""
    review_open: bool = False
    """Those that ran and wait for review afterwards."""
    due_before: datetime | None = None
    text: str = ""
    """Words, each the beginning of one in the plain-English line, in the action's name, or of the code."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of requests and where the next begins (`""`: there is none).

    A page of a search may hold few requests, or none, though there is a next: it goes on from there.
    """

    requests: tuple[Request, ...]
    next: str = ""


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """One version of the policy document, as applied."""

    version: int
    text: str
    applied_by: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry as it stands in the log."""

    index: int
    text: str
    leaf: str
    """Hex of the RFC 6962 leaf hash, as stored."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed checkpoint as stored: the text that was signed and the signature over it."""

    workspace: str
    size: int
    text: str
    key_id: str
    signature: str


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted. Empty fields do not filter."""

    states: tuple[RunState, ...] = ()
    agent: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Pressure:
    """How much an agent asks of people: what waits of its requests, and what it asked since some moment."""

    pending: int
    recent: int


class Store(Protocol):
    """State, entries and wake-ups, committed together. Methods may be awaited on any event loop."""

    @property
    def address(self) -> str:
        """Where it is, without secrets."""
        ...

    async def open(self) -> None:
        """Ready for use: migrated, settings read back. Idempotent."""
        ...

    async def close(self) -> None:
        """Everything acknowledged is durable and nothing is held open. Idempotent."""
        ...

    async def identity(self) -> str:
        """The random id this database was given when it was created."""
        ...

    async def now(self) -> datetime:
        """The database's clock."""
        ...

    async def transact(
        self,
        workspace: str,
        request_id: str | None,
        step: Step,
        *,
        grants: Sequence[str] = (),
        hint: Request | None = None,
        run: str | None = None,
        awaiting: Sequence[str] = (),
        agent: str = "",
        policy: int | None = None,
    ) -> Change | None:
        """The change that `step` made of the current state, durably committed.

        `step` sees the request (or `None`), the named grants and the run as they are inside the transaction. An
        exception it raises rolls back this change alone and reaches the caller. Inserting a request whose
        (workspace, run, step) exists already, with both run and step non-empty, raises `DuplicateStep`; so does
        one without either whose agent and user already wait for a decision on exactly the same.
        A run that is parked on requests names them in `awaiting`: whoever decides one of them meanwhile waits
        for this commit, and then wakes the run.
        What was judged by a policy names its version (0: no policy was ever applied); where another one is active
        when this commits, `PolicyMoved` is raised.
        What only an `agent` that nobody holds up may do names it: `step` sees the switches that hold it up.
        `hint` is the request as last seen: a store may use it to save a round trip if it can prove, in the
        transaction, that it is still current and that no deadline the step looked at has passed.
        """
        ...

    async def request(self, workspace: str, request_id: str) -> Request | None:
        """The request as last committed."""
        ...

    async def those(self, workspace: str, request_ids: Sequence[str]) -> tuple[Request, ...]:
        """The requests with these ids that are there, in whatever order, by one look."""
        ...

    async def find(self, workspace: str, prefix: str, limit: int = 10) -> tuple[Request, ...]:
        """Requests whose code or id starts with `prefix`."""
        ...

    async def by_step(self, workspace: str, run: str, step: str) -> Request | None:
        """The request that this step of this run made."""
        ...

    async def requests(self, workspace: str, wanted: Filter, *, after: str = "", limit: int = 50) -> Page:
        """A keyset page, most urgent first for pending ones (risk, then deadline), newest first otherwise."""
        ...

    async def similar(self, workspace: str, agent: str, action: str, limit: int = 5) -> tuple[Request, ...]:
        """What people last decided on the same action of this agent, newest first."""
        ...

    async def due(self, workspace: str, limit: int = 100) -> tuple[Request, ...]:
        """Requests whose `due_at` has passed by the database's clock, longest overdue first."""
        ...

    async def next_due(self, workspace: str) -> datetime | None:
        """The earliest `due_at` there is, of requests and runs."""
        ...

    async def runnable(self, workspace: str, actions: Sequence[str], limit: int = 10) -> tuple[Request, ...]:
        """Approved requests for workers, asked-for undos and unknown outcomes, of these actions, oldest first."""
        ...

    async def run(self, workspace: str, run_id: str) -> Run | None:
        """The run as last committed."""
        ...

    async def run_by_key(self, workspace: str, agent: str, key: str) -> Run | None:
        """The newest run of this agent that was begun with this key."""
        ...

    async def snapshot(self, workspace: str, run_id: str) -> str:
        """The state it was last parked with, as JSON; empty if it never was."""
        ...

    async def find_runs(self, workspace: str, prefix: str, limit: int = 10) -> tuple[Run, ...]:
        """Runs whose code or id starts with `prefix`."""
        ...

    async def runs(self, workspace: str, wanted: RunFilter, *, after: str = "", limit: int = 50) -> tuple[Run, ...]:
        """A keyset page, newest first; `after` is the id of the last one seen."""
        ...

    async def resumable(self, workspace: str, hosts: Sequence[str], limit: int = 10) -> tuple[Run, ...]:
        """Parked runs of these hosts for which one of the awaited requests was decided, longest parked first.

        A run parked on nothing is among them.
        """
        ...

    async def overdue_runs(self, workspace: str, limit: int = 100) -> tuple[Run, ...]:
        """Runs whose process did not show in time that it lives."""
        ...

    async def switches(self, workspace: str) -> tuple[Switch, ...]:
        """How every stop switch was last set."""
        ...

    async def spent(self, workspace: str, agent: str, since: datetime, but: str = "") -> Decimal:
        """What the agent's runs that began since then have cost, all but one of them."""
        ...

    async def pressure(self, workspace: str, agent: str, since: datetime, most: int) -> Pressure:
        """What waits of this agent's requests and what people were asked on its behalf since then; up to `most`."""
        ...

    async def credential(self, workspace: str, kind: CredentialKind, credential_id: str) -> Credential | None:
        """The credential of this kind with this id, live or not."""
        ...

    async def credentials(
        self, workspace: str, kind: CredentialKind, *, holder: str = "", after: str = "", limit: int = 100
    ) -> tuple[Credential, ...]:
        """A keyset page by id; of one holder, or of all."""
        ...

    async def forget_credentials(self, workspace: str, before: datetime) -> None:
        """Sessions, links and replies that ended before that are gone."""
        ...

    async def show_caller(self, workspace: str, caller: str, life: timedelta, *, new: bool = False) -> bool:
        """The process of this name is known to live for so long from now; false where it was taken for gone."""
        ...

    async def expect_caller(self, workspace: str, caller: str, life: timedelta) -> None:
        """A process of this name of which nothing is known is taken to live for so long; one that is known stays so."""
        ...

    async def lost_callers(self, workspace: str) -> tuple[str, ...]:
        """The processes that did not show in time that they live; none of them comes back under its name.

        And those that a pending or approved request names although nothing is known of them, however that came about.
        What that costs does not depend on how many requests wait.
        """
        ...

    async def waited_for_by(
        self, workspace: str, caller: str, *, after: str = "", limit: int = 100
    ) -> tuple[Request, ...]:
        """Pending and approved requests that name this process as one that waits for them; a keyset page by id."""
        ...

    async def forget_caller(self, workspace: str, caller: str) -> None:
        """No request names this lost process any more, and neither does anything else."""
        ...

    async def policy(self, workspace: str) -> StoredPolicy | None:
        """The active policy document."""
        ...

    async def apply_policy(
        self,
        workspace: str,
        text: str,
        by: str,
        entry: Callable[[int, datetime], Entry],
        proposal: PolicyProposal | None = None,
    ) -> StoredPolicy:
        """A new active version, committed with its entry, and with the end of the `proposal` that it fulfils.

        `entry` is called inside the transaction with the number of the new version: what it raises, such as that
        another version is active than was thought, ends it and nothing is changed. Raises `StaleRequest` where the
        proposal no longer waits.
        """
        ...

    async def proposal(self, workspace: str, code: str) -> PolicyProposal | None:
        """The proposed change of the policy with this code, whether it still waits or not."""
        ...

    async def proposals(self, workspace: str, limit: int = 50) -> tuple[PolicyProposal, ...]:
        """Those that wait for a second person, newest first."""
        ...

    async def policies(self, workspace: str, limit: int = 20) -> tuple[StoredPolicy, ...]:
        """Versions, newest first."""
        ...

    async def grants(self, workspace: str, *, live_only: bool = True) -> tuple[Grant, ...]:
        """Standing permissions, newest first."""
        ...

    def record(self, entry: Callable[[], Entry]) -> None:
        """The entry will be made and committed soon, in a group; lost if the process dies within the loss window.

        `entry` is called on the store's own thread, so that the caller pays only for handing it over.
        """
        ...

    async def flush(self) -> None:
        """Everything recorded before is durable."""
        ...

    async def sequence(self, workspace: str) -> int:
        """Every committed entry has its dense index; how many there are."""
        ...

    async def entries(
        self, workspace: str, *, start: int = 0, limit: int = 1000, subject: str = "", newest_first: bool = False
    ) -> tuple[Logged, ...]:
        """Sequenced entries from index `start` on (or before it, newest first; 0 then means from the end)."""
        ...

    async def put_checkpoint(self, signed: Signed) -> None:
        """The checkpoint is stored."""
        ...

    async def checkpoints(self, workspace: str) -> tuple[Signed, ...]:
        """Signed checkpoints, smallest first."""
        ...

    async def purge(self, workspace: str, ended_before: datetime, entry: Callable[[int, datetime], Entry]) -> int:
        """Payloads of requests that ended before that are gone, committed with an entry; how many."""
        ...

    def watch(self, notice: Callable[[Mapping[str, int] | None], None]) -> Callable[[], None]:
        """`notice` is called from any thread after commits, here or elsewhere, with request ids and versions.

        `None` instead of ids means: something may have changed, look again. Returns how to stop watching.
        Ids that are not requests (a policy, a grant, a run, a switch) are passed as `policy:`, `grant:` … keys.
        """
        ...

    async def backup(self, target: str) -> None:
        """A consistent copy at `target`."""
        ...


class Signer(Protocol):
    """Signs with a key that is kept outside the database."""

    @property
    def key_id(self) -> str: ...

    def sign(self, data: bytes) -> bytes: ...


class Vault(Protocol):
    """Seals secrets with a key that is kept outside the database."""

    def seal(self, context: str, text: str) -> str:
        """`text`, encrypted and bound to `context`."""
        ...

    def unseal(self, context: str, sealed: str) -> str: ...

    def fingerprint(self, text: str) -> str:
        """A keyed hash: equal secrets give equal fingerprints, and nobody without the key can guess."""
        ...
