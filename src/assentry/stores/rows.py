"""Values as rows and back: JSON text for what only we read, columns for what the database must find or order.

Arguments are stored once, as the canonical text that will run; `Action.args` is read back from it. So what is
shown and what runs are the same bytes, and nothing but those bytes is ever written. Numbers that JSON cannot
carry survive in arguments (they are tagged there); anywhere else a `Decimal` comes back as text.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, get_type_hints

import msgspec

from assentry.core.action import Action, Risk
from assentry.core.audit import Entry
from assentry.core.canonical import restore
from assentry.core.credential import Credential
from assentry.core.decision import Candidate
from assentry.core.grant import Grant
from assentry.core.policy_proposal import PolicyProposal, ProposalState
from assentry.core.request import OPEN, Ask, Executor, Option, Request, State
from assentry.core.run import Run, RunState
from assentry.core.situation import Standing
from assentry.core.switch import Switch
from assentry.errors import AssentryError, Conflict, InvalidArguments, StaleRequest, StoreError
from assentry.stores.words import searchable

log = logging.getLogger(__name__)

NEVER = (1 << 63) - 1
"""The `due_at` of what time does not move, in microseconds: later than everything."""

Row = dict[str, Any]
When = Callable[[datetime | None], Any]
"""How a back end writes a time, and what it writes for none."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HIGHEST = Risk.CRITICAL.rank
_FOR_WORKERS = (State.UNDO_ASKED, State.UNKNOWN)
_ESCAPED = "\ufffd"
_DAMAGE = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, RecursionError, AssentryError)


def micros(at: datetime | None) -> int:
    """Microseconds since 1970, as SQLite keeps times."""
    return NEVER if at is None else (at - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime | None:
    """What `micros` wrote."""
    return None if value == NEVER else _EPOCH + timedelta(microseconds=value)


def column(text: str) -> str:
    """`text` as every database can hold and compare it; different texts stay different.

    PostgreSQL cannot store NUL and neither stores half a surrogate pair.
    """
    if text.isascii() and "\0" not in text:
        return text
    if "\0" in text or text.startswith(_ESCAPED) or not _is_unicode(text):
        return _ESCAPED + json.dumps(text)
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Shape:
    """One dataclass as JSON: each field under its name, left out where it has its default.

    Writing and reading go through a stand-in that msgspec fills and walks at once; the class itself may have
    private fields, checks and slower ways to be made.
    """

    def __init__(self, kind: type, *without: str, **hints: Any) -> None:
        types = get_type_hints(kind) | hints
        wanted = [field for field in dataclasses.fields(kind) if field.init and field.name not in without]
        self.names = tuple(field.name for field in wanted)
        self.values: Callable[[Any], tuple[Any, ...]] = attrgetter(*self.names)
        self._make = msgspec.defstruct(
            f"Stored{kind.__name__}",
            [(field.name, types[field.name], None if field.name in hints else _default(field)) for field in wanted],
            omit_defaults=True,
        )
        self._decode: Callable[[str], Any] = msgspec.json.Decoder(self._make).decode

    def stand_in(self, value: Any) -> Any:
        """What is to be written of `value`; its fields may still be set."""
        return self._make(*self.values(value))

    def read(self, text: str) -> tuple[Any, ...]:
        """The values written in `text`, in the order of the fields."""
        return self.values(self._decode(text))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.NODEFAULT if field.default is dataclasses.MISSING else field.default


_ACTION = _Shape(Action)
_CANDIDATE = _Shape(Candidate)
_OPTION = _Shape(Option)
_STANDING = _Shape(Standing)
_ASK = _Shape(Ask)
_MOVING = _Shape(Request, "ask", candidate=Candidate | None)
_CANDIDATE_AT = _MOVING.names.index("candidate")
_GRANT = _Shape(Grant)
_RUN = _Shape(Run)
_SWITCH = _Shape(Switch)
_CREDENTIAL = _Shape(Credential)
_PROPOSAL = _Shape(PolicyProposal)
_encode = msgspec.json.Encoder().encode
_decode_ask = msgspec.json.Decoder(Ask).decode
_decode_args = msgspec.json.Decoder(dict[str, Any]).decode


def _written(stand_in: Any) -> str:
    try:
        return _encode(stand_in).decode()
    except UnicodeEncodeError:
        raise InvalidArguments("text contains half a surrogate pair; pass valid Unicode") from None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"a value cannot be written as JSON ({type(error).__name__}); pass plain data") from None


def _damaged(what: str, key: str, error: Exception) -> StoreError:
    return StoreError(
        f"the stored {what} {key} is damaged ({type(error).__name__}); stop, and restore the last good backup"
    )


def _candidate(candidate: Candidate) -> Any:
    """The candidate without its arguments, which `args_text` holds."""
    if candidate.args_text:
        try:
            _decode_args(candidate.args_text)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            raise InvalidArguments("the canonical arguments are not a JSON object; propose the action again") from None
    shown = _CANDIDATE.stand_in(candidate)
    shown.action = _ACTION.stand_in(candidate.action)
    shown.action.args = {}
    return shown


def _option(option: Option) -> Any:
    shown = _OPTION.stand_in(option)
    if option.candidate is not None:
        shown.candidate = _candidate(option.candidate)
    return shown


def _with_args(candidate: Candidate) -> Candidate:
    """The candidate with its arguments restored. Nobody else has seen this value yet, so it may still be filled."""
    text = candidate.args_text
    if text:
        object.__setattr__(candidate.action, "args", restore(text))
    return candidate


def ask_text(ask: Ask) -> str:
    """What never changes about a request, as JSON."""
    written = _ASK.stand_in(ask)
    written.candidate = _candidate(ask.candidate)
    written.standing = None if ask.standing is None else _STANDING.stand_in(ask.standing)
    if ask.options:
        written.options = [_option(option) for option in ask.options]
    return _written(written)


def ask_title(request: Request) -> str:
    """What a search for text looks at: the plain-English line, the action's name and the code, as words."""
    ask = request.ask
    return "" if request.purged else searchable(ask.id, ask.candidate.says, ask.candidate.action.name, ask.code)


def moving_text(request: Request) -> str:
    """What changes about a request, as JSON. The candidate is in it only where it is no longer as asked."""
    written = _MOVING.stand_in(request)
    candidate = request.candidate
    as_asked = candidate is request.ask.candidate or candidate == request.ask.candidate
    written.candidate = None if as_asked else _candidate(candidate)
    return _written(written)


def read_ask(text: str, key: str) -> Ask:
    """The `Ask` that `ask_text` wrote."""
    try:
        ask = _decode_ask(text)
        _with_args(ask.candidate)
        for option in ask.options:
            if option.candidate is not None:
                _with_args(option.candidate)
    except _DAMAGE as error:
        raise _damaged("request", key, error) from None
    return ask


def read_request(ask: Ask, text: str) -> Request:
    """The request whose moving part `moving_text` wrote."""
    try:
        values = list(_MOVING.read(text))
        changed = values[_CANDIDATE_AT]
        values[_CANDIDATE_AT] = ask.candidate if changed is None else _with_args(changed)
        return Request(ask, *values)
    except _DAMAGE as error:
        raise _damaged("request", ask.id, error) from None


def readable(found: Iterable[tuple[str, str, str]]) -> tuple[Request, ...]:
    """The requests of a list. One that cannot be read is left out and logged, so that it stands in nobody's way."""
    requests = []
    for ask, body, key in found:
        try:
            requests.append(read_request(read_ask(ask, key), body))
        except StoreError as damaged:
            log.error("%s", damaged)  # noqa: TRY400  the message says it all
    return tuple(requests)


def moving_columns(request: Request, when: When) -> Row:
    """The columns that an update writes."""
    candidate, ask, state = request.candidate, request.ask, request.state
    return {
        "workspace": ask.workspace,
        "id": ask.id,
        "version": request.version,
        "state": state.value,
        "urgency": _HIGHEST - candidate.assessment.risk.rank,
        "gate": candidate.verdict.gate.value,
        "action": column(candidate.action.name),
        "review": request.review.value,
        "word": column(request.word),
        "runnable": state in _FOR_WORKERS or (state is State.APPROVED and ask.executor is Executor.WORKER),
        "ended": state not in OPEN,
        "purged": request.purged,
        "due_at": when(request.due_at),
        "changed_at": when(request.changed_at),
        "callers": " ".join(request.callers) if _is_waited_for(request) else "",
        "body": moving_text(request),
    }


def _is_waited_for(request: Request) -> bool:
    """What becomes of it depends on whether the processes that it names still live."""
    return request.state in (State.PENDING, State.APPROVED) and request.abandoned_at is None


def unknown_callers(named: Iterable[Sequence[Any]], known: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    """Processes that requests name and of which nothing is known, of the rows of both."""
    return tuple(sorted({name for row in named for name in row[0].split()} - {row[0] for row in known}))


def step_of(ask: Ask) -> str:
    """What stands for the step of a request that names none: itself, or, outside of runs, what is asked for.

    So the same thing is not asked twice at once by the same agent for the same user.
    """
    if ask.run or not ask.same:
        return f"{_ESCAPED}{ask.id}"
    return f"{_ESCAPED}={hashlib.sha256(ask.same.encode(errors='replace')).hexdigest()}"


def asked_already(request: Request) -> Conflict:
    """Why a request cannot wait for a decision again: another one waits for exactly the same."""
    return Conflict(
        f"another request waits for exactly what {request.code} asks for; decide that one",
        request_id=request.id, code=request.code, state=str(request.state),
    )  # fmt: skip


def all_columns(request: Request, when: When) -> Row:
    """The columns that an insert writes, the ask's among them."""
    ask = request.ask
    row = moving_columns(request, when)
    row["kind"] = ask.kind.value
    row["agent"] = column(ask.agent)
    row["run"] = column(ask.run)
    row["step"] = column(ask.step) if ask.run and ask.step else step_of(ask)
    row["code"] = column(ask.code)
    row["executor"] = ask.executor.value
    row["title"] = ask_title(request)
    row["ask"] = ask_text(ask)
    try:
        _decode_ask(row["ask"])
    except msgspec.MsgspecError as error:
        # Once on record, it would be in everybody's way.
        raise InvalidArguments(f"it could not be read back once it is on record ({error}); pass plain data") from None
    return row


def grant_columns(grant: Grant, when: When) -> Row:
    """A grant as a row."""
    return {
        "workspace": grant.workspace,
        "id": grant.id,
        "version": grant.version,
        "expires_at": when(grant.expires_at),
        "revoked_at": when(grant.revoked_at),
        "used": grant.used,
        "spent": str(grant.spent),
        "body": _written(_GRANT.stand_in(grant)),
    }


def read_grant(text: str, key: str) -> Grant:
    """The grant that `grant_columns` wrote."""
    try:
        return Grant(**dict(zip(_GRANT.names, _GRANT.read(text), strict=True)))
    except _DAMAGE as error:
        raise _damaged("grant", key, error) from None


def run_columns(run: Run, when: When) -> Row:
    """A run as a row. Parked on nothing, it can be resumed at once; what it waits for may still say the same."""
    return {
        "workspace": run.workspace,
        "id": run.id,
        "code": column(run.code),
        "version": run.version,
        "state": run.state.value,
        "agent": column(run.agent),
        "host": column(run.host),
        "key": column(run.key),
        "parent": run.parent,
        "open": run.state.is_open,
        "wakeable": run.state is RunState.PARKED and not run.waits,
        "due_at": when(run.due_at),
        "changed_at": when(run.changed_at),
        "body": _written(_RUN.stand_in(run)),
    }


def read_run(text: str, key: str) -> Run:
    """The run that `run_columns` wrote."""
    try:
        return Run(*_RUN.read(text))
    except _DAMAGE as error:
        raise _damaged("run", key, error) from None


def switch_columns(switch: Switch) -> Row:
    """A switch as a row."""
    return {
        "workspace": switch.workspace,
        "agent": column(switch.agent),
        "version": switch.version,
        "body": _written(_SWITCH.stand_in(switch)),
    }


def read_switch(text: str, key: str) -> Switch:
    """The switch that `switch_columns` wrote."""
    try:
        return Switch(*_SWITCH.read(text))
    except _DAMAGE as error:
        raise _damaged("switch", key, error) from None


def credential_columns(credential: Credential, when: When) -> Row:
    """A credential as a row."""
    return {
        "workspace": credential.workspace,
        "kind": credential.kind.value,
        "id": column(credential.id),
        "holder": column(credential.holder),
        "version": credential.version,
        "expires_at": when(credential.expires_at),
        "body": _written(_CREDENTIAL.stand_in(credential)),
    }


def read_credential(text: str, key: str) -> Credential:
    """The credential that `credential_columns` wrote."""
    try:
        return Credential(*_CREDENTIAL.read(text))
    except _DAMAGE as error:
        raise _damaged("credential", key, error) from None


def stale_credential(credential: Credential) -> StaleRequest:
    """Somebody else made or changed it a moment ago."""
    return StaleRequest(
        f"the {credential.kind} of {credential.holder} was changed by somebody else just now; look again",
        request_id="", code="", state="",
    )  # fmt: skip


def proposal_write(proposal: PolicyProposal) -> tuple[str, Row]:
    """A policy that waits, or no longer does: the statement that writes it, and its row."""
    row = {
        "workspace": proposal.workspace,
        "code": column(proposal.code),
        "state": proposal.state.value,
        "body": _written(_PROPOSAL.stand_in(proposal)),
    }
    return "insert_proposal" if proposal.state is ProposalState.WAITING else "end_proposal", row


def read_proposal(text: str, key: str) -> PolicyProposal:
    """What `proposal_write` wrote."""
    try:
        return PolicyProposal(*_PROPOSAL.read(text))
    except _DAMAGE as error:
        raise _damaged("policy that was proposed", key, error) from None


def stale_proposal(proposal: PolicyProposal) -> StaleRequest:
    """It does not wait any more."""
    return StaleRequest(
        f"the change {proposal.code} of the policy was confirmed or rejected just now; look again",
        request_id="", code=proposal.code, state="",
    )  # fmt: skip


def since_id(at: datetime) -> str:
    """Below every id that was made at `at` or later: ids begin with their time."""
    stamp = f"{max(0, micros(at) // 1000):012x}"
    return f"{stamp[:8]}-{stamp[8:]}"


def entry_columns(entry: Entry, when: When) -> Row:
    """An entry as a row, with its leaf hash (RFC 6962)."""
    text = entry.text()
    return {
        "workspace": entry.workspace,
        "subject": column(entry.subject),
        "kind": column(entry.kind),
        "at": when(entry.at),
        "text": text,
        "leaf": hashlib.sha256(b"\0" + text.encode()).hexdigest(),
    }


def notice_key(kind: str, subject: str) -> str:
    """Under which key a watcher hears of an entry's subject."""
    head = kind.partition(".")[0]
    return f"{head}:{subject}" if head in ("policy", "grant", "run", "switch", "identity") else subject
