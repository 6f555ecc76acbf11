"""Changes of the policy that wait for a second person: list, confirm, reject."""

from typing import Annotated

import typer

from assentry.assemble import Desk
from assentry.cli.asking import agreed
from assentry.cli.plain import print_json
from assentry.cli.policy_words import tell_changes
from assentry.cli.print import inert, listing, say, warn
from assentry.cli.session import AsJson, at_desk, can_ask, operator
from assentry.core.action import Json
from assentry.core.policy_file import load_policy
from assentry.core.policy_proposal import PolicyProposal
from assentry.core.text import ago
from assentry.errors import ConfirmationNeeded
from assentry.telling.differing import line_changes
from assentry.telling.waiting_policies import WaitingPolicy, proposal_document, waiting_policy

Code = Annotated[str, typer.Argument(metavar="CODE", help="Its code, or the start of it.", show_default=False)]


def proposals(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the changes of the policy that wait for a second person, newest first.

    Example: assentry policy proposals
    """

    async def work(desk: Desk) -> None:
        person = operator(desk)
        found = [waiting_policy(desk.judgement.policy, each, person) for each in await desk.rules.proposals()]
        if as_json:
            return print_json({"proposals": [proposal_document(each) for each in found]})
        if not found:
            return say("no change of the policy waits for a second person")
        now = await desk.store.now()
        rows = [
            (
                inert(each.proposal.code, "bold"),
                inert(ago(now - each.proposal.at)),
                inert(each.proposal.by),
                inert("; ".join(each.changes) or "nothing that matters"),
                inert(each.why_not or f"assentry policy confirm {each.proposal.code}"),
            )
            for each in found
        ]
        return listing(("CODE", "PROPOSED", "BY", "WHAT IT CHANGES", "YOU"), rows, flexible=3, narrow=(2,))

    at_desk(ctx, work)


def confirm(
    ctx: typer.Context,
    code: Code,
    yes: Annotated[bool, typer.Option("--yes", help="Without asking: for scripts.")] = False,
    digest: Annotated[str, typer.Option(help="Only if this is its digest.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Make what another person proposed the active policy, after showing what that changes.

    Example: assentry policy confirm 7kq2m4xz
    """

    async def work(desk: Desk) -> None:
        person = operator(desk)
        proposal = await desk.rules.proposal(code)
        waiting = waiting_policy(desk.judgement.policy, proposal, person)
        seen = digest or proposal.digest
        if not as_json:
            await _tell(desk, waiting)
        # What cannot be confirmed is not asked about: the refusal says why.
        if not yes and not waiting.why_not:
            if not can_ask(as_json=as_json):
                raise ConfirmationNeeded(
                    f"review the change {proposal.code} with `assentry policy proposals`, and pass --yes to confirm it",
                    phrase="",
                )
            agreed("confirm", "From then on this holds for everybody.")
        applied = await desk.rules.confirm(person, proposal, seen)
        if as_json:
            return print_json({
                "version": applied.version, "applied": True, "code": proposal.code, "proposed_by": proposal.by,
                "confirmed_by": person.name, "changes": list(waiting.changes), "warnings": list(waiting.warnings),
            })  # fmt: skip
        return say(f"version {applied.version} is active now: proposed by {proposal.by}, confirmed by {person.name}")

    at_desk(ctx, work)


def reject(
    ctx: typer.Context,
    code: Code,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why.")] = "",
    as_json: AsJson = False,
) -> None:
    """End a change of the policy that waits, so that nobody can confirm it. Your own you withdraw.

    Example: assentry policy reject 7kq2m4xz --reason "not before the audit"
    """

    async def work(desk: Desk) -> None:
        person = operator(desk)
        ended = await desk.rules.reject(person, await desk.rules.proposal(code), reason)
        if as_json:
            document = proposal_document(waiting_policy(desk.judgement.policy, ended, person))
            return print_json({"proposal": document})
        return say(f"rejected: the change {ended.code} that {ended.by} proposed; nothing was changed")

    at_desk(ctx, work)


def tell_waiting(proposal: PolicyProposal) -> None:
    """Whoever wanted to apply it knows that it waits, and what the other person types."""
    say("NOTHING IS CHANGED YET: this policy wants a second person for every change of it")
    say(f"it waits as {proposal.code}; another person who may change the policy types:")
    say(f"  assentry policy confirm {proposal.code}")
    say(f"`assentry policy reject {proposal.code}` withdraws it")


def waiting_document(proposal: PolicyProposal) -> dict[str, Json]:
    """The same for scripts."""
    return {
        "code": proposal.code, "digest": proposal.digest, "based_on": proposal.based_on,
        "proposed_by": proposal.by, "proposed_at": proposal.at,
    }  # fmt: skip


async def _tell(desk: Desk, waiting: WaitingPolicy) -> None:
    proposal, active = waiting.proposal, await desk.store.policy(desk.settings.workspace)
    now = await desk.store.now()
    say(f"{proposal.code}: {proposal.by} proposed this {ago(now - proposal.at)} ({proposal.file})")
    if waiting.why_not:
        return warn(f"you cannot confirm it: {waiting.why_not}")
    new = load_policy(proposal.text, proposal.file)
    tell_changes(desk.judgement.policy, new, waiting.changes, waiting.warnings)
    say()
    lines = line_changes(active.text if active else "", proposal.text)
    for line in lines or proposal.text.splitlines():
        say(f"  {line}")
    return say(f"digest {proposal.digest}")
