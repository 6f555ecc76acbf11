"""Tools that agents and MCP servers offer, from a terminal: list them, vouch for them, take that back."""

from typing import Annotated

import typer

from assentry.assemble import Desk
from assentry.cli.group import Group
from assentry.cli.plain import print_json
from assentry.cli.print import banner, inert, listing, say
from assentry.cli.session import AsJson, at_desk, operator
from assentry.core.text import counted
from assentry.core.vouching import OfferedTool, source_words
from assentry.telling.standing import tool_document, tool_reading

app = typer.Typer()
group = typer.Typer(cls=Group, help="Tools of agents and MCP servers: list, vouch, revoke.")
app.add_typer(group, name="tools")

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="As `assentry tools list` shows it: agent:billing.", show_default=False)
]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[TOOL]...", help="Names, or digests of definitions.", show_default=False)
]


@group.command("list")
def list_(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="[SOURCE]", help="Only of this source.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the tools that are offered, our reading of each, and what people said of it.

    Example: assentry tools list agent:billing
    """

    async def work(desk: Desk) -> None:
        found = await desk.rules.tools(source)
        if as_json:
            return print_json({"tools": [tool_document(each) for each in found]})
        banner(desk.judgement.policy)
        if not found:
            return say("no tools are listed")
        rows = [
            (
                inert(each.source),
                inert(each.name, "bold"),
                inert(str(each.state)),
                inert(tool_reading(each)[1]),
                inert(each.by),
                inert(each.digest[:12]),
            )
            for each in found
        ]
        return listing(("SOURCE", "TOOL", "STATE", "PROBABLY", "BY", "DIGEST"), rows, flexible=3, narrow=(4, 5))

    at_desk(ctx, work)


@group.command()
def vouch(ctx: typer.Context, source: Source, names: Names = None, as_json: AsJson = False) -> None:
    """Vouch for tools as they are defined now; without names, for all of the source that wait.

    Example: assentry tools vouch agent:billing get_invoice list_invoices
    """

    async def work(desk: Desk) -> None:
        person = operator(desk)
        made = await desk.rules.vouch(person, source, names or [])
        if as_json:
            return print_json({"tools": [tool_document(each) for each in made]})
        for each in made:
            say(f"  {each.name}: {tool_reading(each)[1]}")
        undo = f"take it back with `assentry tools revoke {source}`"
        return say(f"you vouch for {_those(made)} of {source_words(source)}; {undo}")

    at_desk(ctx, work)


@group.command()
def revoke(ctx: typer.Context, source: Source, names: Names = None, as_json: AsJson = False) -> None:
    """No longer vouch for tools; without names, for none of the source. From now on each call of them waits.

    Example: assentry tools revoke agent:billing
    """

    async def work(desk: Desk) -> None:
        person = operator(desk)
        made = await desk.rules.revoke(person, source, names or [])
        if as_json:
            return print_json({"tools": [tool_document(each) for each in made]})
        return say(f"nobody vouches for {_those(made)} of {source_words(source)} any more; each call of them waits")

    at_desk(ctx, work)


def _those(made: tuple[OfferedTool, ...]) -> str:
    return counted(len(made), "tool")
