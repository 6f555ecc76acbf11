"""What happened, read from the database, the mail server and the disk: for people, and as JSON."""

import json
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from typing import Any, Protocol

from assentry.assemble import Desk
from assentry.core.request import Kind, Request, State
from assentry.demo.card import plain
from assentry.demo.stage import Stage
from assentry.demo.world import STAGING, Postbox, World
from assentry.ports import RunFilter


@dataclass(frozen=True, slots=True)
class Line:
    """One request and how it ended."""

    code: str
    agent: str
    step: str
    asked: str
    ran: str
    """The action that ran, or nothing."""
    says: str
    gate: str
    risk: str
    state: str
    decided: str
    by: str
    reason: str
    undone_by: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole story. `ok` is the log's: intact, and every entry below a signed checkpoint."""

    ok: bool
    entries: int
    faults: list[str]
    reads: list[str]
    requests: list[Line]
    runs: list[dict[str, str]]
    mail: list[dict[str, str]]
    files_left: int
    files_staged: int
    ci_file: str
    deployed: str
    folder: str
    database: str
    workspace: str
    seconds_to_first_question: float | None

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2, ensure_ascii=False)


class Played(Protocol):
    """A performance, in whichever form."""

    seconds_to_first_question: float | None

    async def requests(self) -> list[Request]: ...


async def summed_up(play: Played, world: World, box: Postbox, desk: Desk) -> Summary:
    """The summary, after the audit log was sealed and verified as `assentry audit verify` does."""
    await desk.notary.seal()
    report = await desk.notary.verify()
    logged = await desk.store.entries(desk.settings.workspace, limit=1_000)
    entries: list[dict[str, Any]] = [json.loads(entry.text) for entry in logged]
    undone_by = {entry["subject"]: entry["actor"] for entry in entries if entry["kind"] == "undo.asked"}
    runs = await desk.store.runs(desk.settings.workspace, RunFilter(), limit=20)
    first = play.seconds_to_first_question
    return Summary(
        ok=report.ok,
        entries=report.size,
        faults=[fault.says for fault in report.faults],
        reads=[entry["body"]["action"] for entry in entries if entry["kind"] == "call.ran"],
        requests=[_line(request, undone_by.get(request.id, "")) for request in await play.requests()],
        runs=[{"agent": run.agent, "goal": run.goal, "state": str(run.state)} for run in runs],
        mail=[_received(message) for message in box.received],
        files_left=len(world.old_tests()),
        files_staged=len(world.old_tests(STAGING)),
        ci_file=world.ci_file.read_text(encoding="utf-8"),
        deployed=world.deployed,
        folder=str(world.folder),
        database=desk.store.address,
        workspace=desk.settings.workspace,
        seconds_to_first_question=None if first is None else round(first, 3),
    )


def _received(message: EmailMessage) -> dict[str, str]:
    heads = {"to": "X-Envelope-To", "subject": "Subject", "id": "Message-ID"}
    told = {name: str(message[head]).strip() for name, head in heads.items()}
    return told | {"body": message.get_content().replace("\r\n", "\n")}


_RAN = (State.DONE, State.UNDONE, State.UNDO_ASKED, State.UNDOING)


def _line(request: Request, undone_by: str) -> Line:
    ran = request.state in _RAN and request.ask.kind is Kind.ACTION
    return Line(
        code=request.code,
        agent=request.ask.agent,
        step=request.ask.step,
        asked=request.ask.candidate.action.name,
        ran=request.candidate.action.name if ran else "",
        says=request.candidate.says,
        gate=str(request.candidate.verdict.gate),
        risk=str(request.candidate.assessment.risk),
        state=str(request.state),
        decided=request.word,
        by=request.decided_by,
        reason=request.reason,
        undone_by=undone_by,
    )


def tell(stage: Stage, summary: Summary, *, kept: bool, command: str) -> None:
    """The summary is on the stage."""
    stage.heading("What happened")
    if summary.reads:
        _row(stage, "ran at once", ", ".join(summary.reads), "reads are never interrupted")
    for line in summary.requests:
        _row(stage, _outcome(line), line.says, _by(line))
    for message in summary.mail:
        _row(stage, "mail received", f"“{message['subject']}” by {message['to']}", "through SMTP on this machine")
    where = f"{summary.files_left} still there, {summary.files_staged} in {STAGING}"
    _row(stage, "old test files", where, f"deployed: {summary.deployed}")
    _tell_log(stage, summary)
    _tell_next(stage, summary, kept, command)


def _row(stage: Stage, head: str, what: str, more: str) -> None:
    stage.line(" ", "", head, what, more, indent=15)


def _outcome(line: Line) -> str:
    if line.state == "done":
        return "ran" if line.by else "ran, logged"
    words = {"denied": "did not run", "refused": "forbidden", "expired": "timed out", "undone": "ran, taken back"}
    return words.get(line.state, line.state)


def _by(line: Line) -> str:
    words = {"choose": "chosen", "deny": "denied", "approve": "approved", "modify": "changed", "answer": "answered",
             "revise": "sent back"}  # fmt: skip
    if line.decided == "policy":
        told = line.reason
    elif line.by:
        told = f"{words.get(line.decided, line.decided)} by {line.by}" + (f": {line.reason}" if line.reason else "")
    else:
        told = "nobody had to be asked"
    return f"{told}; taken back by {line.undone_by}" if line.undone_by else told


def _tell_log(stage: Stage, summary: Summary) -> None:
    if summary.ok:
        _row(stage, "audit log", f"{summary.entries} entries verified, nothing was altered", "assentry audit verify")
    else:
        stage.line("✗", "red", "audit log", plain("; ".join(summary.faults)))


def _tell_next(stage: Stage, summary: Summary, kept: bool, command: str) -> None:
    stage.heading("Next")
    if kept:
        stage.say(f"The folder is kept: cd {summary.folder} && {command} log", indent=3)
    else:
        stage.say(f"The folder {summary.folder} is removed now; --keep keeps it, database and all.", indent=3)
    stage.say("Guard a function of your own: README.md shows how. How this demo works: docs/demo.md.", indent=3)
