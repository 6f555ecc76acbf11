"""The policy from a terminal: check, apply, show, explain, history. What waits for somebody is in `proposing`."""

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer
import yaml

from assentry.assemble import Desk, read_policy, store_for
from assentry.cli import judging, proposing
from assentry.cli.asking import agreed
from assentry.cli.group import Group
from assentry.cli.outcome import FAILED
from assentry.cli.plain import print_json
from assentry.cli.policy_words import summary, tell_changes
from assentry.cli.print import banner, console, inert, listing, say, warn
from assentry.cli.session import AsJson, at_desk, can_ask, operator, settings_of
from assentry.cli.typed_json import mapping
from assentry.core.action import Json, Reach, Risk
from assentry.core.policy import Policy, builtin_policy
from assentry.core.policy_file import load_policy, stored_policy, to_document
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.text import ago, visible
from assentry.engine.describing import declaration
from assentry.engine.judgement import Judgement
from assentry.engine.os_user import os_user
from assentry.errors import ConfirmationNeeded, NotFound
from assentry.ports import StoredPolicy
from assentry.telling.differing import changes, lockout
from assentry.telling.explaining import Call, explained

app = typer.Typer()
group = typer.Typer(cls=Group, help="Check, apply, show and explain the policy.")
app.add_typer(group, name="policy")

for command in (proposing.proposals, proposing.confirm, proposing.reject):
    group.command()(command)

File = Annotated[str, typer.Argument(metavar="FILE", help="A policy file (YAML or JSON).", show_default=False)]


@group.command()
def check(
    file: File,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List everything that is wrong with a policy file, each with its line. Warnings fail only with --strict.

    Example: assentry policy check assentry.yaml
    """
    policy = load_policy(read_policy(file), file, now=datetime.now(UTC))
    ok = not (strict and policy.warnings)
    if as_json:
        print_json({"ok": ok, "file": file, "warnings": list(policy.warnings), "document": to_document(policy)})
    else:
        for warning in policy.warnings:
            warn(warning)
        say(f"{file}: {'OK' if ok else 'not OK, because of the warnings'} ({summary(policy)})")
    if not ok:
        raise typer.Exit(FAILED)


@group.command()
def apply(
    ctx: typer.Context,
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Also where you could not change it back: for scripts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a file the active policy, after saying what that changes. Where it says so, a second person confirms it.

    Example: assentry policy apply assentry.yaml
    """
    text = read_policy(file)
    new = load_policy(text, file, now=datetime.now(UTC))

    async def work(desk: Desk) -> None:
        old = desk.judgement.policy
        active = await desk.store.policy(desk.settings.workspace)
        person = operator(desk)
        is_same = active is not None and active.text == text
        found = changes(to_document(old), to_document(new))
        shut_out = lockout(new, "" if desk.logged_in else os_user(), person)
        warnings = (*new.warnings, *shut_out)
        if not as_json:
            tell_changes(old, new, found, warnings)
        version = active.version if active else 0
        made = None
        if not is_same and not dry_run:
            if shut_out and not yes:
                if not can_ask(as_json=as_json):
                    raise ConfirmationNeeded(f"{shut_out[0]}; pass --yes if that is meant", phrase="")
                agreed("apply", "You could not change it back yourself.")
            # What was shown is what is changed, or nothing: another version in between is said instead.
            made = await desk.rules.apply(person, text, file, based_on=old.version, lock_me_out=bool(shut_out))
        waits = made if isinstance(made, PolicyProposal) else None
        version = made.version if isinstance(made, StoredPolicy) else version
        if as_json:
            return print_json({
                "version": version, "applied": isinstance(made, StoredPolicy), "mode": str(new.mode),
                "changes": list(found), "warnings": list(warnings),
                "proposal": proposing.waiting_document(waits) if waits else None,
            })  # fmt: skip
        if waits:
            return proposing.tell_waiting(waits)
        if is_same:
            return say(f"version {version} is this text already; nothing was changed")
        return say("nothing was changed (--dry-run)" if dry_run else f"version {version} is active now")

    at_desk(ctx, work, create=not dry_run)


@group.command()
def show(
    ctx: typer.Context,
    version: Annotated[int | None, typer.Option(help="Another version than the active one.", metavar="N")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the active policy, or an earlier version of it.

    Example: assentry policy show > assentry.yaml
    """

    async def work(desk: Desk) -> None:
        found = await _version(desk, version)
        text = found.text if found else yaml.safe_dump(_effective(builtin_policy()), sort_keys=False)
        if as_json:
            document = to_document(stored_policy(found.text, found.version) if found else builtin_policy())
            who: dict[str, Json] = {"applied_by": found.applied_by, "applied_at": found.applied_at} if found else {}
            return print_json({"version": found.version if found else 0, **who, "text": text, "document": document})
        banner(desk.judgement.policy)
        now = await desk.store.now()
        about = (
            f"version {found.version}, applied by {found.applied_by} {ago(now - found.applied_at)}"
            if found
            else "no policy was applied: the built-in one is active"
        )
        console(errors=True).print(inert(f"# {about}", "dim"), soft_wrap=True)
        # A file gets it as it is; a terminal gets nothing that it would obey.
        print(visible(text) if sys.stdout.isatty() else text, end="" if text.endswith("\n") else "\n")
        return None

    at_desk(ctx, work)


@group.command()
def explain(
    ctx: typer.Context,
    action: Annotated[str, typer.Option(help="The action's name.", show_default=False)],
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="A policy file; without it, the active policy.")] = "",
    args: Annotated[str, typer.Option(help="Its arguments.", metavar="JSON")] = "{}",
    agent: Annotated[str, typer.Option(help="The agent that asks.")] = "agent",
    confidence: Annotated[float | None, typer.Option(help="How sure the agent says it is.", min=0, max=1)] = None,
    cost: Annotated[float | None, typer.Option(help="What the agent says it costs.")] = None,
    reversible: Annotated[bool | None, typer.Option("--reversible/--irreversible", help="As declared in code.")] = None,
    reach: Annotated[Reach | None, typer.Option(help="As declared in code.")] = None,
    outside: Annotated[bool | None, typer.Option("--outside/--inside", help="As declared in code.")] = None,
    money: Annotated[bool | None, typer.Option("--money/--free", help="As declared in code.")] = None,
    risk: Annotated[Risk | None, typer.Option(help="As declared in code.")] = None,
    untrusted: Annotated[bool, typer.Option("--untrusted", help="Nobody vouches for the tool's source.")] = False,
    as_json: AsJson = False,
) -> None:
    """Explain what the policy does with a call: which rule, why, and what else would have matched.

    Example: assentry policy explain assentry.yaml --action delete_files --args '{"files": ["a", "b"]}'
    """
    declared = declaration(reversible, reach, outside, money, risk)
    call = Call(action, mapping(args, "--args"), agent, confidence, cost, not untrusted, declared)
    if file:
        settings = settings_of(ctx)
        alone = Judgement(store_for(settings), settings.workspace, load_policy(read_policy(file), file))
        return judging.tell(explained(alone, call, datetime.now(UTC)), file, as_json=as_json)

    async def work(desk: Desk) -> None:
        policy = desk.judgement.policy
        found = explained(desk.judgement, call, await desk.store.now())
        if not as_json:
            banner(policy)
        name = f"policy version {policy.version}" if policy.version else "the built-in policy"
        judging.tell(found, name, as_json=as_json)

    return at_desk(ctx, work)


@group.command()
def history(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many versions.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the versions of the policy, newest first, with what each changed.

    Example: assentry policy history
    """

    async def work(desk: Desk) -> None:
        found = await desk.store.policies(desk.settings.workspace, limit + 1)
        lines = [(each, _changed(each, found[place + 1 : place + 2])) for place, each in enumerate(found[:limit])]
        if as_json:
            return print_json({"versions": [
                {"version": each.version, "applied_by": each.applied_by, "applied_at": each.applied_at,
                 "changes": list(changed)}
                for each, changed in lines
            ]})  # fmt: skip
        if not lines:
            return say("no policy was applied yet; the built-in one is active")
        now = await desk.store.now()
        rows = [
            (inert(each.version), inert(ago(now - each.applied_at)), inert(each.applied_by),
             inert("; ".join(changed) or "nothing that matters"))
            for each, changed in lines
        ]  # fmt: skip
        return listing(("VERSION", "APPLIED", "BY", "WHAT CHANGED"), rows, flexible=3, narrow=(2,))

    at_desk(ctx, work)


def _effective(policy: Policy) -> dict[str, Json]:
    """The defaults written out, since a document of what differs from them would be empty."""
    levels = ("safe", "risky", "dangerous", "critical")
    return {"autonomy": policy.autonomy, "defaults": {name: str(getattr(policy.defaults, name)) for name in levels}}


def _changed(each: StoredPolicy, before: tuple[StoredPolicy, ...]) -> tuple[str, ...]:
    earlier = stored_policy(before[0].text, before[0].version) if before else builtin_policy()
    return changes(to_document(earlier), to_document(stored_policy(each.text, each.version)))


async def _version(desk: Desk, version: int | None) -> StoredPolicy | None:
    workspace = desk.settings.workspace
    if version is None:
        return await desk.store.policy(workspace)
    newest = await desk.store.policy(workspace)
    wanted = newest.version - version + 1 if newest else 0
    found = await desk.store.policies(workspace, max(1, wanted))
    match = next((each for each in found if each.version == version), None)
    if match is None:
        raise NotFound(f"there is no version {version} of the policy; `assentry policy history` lists them")
    return match
