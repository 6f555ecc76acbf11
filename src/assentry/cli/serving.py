"""The server as a command, and the ways in: one-time links, passwords, agents' tokens."""

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from assentry.assemble import Desk, keys_for
from assentry.cli.group import Group
from assentry.cli.outcome import tell
from assentry.cli.plain import print_json
from assentry.cli.print import inert, listing, say, warn
from assentry.cli.session import AsJson, at_desk, operator, settings_of
from assentry.core.credential import CredentialKind
from assentry.core.policy_text import duration
from assentry.core.text import ago
from assentry.engine.identity import Identities, person_in
from assentry.errors import NotAllowed, NotFound
from assentry.extras import needs
from assentry.server.whereabouts import known
from assentry.settings import Settings
from assentry.system import told_to_stop

if TYPE_CHECKING:
    from assentry.server.serving import Address

app = typer.Typer()
tokens = typer.Typer(cls=Group, help="Tokens with which agents propose over HTTP: give, list, end.")
app.add_typer(tokens, name="token")

_URL = "http://127.0.0.1:8750"


@app.command()
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8750,
    url: Annotated[str, typer.Option(help="How people reach it, behind a proxy: https://…")] = "",
    browser: Annotated[bool, typer.Option(help="Open the inbox in a browser.")] = True,
    work: Annotated[bool, typer.Option(help="Look after deadlines and parked runs in this process too.")] = True,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line for every call, without payloads.")] = False,
) -> None:
    """Serve the inbox and the API: on SQLite one process, on PostgreSQL any number of them.

    Example: assentry serve --port 8750
    """
    settings = settings_of(ctx)
    with needs("server", "assentry serve"):
        from assentry.server.serving import Address, log_to

    if verbose:
        log_to(sys.stderr)
    asyncio.run(_serve(settings, Address(host, port, url), browser=browser, work=work))


async def _serve(settings: Settings, address: "Address", *, browser: bool, work: bool) -> None:
    from assentry.server.desktop import show
    from assentry.server.serving import standing

    stop = asyncio.Event()
    with told_to_stop(stop.set):
        async with standing(settings, address, works=work) as server:
            link = await server.link()
            tell(f"the inbox is at {server.url}, on {server.premises.store.address}")
            if link:
                tell(f"sign-in link (one use, valid 10 minutes): {link}")
            else:
                tell(f"people sign in at {server.url}/login; assentry link NAME makes a link that works once")
            tell("agents connect with a token: assentry token give AGENT; Ctrl-C ends the server in order")
            if browser and sys.stderr.isatty():
                show(link or server.url)
            await stop.wait()
            tell("no new calls are taken; what was begun ends first")


@app.command()
def login(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the server is.", show_default=False)],
    link_: Annotated[
        str, typer.Argument(metavar="[LINK]", help="A one-time link, from the settings page or `assentry link`.")
    ] = "",
    name: Annotated[str, typer.Option("--name", "-n", help="Log in with a password instead.")] = "",
    as_json: AsJson = False,
) -> None:
    """Let this terminal work on a server: afterwards every command takes --server URL, or ASSENTRY_SERVER.

    Example: assentry login https://assentry.example.com --name alice
    """
    from assentry.remote.session import Session

    typed = link_.rpartition("link=")[2]
    secret = ""
    if not typed and not name:
        typed = typer.prompt("The one-time link (Settings, Connect a terminal)", hide_input=True).rpartition("link=")[2]
    if name:
        secret = typer.prompt("Password", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    proof = {"name": name, "password": secret} if name else {"link": typed.strip()}

    async def work() -> tuple[str, str]:
        line = Session(url, "")
        began = await line.post("/api/v1/sessions", proof)
        await line.close()
        line = Session(url, began["session"])
        me = await line.get("/api/v1/me")
        await line.close()
        return str(began["session"]), str(me["name"])

    session, person = asyncio.run(work())
    keys_for(settings_of(ctx)).keep_login(url, session)
    if as_json:
        return print_json({"server": url.rstrip("/"), "person": person})
    return say(
        f"you are {person} at {url.rstrip('/')}; use it with --server or `export ASSENTRY_SERVER={url.rstrip('/')}`"
    )


@app.command()
def logout(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the server is.", show_default=False)],
) -> None:
    """End this terminal's session with a server, there and here.

    Example: assentry logout https://assentry.example.com
    """
    from assentry.remote.session import Session

    keys = keys_for(settings_of(ctx))
    known = keys.login(url)

    async def work(session: str) -> None:
        line = Session(url, session)
        try:
            await line.post("/api/v1/sessions/end", {})
        finally:
            await line.close()

    if known is not None:
        with suppress(NotAllowed):  # it had ended already
            asyncio.run(work(known["session"]))
        keys.keep_login(url, "")
    say(f"this terminal is logged out of {url.rstrip('/')}" if known else f"nobody is logged in to {url.rstrip('/')}")


@app.command()
def link(
    ctx: typer.Context,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="As the policy names them.")] = "",
    url: Annotated[
        str, typer.Option(envvar="ASSENTRY_URL", help="Where people reach the server; else where it runs here.")
    ] = "",
    life: Annotated[str, typer.Option(help="How long it works.")] = "10m",
    as_json: AsJson = False,
) -> None:
    """Make a link that lets somebody into the inbox, once.

    Example: assentry link alice
    """

    async def work(desk: Desk) -> None:
        by = desk.person()
        name = person or by.name
        if name != by.name:
            operator(desk)
        if person_in(desk.judgement.policy, name) is None:
            raise NotFound(f"{name} is not among the people of the policy; an operator can add them under people:")
        secret = await Identities(desk.store, desk.settings.workspace).link(by, name, duration(life, "--life"))
        where = url or known(desk.keys.directory, await desk.store.identity())
        if not where:
            where = _URL
            warn(f"found no running server of this database here; the link assumes {_URL}, and --url names another")
        made = f"{where.rstrip('/')}/enter?link={secret}"
        print_json({"person": name, "link": made}) if as_json else print(made)

    at_desk(ctx, work)


@app.command()
def password(
    ctx: typer.Context,
    person: Annotated[str, typer.Argument(metavar="PERSON", help="As the policy names them.")] = "",
) -> None:
    """Set somebody's password for the inbox; it is asked for, or read from standard input.

    Example: assentry password alice
    """
    settings_of(ctx)  # where this cannot be done, that is said before anybody types
    with needs("server", "assentry password"):
        import argon2  # noqa: F401  before anybody types
    typed = typer.prompt("Password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else ""
    typed = typed or sys.stdin.readline().rstrip("\n")

    async def work(desk: Desk) -> None:
        by = desk.person()
        name = person or by.name
        if name != by.name:
            operator(desk)
        if person_in(desk.judgement.policy, name) is None:
            raise NotFound(f"{name} is not among the people of the policy; an operator can add them under people:")
        await Identities(desk.store, desk.settings.workspace).set_password(by, name, typed)
        say(f"{name} logs in with this password now; whoever was logged in as {name} no longer is")

    at_desk(ctx, work)


@tokens.command("give")
def give(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The name under which it proposes.")],
    life: Annotated[str, typer.Option(help="How long it works; empty: until it is ended.")] = "",
    note: Annotated[str, typer.Option(help="For whoever looks at the list.")] = "",
    as_json: AsJson = False,
) -> None:
    """Give an agent a token; it is shown once. With it the agent proposes and reads its own requests, no more.

    Example: assentry token give cleanup --life 30d
    """

    async def work(desk: Desk) -> None:
        by = operator(desk)
        lasts: timedelta | None = duration(life, "--life") if life else None
        made, secret = await Identities(desk.store, desk.settings.workspace).give_token(
            by, agent, life=lasts, note=note
        )
        print_json({"agent": agent, "id": made.id[:12], "token": secret}) if as_json else print(secret)

    at_desk(ctx, work, create=True)


@tokens.command("list")
def list_tokens(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List agents' tokens, without what is secret of them.

    Example: assentry token list
    """

    async def work(desk: Desk) -> None:
        found = await Identities(desk.store, desk.settings.workspace).tokens(limit=1_000)
        now = await desk.store.now()
        if as_json:
            return print_json([
                {"id": each.id[:12], "agent": each.holder, "by": each.made_by, "made": each.made_at,
                 "expires": each.expires_at, "live": each.is_live(now), "note": each.about.get("note", "")}
                for each in found
            ])  # fmt: skip
        if not found:
            return say("no agent has a token; assentry token give AGENT")
        rows = [
            [inert(each.id[:12]), inert(each.holder), inert(each.made_by), inert(ago(now - each.made_at)),
             inert("live" if each.is_live(now) else "ended"), inert(each.about.get("note", ""))]
            for each in found
        ]  # fmt: skip
        return listing(["ID", "AGENT", "BY", "GIVEN", "STATE", "NOTE"], rows, flexible=5, narrow=())

    at_desk(ctx, work)


@tokens.command("end")
def end(ctx: typer.Context, token: Annotated[str, typer.Argument(metavar="ID", help="As listed.")]) -> None:
    """End a token: whoever has it can do nothing with it any more.

    Example: assentry token end 3f9a1c
    """

    async def work(desk: Desk) -> None:
        by = operator(desk)
        ended = await Identities(desk.store, desk.settings.workspace).end(by, CredentialKind.TOKEN, token)
        say(f"the token of {ended.holder} has ended")

    at_desk(ctx, work)
