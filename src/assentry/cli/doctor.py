"""What is configured and what is wrong with it, each finding with its remedy."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.text import Text

from assentry.assemble import Desk, desk, keys_for
from assentry.cli.outcome import FAILED
from assentry.cli.plain import print_json
from assentry.cli.print import banner, block, console, grid, inert, is_piped
from assentry.cli.session import AsJson, expect_database, settings_of
from assentry.cli.switches import release_words, switch_words
from assentry.cli.upkeep import versions
from assentry.core.authority import may_decide, resolve
from assentry.core.deciders import everybody_asked
from assentry.core.policy import Mode, Policy
from assentry.core.policy_file import stored_warnings
from assentry.core.request import State
from assentry.core.text import counted
from assentry.engine.os_user import os_user
from assentry.engine.policies import may_operate
from assentry.errors import AssentryError, NotAllowed, PolicyError
from assentry.ports import Filter
from assentry.settings import Settings
from assentry.system import HAS_MODES, others_can_read

app = typer.Typer(add_completion=False)

_CLOCK_SECONDS = 2.0
_MANY_UNSEALED = 10_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `ok`: True fine, False wrong, None worth knowing."""

    area: str
    says: str
    ok: bool | None = True
    remedy: str = ""


@dataclass(slots=True)
class Findings:
    """What was found so far."""

    found: list[Finding] = field(default_factory=list)

    def good(self, area: str, says: str) -> None:
        self.found.append(Finding(area, says))

    def note(self, area: str, says: str, remedy: str = "") -> None:
        self.found.append(Finding(area, says, None, remedy))

    def bad(self, area: str, says: str, remedy: str) -> None:
        self.found.append(Finding(area, says, False, remedy))

    @property
    def wrong(self) -> int:
        return sum(each.ok is False for each in self.found)


@app.command()
def doctor(ctx: typer.Context, as_json: AsJson = False) -> None:
    """What is configured, and what is wrong with it. Exit code 1 if something is.

    Example: assentry doctor --json
    """
    settings = settings_of(ctx)
    findings = Findings()
    findings.good("versions", ", ".join(f"{name} {number}" for name, number in versions().items()))
    _look_at_home(settings, findings)
    policy = asyncio.run(_look_at_database(settings, findings))
    if as_json:
        print_json({"ok": not findings.wrong, "findings": findings.found})
    else:
        if policy is not None:
            banner(policy)
        _print(findings)
    if findings.wrong:
        raise typer.Exit(FAILED)


def _print(findings: Findings) -> None:
    marks = {
        True: Text("ok", style="green"),
        None: Text("note", style="yellow"),
        False: Text("WRONG", style="bold red"),
    }
    rows = []
    for each in findings.found:
        says = inert(each.says)
        if each.remedy:
            says.append(" -> " if is_piped() else "\n-> ", style="bold").append_text(inert(each.remedy))
        rows.append((marks[each.ok], inert(each.area, "bold"), says))
    block(grid(rows, 3), console(table=True))
    block(Text(f"\n{findings.wrong} wrong" if findings.wrong else "\nnothing is wrong", style="bold"))


def _look_at_home(settings: Settings, findings: Findings) -> None:
    ring = keys_for(settings)
    directory = ring.directory
    if not HAS_MODES:
        findings.note(
            "home",
            "this system's access lists are not checked: whoever can write to the database can decide, and whoever can "
            "read the keys can sign",
            "keep both where only your user has access, such as your profile",
        )
    if not directory.exists():
        return findings.note("home", f"{directory} does not exist yet; keys are made there when first needed")
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return findings.bad("home", f"{directory} is not yours to use", "run as its owner, or set ASSENTRY_HOME")
    for path in filter(others_can_read, _private_files(directory)):
        findings.bad("home", f"others can read {path}", f"chmod go-rwx '{path}'")
    if not (directory / "keys" / "current").exists():
        return findings.note("home", f"{directory}: no signing key yet; one is made when the log is first sealed")
    try:
        ring.sign(b"doctor")
        findings.good("home", f"{directory}: key {ring.key_id} signs; back it up apart from the database")
    except AssentryError as problem:
        findings.bad("home", f"the signing key cannot be used: {problem}", "restore the directory from its backup")
    return None


def _private_files(directory: Path) -> Iterator[Path]:
    yield from (directory / name for name in ("keys", "checkpoints") if (directory / name).exists())
    keys = directory / "keys"
    if keys.exists():
        yield from (
            path for path in sorted(keys.iterdir()) if path.suffix in (".key", ".secret") or path.name == "fingerprint"
        )


async def _look_at_database(settings: Settings, findings: Findings) -> Policy | None:
    try:
        expect_database(settings)
        place = await desk(settings)
    except PolicyError as problem:
        findings.bad("policy", str(problem), "the active policy does not load; correct it, see docs/policy.md")
        return None
    except AssentryError as problem:
        findings.bad("database", str(problem), "see docs/terminal.md")
        return None
    looks: tuple[Callable[[Desk, Findings], Awaitable[None]], ...] = (
        _database, _clock, _policy, _switches, _people, _reviewers, _log, _unknown, _overdue,
    )  # fmt: skip
    try:
        for look in looks:
            try:
                await look(place, findings)
            except AssentryError as problem:
                findings.bad(look.__name__.strip("_"), str(problem), "put this right, then look again")
        return place.judgement.policy
    finally:
        await place.store.close()


async def _database(place: Desk, findings: Findings) -> None:
    settings, store = place.settings, place.store
    if settings.is_postgres:
        from assentry.stores.postgres.connect import SCHEMA

        where = f"PostgreSQL at {store.address}, schema {SCHEMA}"
    else:
        where = f"SQLite at {store.address}, {_size(Path(store.address)):,} bytes"
    findings.good(
        "database",
        f"{where}, workspace {settings.workspace}; migrated, its settings read back, "
        f"opened for writing; id {await store.identity()}",
    )
    if not settings.is_postgres:
        path = Path(store.address)
        if others_can_read(path):
            findings.bad("database", f"others can read or write {path}, and so decide", f"chmod go-rwx '{path}'")
    findings.note(
        "trust",
        "whoever can open the database is trusted: a gate opened on it is cooperative, and holds an honest agent, not "
        "a process that writes to the database itself",
        "let agents that you do not trust reach a server over HTTP, and keep the database's password from them: "
        "`assentry serve`, `assentry token give AGENT`",
    )


def _size(path: Path) -> int:
    beside = (path, path.with_name(path.name + "-wal"))
    return sum(each.stat().st_size for each in beside if each.exists())


async def _clock(place: Desk, findings: Findings) -> None:
    if not place.settings.is_postgres:
        return
    before = datetime.now(UTC)
    there = await place.store.now()
    off = (there - (before + (datetime.now(UTC) - before) / 2)).total_seconds()
    if abs(off) > _CLOCK_SECONDS:
        findings.bad("clock", f"the database's clock is {off:+.1f} s from this machine's", "set both by NTP")
    else:
        findings.good(
            "clock", f"the database's clock is {off:+.2f} s from this machine's; deadlines go by the database"
        )


async def _policy(place: Desk, findings: Findings) -> None:
    policy = place.judgement.policy
    stored = await place.store.policy(place.settings.workspace)
    if stored is None:
        findings.note("policy", "none was applied: the built-in one holds", "assentry policy apply FILE")
    else:
        when = f"{stored.applied_at:%Y-%m-%d %H:%M} UTC"
        findings.good("policy", f"version {stored.version}, applied by {stored.applied_by} at {when}")
    for warning in stored_warnings(stored.text, stored.version, await place.store.now()) if stored is not None else ():
        findings.note("policy", warning)
    if policy.mode is Mode.OBSERVE:
        findings.bad("policy", "OBSERVE MODE: nothing is held", "apply a policy with mode: enforce")


async def _switches(place: Desk, findings: Findings) -> None:
    for switch in place.judgement.switches:
        findings.note("stopped", switch_words(switch), release_words(switch))


async def _people(place: Desk, findings: Findings) -> None:
    policy, user = place.judgement.policy, os_user()
    if policy.people:
        findings.good("people", ", ".join(person.name for person in policy.people))
    else:
        findings.note("people", "none are listed: any local user can decide, also on what they asked for",
                      "list them under people: in the policy")  # fmt: skip
    person = resolve(policy, user)
    if person is None:
        findings.bad(
            "you", f"{user} is not one of the people in this policy, so may not decide", "add os_users: under people:"
        )
        return
    decides = may_decide(policy, person, (), agent="", asked_by="")
    known = person.name if person.name == user else f"{user} is {person.name}"
    findings.good("you", f"{known}; {'may not decide: ' + decides if decides else 'may decide'}")
    try:
        may_operate(policy, user)
        findings.good("you", "may change policy, grants and keys")
    except NotAllowed as problem:
        findings.note("you", str(problem))


async def _reviewers(place: Desk, findings: Findings) -> None:
    """Who can decide, by name: at this moment, for any agent and for those whose owner is known."""
    policy, now = place.judgement.policy, await place.store.now()
    if not policy.people:
        return
    coming = replace(policy, rotas=tuple(rota.since(now) for rota in policy.rotas))
    for asked in everybody_asked(policy):
        for agent in ("", *asked.agents):
            whose = f'rule "{asked.rule}"' if asked.rule else "where no rule matches"
            whose += f', agent "{agent}"' if agent else ""
            found = asked.of(policy, agent, now)
            if found.enough:
                findings.good("reviewers", f"{whose}: {found.says}")
            elif asked.of(coming, agent).enough:
                remedy = "requests wait until somebody is on duty; add reviewers, or turns to the rota"
                findings.note("reviewers", f"{whose}: nobody can approve at the moment: {found.problem}", remedy)
            else:
                remedy = "add reviewers or lower quorum in the policy file, then assentry policy apply FILE"
                findings.bad("reviewers", f"{whose}: nobody can ever approve: {found.problem}", remedy)


async def _log(place: Desk, findings: Findings) -> None:
    workspace = place.settings.workspace
    size = await place.store.sequence(workspace)
    stored = await place.store.checkpoints(workspace)
    kept, wrong = place.keys.kept(await place.store.identity(), workspace)
    sealed = max((signed.size for signed in (*stored, *kept)), default=0)
    for says in wrong:
        findings.bad("log", says, "assentry audit verify")
    if sealed > size:
        findings.bad("log", f"{sealed} entries were signed and {size} are there", "assentry audit verify")
    elif size - sealed > _MANY_UNSEALED:
        findings.bad("log", f"{size - sealed:,} of {counted(size, 'entry')} not sealed yet", "assentry audit seal")
    elif size > sealed:
        findings.note("log", f"{size - sealed:,} of {counted(size, 'entry')} not sealed yet", "assentry audit seal")
    else:
        findings.good("log", f"{counted(size, 'entry')}, all sealed")


async def _unknown(place: Desk, findings: Findings) -> None:
    page = await place.inbox.page(Filter(states=(State.UNKNOWN,)), limit=20)
    if page.requests:
        codes = ", ".join(request.code for request in page.requests[:5])
        more = "…" if len(page.requests) > 5 else ""
        findings.bad(
            "outcomes", f"unknown, waiting for somebody to look: {codes}{more}", "assentry reconcile ID done|failed"
        )
    else:
        findings.good("outcomes", "none is unknown")


async def _overdue(place: Desk, findings: Findings) -> None:
    late = await place.store.due(place.settings.workspace, limit=20)
    waiting = await place.inbox.page(limit=500)
    number = f"{len(waiting.requests)}{'+' if waiting.next else ''}"
    if late:
        codes = ", ".join(request.code for request in late[:5])
        findings.bad("deadlines", f"passed, and nothing moved them: {codes}{'…' if len(late) > 5 else ''}",
                     "run a worker: assentry worker")  # fmt: skip
    findings.good(
        "waiting", "1 request waits for a person" if number == "1" else f"{number} requests wait for a person"
    )
