"""Standing permissions from a terminal: list, give, revoke."""

from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from assentry.assemble import Desk
from assentry.cli.group import Group
from assentry.cli.plain import print_json
from assentry.cli.print import banner, inert, listing, say, warn
from assentry.cli.session import AsJson, at_desk, operator
from assentry.core.action import Risk
from assentry.core.grant import Grant, Terms
from assentry.core.policy_text import duration
from assentry.core.text import span
from assentry.errors import InvalidArguments, NotFound
from assentry.telling.standing import grant_bounds, grant_document, grant_use, grant_what

app = typer.Typer()
group = typer.Typer(cls=Group, help="Standing permissions: list, give, revoke.")
app.add_typer(group, name="grants")


@group.command("list")
def list_(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List standing permissions, newest first.

    Example: assentry grants list --all
    """

    async def work(desk: Desk) -> None:
        found = await desk.store.grants(desk.settings.workspace, live_only=not every)
        if as_json:
            return print_json({"grants": [grant_document(grant) for grant in found]})
        banner(desk.judgement.policy)
        if not found:
            return say("there are no standing permissions")
        now = await desk.store.now()
        rows = [
            (
                inert(_short(grant, found), "bold"),
                inert(grant_what(grant)),
                inert(grant_use(grant)),
                inert("revoked" if grant.revoked_at else _left(grant.expires_at - now)),
                inert(grant.granted_by),
            )
            for grant in found
        ]
        return listing(("GRANT", "WHAT", "USED", "ENDS", "BY"), rows, flexible=1, narrow=(2, 4))

    at_desk(ctx, work)


@group.command()
def give(
    ctx: typer.Context,
    actions: Annotated[list[str], typer.Argument(metavar="ACTION...", help="Names or patterns.", show_default=False)],
    life: Annotated[str, typer.Option("--for", help="How long it holds: 30m, 8h, 2d.", show_default=False)],
    agent: Annotated[list[str] | None, typer.Option(help="Only for this agent; may be repeated.")] = None,
    when: Annotated[str, typer.Option(help="A condition that each use must meet.", metavar="CONDITION")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="How often it may be used.")] = None,
    budget: Annotated[
        str,
        typer.Option(
            help="How much it may spend in all; unsaid: it covers nothing that spends money.", metavar="AMOUNT"
        ),
    ] = "",
    currency: Annotated[str, typer.Option(help="Of the budget; unsaid: amounts that name none.", metavar="EUR")] = "",
    max_risk: Annotated[Risk, typer.Option(help="The highest risk it lifts.")] = Risk.DANGEROUS,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why.")] = "",
    as_json: AsJson = False,
) -> None:
    """Allow something in advance: scoped, counted, budgeted, expiring.

    Example: assentry grants give 'delete_*' --for 2h --agent cleanup --when 'facts.count < 50' --limit 10
    """
    sum_ = _amount(budget)
    terms = Terms(
        tuple(actions), duration(life, "--for"), agents=tuple(agent or ("*",)), condition=when, limit=limit,
        budget=sum_, currency=currency.upper(), max_risk=max_risk, reason=reason,
    )  # fmt: skip

    async def work(desk: Desk) -> None:
        person = operator(desk)
        grant = await desk.rules.give(person, terms)
        if as_json:
            return print_json({"grant": grant_document(grant)})
        if not when and limit is None and sum_ is None and any("*" in name for name in actions):
            warn("this is broad: without --when or --limit it covers every call of these names that spends no money")
        if grant.budget is not None and not grant.currency:
            warn(
                "this budget is for amounts that name no currency, and covers none in EUR or any other; say --currency"
            )
        until = f"{grant.expires_at:%Y-%m-%d %H:%M} UTC"
        return say(f"granted until {until}: {grant_what(grant)}; {grant_bounds(grant)}; take it back with "
                         f"`assentry grants revoke {grant.id}`")  # fmt: skip

    at_desk(ctx, work)


@group.command()
def revoke(
    ctx: typer.Context,
    grant_id: Annotated[str, typer.Argument(metavar="GRANT", help="Its id, or the start of it.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """End a standing permission now.

    Example: assentry grants revoke 0198f2
    """

    async def work(desk: Desk) -> None:
        person = operator(desk)
        grant = await _find(desk, grant_id.strip().lower())
        if grant.revoked_at is None:
            grant = await desk.rules.take_back(person, grant)
        if as_json:
            return print_json({"grant": grant_document(grant)})
        return say(f"revoked: {grant_what(grant)}")

    at_desk(ctx, work)


async def _find(desk: Desk, prefix: str) -> Grant:
    grants = await desk.store.grants(desk.settings.workspace, live_only=False)
    found = [grant for grant in grants if grant.id.startswith(prefix)] if prefix else []
    if not found:
        raise NotFound(f"no grant begins with {prefix!r}; `assentry grants list --all` lists them")
    if len(found) > 1:
        names = ", ".join(_short(grant, grants) for grant in found[:5])
        raise NotFound(f"{prefix!r} fits several grants ({names}{'…' if len(found) > 5 else ''}); type more of it")
    return found[0]


def _short(grant: Grant, others: tuple[Grant, ...]) -> str:
    """As much of the id as tells it from the others; ids made at nearly the same time differ late."""
    ids = [other.id for other in others]
    lengths = range(8, len(grant.id))
    return next((grant.id[:n] for n in lengths if sum(one.startswith(grant.id[:n]) for one in ids) == 1), grant.id)


def _left(left: timedelta) -> str:
    return f"in {span(left)}" if left > timedelta(0) else "expired"


def _amount(text: str) -> Decimal | None:
    if not text:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise InvalidArguments("--budget is a number, such as 250 or 99.50")
    return amount
