"""Every error that Assentry raises on purpose: one root, names for situations, messages that say what to do next.

Messages never contain a payload value; ids travel as attributes.
"""

from datetime import datetime


class AssentryError(Exception):
    """The root of all of them."""


class Parked(BaseException):
    """The action waits for a person; the caller should stop here and come back.

    A `BaseException`, so that an `except Exception` in an agent loop cannot swallow the pause.
    """

    def __init__(self, request_id: str, code: str, says: str = "") -> None:
        self.request_id, self.code, self.says = request_id, code, says
        super().__init__(
            f"request {code} waits for a person; stop here, and call again with the same key "
            f"or `gate.resume({request_id!r})` once it is decided"
        )


class Denied(AssentryError):
    """A person said no, or nobody answered in time. `reason` and `next_step` are for the agent.

    With `stop`, the person ended the whole run and not just this step.
    """

    def __init__(
        self,
        message: str,
        *,
        request_id: str,
        code: str,
        reason: str,
        next_step: str,
        state: str,
        stop: bool = False,
        by: str = "",
    ) -> None:
        self.request_id, self.code, self.reason, self.next_step, self.state = request_id, code, reason, next_step, state
        self.stop, self.by = stop, by
        super().__init__(message)


class RunStopped(BaseException):
    """A person stopped or paused the run, its agent, or everything. Put down what is in hand and end.

    A `BaseException`, so that an `except Exception` in an agent loop cannot go on regardless.
    """

    def __init__(self, code: str, by: str, reason: str = "", *, says: str = "") -> None:
        self.code, self.by, self.reason = code, by, reason
        plain = f"run {code} was stopped by {by or 'a person'}{f': {reason}' if reason else ''}"
        self.says = says or plain
        super().__init__(f"{self.says}; end here")


class RunPaused(RunStopped):
    """A person has paused it, and it may go on once they say so. A server says so to agents that call it."""

    state = "paused"


class Interrupt(BaseException):
    """Raised by an agent inside a hosted run that wants a person: it ends here, and its host resumes it.

    `state` is what `resume(state, resumption)` gets back; JSON. `options` are labels the person may choose from.
    """

    def __init__(
        self,
        reason: str,
        *,
        planned_action: str = "",
        impact: str = "",
        options: tuple[str, ...] | list[str] = (),
        state: object = None,
    ) -> None:
        self.reason, self.planned_action, self.impact = reason, planned_action, impact
        self.options, self.state = tuple(options), state
        super().__init__(reason)


class Refused(Denied):
    """Policy forbids the action; nobody was asked."""


class Limited(Refused):
    """The agent asks too much of people. Nothing was put on record; ask less, or later."""

    def __init__(self, agent: str, reason: str) -> None:
        next_step = "Stop proposing; go on with what needs nobody, or end and try again when people have caught up."
        super().__init__(
            f"{agent} is turned away: {reason}. {next_step}",
            request_id="", code="", reason=reason, next_step=next_step, state="limited",
        )  # fmt: skip


class SentBack(Denied):
    """A person sent the draft back with instructions (in `reason`): revise it and propose again."""


class ActionFailed(AssentryError):
    """The action was allowed and ran, and ended in an error (for calls that ran elsewhere)."""

    def __init__(self, message: str, *, request_id: str, code: str, error: str) -> None:
        self.request_id, self.code, self.error = request_id, code, error
        super().__init__(message)


class OutcomeUnknown(AssentryError):
    """The process that ran the action vanished between intent and result; it is not retried blindly."""

    def __init__(self, request_id: str, code: str) -> None:
        self.request_id, self.code = request_id, code
        super().__init__(
            f"the outcome of request {code} is unknown: it was started and its result was never recorded; "
            f"look at the outside world, then `assentry reconcile {code} done|failed`"
        )


class Conflict(AssentryError):
    """Somebody or something was faster. The message says who, what and when."""

    def __init__(self, message: str, *, request_id: str, code: str, state: str) -> None:
        self.request_id, self.code, self.state = request_id, code, state
        super().__init__(message)


class AlreadyDecided(Conflict):
    """The first decision won; this one came later."""

    def __init__(self, message: str, *, request_id: str, code: str, state: str, by: str, at: datetime | None) -> None:
        self.by, self.at = by, at
        super().__init__(message, request_id=request_id, code=code, state=state)


class CallerGone(Conflict):
    """Nobody is waiting for the request any more, so there is nothing to approve; it can be dismissed."""


class StaleRequest(Conflict):
    """The request changed since it was read; look at it again before deciding."""


class PolicyMoved(AssentryError):
    """Another policy is active than the one by which this was judged; nothing was written, and it is judged again."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"another policy is active than version {version}; judge it again")


class DuplicateStep(Conflict):
    """This step of this run has a request already; `request_id` is its id."""


class LeaseLost(Conflict):
    """The execution's lease ended or was taken over; a late result is kept as evidence only."""


class PermitMismatch(Conflict):
    """What is about to run is not what was permitted."""


class NotAllowed(AssentryError):
    """This principal may not do this. The message says why and who may."""

    def __init__(self, message: str, *, principal: str) -> None:
        self.principal = principal
        super().__init__(message)


class ConfirmationNeeded(AssentryError):
    """A critical action wants its target typed. `phrase` is what to type."""

    def __init__(self, message: str, *, phrase: str) -> None:
        self.phrase = phrase
        super().__init__(message)


class InvalidDecision(AssentryError):
    """The decision does not fit the request (no such option, arguments that break the schema, an empty reason)."""


class InvalidArguments(AssentryError):
    """Arguments that cannot be carried, judged and shown faithfully (NaN, too deep, too large, not JSON)."""


class GrantSpent(AssentryError):
    """A grant that cannot be used: revoked, expired, or used up. Propose the action itself instead."""

    def __init__(self, message: str, *, grant_id: str) -> None:
        self.grant_id = grant_id
        super().__init__(message)


class PolicyError(AssentryError):
    """A policy that must not be loaded. The message names file, line, rule and remedy.

    `complaints` holds every one of them, a line each; `line` and `rule` are those of the first.
    """

    def __init__(
        self, message: str, *, file: str = "", line: int = 0, rule: str = "", complaints: tuple[str, ...] = ()
    ) -> None:
        self.file, self.line, self.rule, self.complaints = file, line, rule, complaints or (message,)
        super().__init__(message)


class NotFound(AssentryError):
    """No such request, grant or entry; or an abbreviated id that fits several."""


class GuardError(AssentryError):
    """A guard that cannot work as written (unsupported signature, unknown template field, two of one name)."""


class StoreError(AssentryError):
    """The database cannot be used as it is. The message says what to do."""


class StoreMissing(StoreError):
    """There is no database yet; it appears when an agent opens a gate."""


class StoreElsewhere(StoreError):
    """The terminal works on a server, and this needs the database or the keys themselves."""

    def __init__(self) -> None:
        super().__init__(
            "this is done where the database is: run it on the server's machine, or name a database with --database"
        )


class StoreBusy(StoreError):
    """Another process holds the database for longer than it should."""


class StoreFull(StoreError):
    """No space is left; nothing was changed."""


class Unreachable(StoreError):
    """The server did not answer for as long as it was tried. Nothing is known to have been changed; try again later."""


class NewerDatabase(StoreError):
    """The database was written by a newer version of Assentry."""


class KeyProblem(AssentryError):
    """A key is missing, unreadable or not the one that was used."""


class TamperFound(AssentryError):
    """The audit log is not what was signed. The message names the entry or the interval."""


class SettingsError(AssentryError):
    """A setting that cannot be used. The message names it and its remedy."""


class MissingExtra(SettingsError, ImportError):
    """Something needs packages that are not installed. The message names the extra that brings them."""

    def __init__(self, extra: str, what: str, missing: ImportError) -> None:
        self.extra = extra
        super().__init__(f"{what} needs the {extra} extra: pip install 'assentry[{extra}]'")
        self.name, self.path = missing.name, missing.path
