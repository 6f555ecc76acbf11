"""Logging in at a real MCP server with OAuth: found, registered, a browser there and back, renewed, forgotten."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from fastmcp.server.dependencies import get_http_request
from mcp.server.auth.settings import ClientRegistrationOptions

from assentry.adapters.mcp_proxy import browser_login
from assentry.adapters.mcp_proxy.browser_login import log_in
from assentry.adapters.mcp_proxy.logins import LoggedIn, Logins
from assentry.adapters.mcp_proxy.oauth import Client, Login
from assentry.adapters.mcp_proxy.servers import at
from assentry.assemble import keys_for
from assentry.errors import SettingsError
from assentry.settings import load
from assentry.system import locked
from tests.adapters.mcp_place import Place, free_port, text
from tests.stage import PATIENCE


@dataclass
class Guarded:
    """A server that lets in who has logged in, and whoever gives out tokens for it."""

    url: str
    provider: InMemoryOAuthProvider
    files: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """The bodies of all that was sent there."""

    def end_tokens(self) -> None:
        """The tokens that are about no longer count."""
        self.provider.access_tokens.clear()


@asynccontextmanager
async def guarded(**options: Any) -> AsyncIterator[Guarded]:
    origin = f"http://127.0.0.1:{free_port()}"
    registering = ClientRegistrationOptions(enabled=options.pop("registers", True), valid_scopes=["files"])
    provider = InMemoryOAuthProvider(
        base_url=origin, client_registration_options=registering, required_scopes=["files"]
    )
    place = Guarded(f"{origin}/mcp", provider)
    server = FastMCP("files", auth=provider)

    @server.tool
    def list_files(folder: str) -> str:
        """Lists files."""
        return f"{folder}/a.txt"

    @server.tool
    def delete_files(path: str) -> str:
        """Deletes files for good."""
        place.files.append(path)
        return "deleted"

    @server.tool
    def list_callers() -> str:
        """Lists who calls."""
        return str(get_http_request().headers["authorization"])

    app = server.http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        """Everything that arrives is noted, also where nobody reads it."""
        if scope["type"] != "http":
            return await app(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        place.heard.append(body.decode())
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def hear() -> Any:
            return first.pop() if first else await receive()

        return await app(scope, hear, send)

    serving = uvicorn.Server(uvicorn.Config(noting, port=int(origin.rpartition(":")[2]), log_level="error"))
    task = asyncio.create_task(serving.serve())
    async with asyncio.timeout(PATIENCE):
        while not serving.started:
            await asyncio.sleep(0.02)
    try:
        yield place
    finally:
        serving.should_exit = True
        await task


class Browser:
    """Goes where it is sent, and where that leads."""

    def __init__(self) -> None:
        self.pages: list[httpx.Response] = []
        self.visit: asyncio.Task[None] | None = None

    def show(self, link: str) -> None:
        self.visit = asyncio.create_task(self.go(link))

    async def go(self, link: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True) as client:
            self.pages.append(await client.get(link))


def logins() -> Logins:
    keys = keys_for(load())
    return Logins(keys.directory / "mcp", keys)


async def test_somebody_logs_in_and_calls_are_made_and_held_with_a_token_that_is_renewed(one: Place) -> None:
    async with guarded() as there:
        with pytest.raises(BaseException) as problem:
            async with one.inside(at(there.url, [], "files"), mode="legacy"):
                pass
        assert "--login" in _all(problem.value)
        browser = Browser()
        given = await log_in(there.url, browser.show)
        logins().keep(given)
        assert browser.visit is not None
        await browser.visit
        assert "You are logged in" in browser.pages[0].text
        async with one.inside(at(there.url, [], "files"), mode="legacy") as client:
            assert "a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))
            there.end_tokens()
            # Several at once renew it once. What only reads lists is sent again; a call is not.
            await asyncio.gather(*(client.list_tools() for _ in range(5)))
            call = asyncio.create_task(client.call_tool("delete_files", {"path": "/a"}))
            (request,) = await one.waiting()
            await one.approve(request)
            assert text(await call) == "deleted"
            assert there.files == ["/a"]
            told = text(await client.call_tool("list_callers", {}))
            now = logins().find(there.url)
            assert now is not None
            assert now.id == given.id
            assert (now.access != given.access, now.refresh != given.refresh) == (True, True)
            assert told == "Bearer ***", "the server may repeat it, and nobody is told"
            assert sum("grant_type=refresh_token" in said for said in there.heard) == 1
        (file,) = (keys_for(load()).directory / "mcp").glob("*.login")
        assert given.refresh not in file.read_text()
        assert oct(file.stat().st_mode)[-3:] == "600"


def _all(problem: BaseException) -> str:
    inner = problem.exceptions if isinstance(problem, BaseExceptionGroup) else ()
    return f"{problem}" + "".join(_all(each) for each in inner)


async def test_a_call_that_is_not_let_in_is_not_sent_again(one: Place) -> None:
    async with guarded() as there:
        logins().keep(await log_in(there.url, Browser().show))
        async with one.inside(at(there.url, [], "files"), mode="legacy") as client:
            await client.list_tools()
            there.end_tokens()
            assert "renewed now; make the call again" in text(await client.call_tool("list_files", {"folder": "/srv"}))
            assert sum("tools/call" in said for said in there.heard) == 1
            assert "a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))


async def test_a_token_that_is_known_to_end_is_renewed_before(one: Place) -> None:
    async with guarded() as there:
        logins().keep(replace(await log_in(there.url, Browser().show), expires_at=1.0))
        there.end_tokens()
        async with one.inside(at(there.url, [], "files"), mode="legacy") as client:
            assert "a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))


class Renewing:
    """A login whose provider answers when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.asked, self.answers = 0, asyncio.Event()
        self.login = Login("1", "https://a.example", "https://a.example/token", Client("us"), "old", "r1")
        self.kept = logins()
        self.kept.keep(self.login)
        self.used = LoggedIn(self.kept, self.login)

        async def renewed(login: Login) -> Login:
            self.asked += 1
            await self.answers.wait()
            if fails:
                raise SettingsError("no")
            return replace(login, access="new", refresh="r2")

        monkeypatch.setattr("assentry.adapters.mcp_proxy.logins.renewed", renewed)


async def test_who_logs_out_or_in_meanwhile_is_not_undone_by_a_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Renewing(monkeypatch)
    renewal = asyncio.create_task(case.used.renewed("old"))
    while not case.asked:
        await asyncio.sleep(0.01)

    async def leave() -> None:
        async with case.kept.alone(case.login.url):
            case.kept.forget(case.login.url)

    leaving = asyncio.create_task(leave())
    case.answers.set()
    assert await renewal
    await leaving
    assert case.kept.find(case.login.url) is None


async def test_a_renewal_is_kept_though_whoever_wanted_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Renewing(monkeypatch)
    renewal = asyncio.create_task(case.used.renewed("old"))
    while not case.asked:
        await asyncio.sleep(0.01)
    renewal.cancel()
    case.answers.set()
    await case.used.close()
    kept = case.kept.find(case.login.url)
    assert kept is not None
    assert (kept.refresh, case.used.token) == ("r2", "new")


async def test_many_who_wait_hear_of_one_failure_and_nobody_tries_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Renewing(monkeypatch, fails=True)
    case.answers.set()
    assert await asyncio.gather(*(case.used.renewed("old") for _ in range(6))) == [False] * 6
    assert not await case.used.renewed("old")
    assert case.asked == 1


async def test_a_token_that_cannot_be_kept_is_used_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Renewing(monkeypatch)
    case.answers.set()

    def full(_: Login) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(case.kept, "keep", full)
    assert await case.used.renewed("old")
    assert case.used.token == "new"


async def test_a_process_that_holds_the_login_for_ever_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assentry.adapters.mcp_proxy.logins.ALONE_SECONDS", 0.2)
    case = Renewing(monkeypatch)
    with locked(case.kept._file(case.login.url).with_suffix(".lock"), 0):
        assert not await asyncio.wait_for(case.used.renewed("old"), PATIENCE)
    assert case.asked == 0


async def test_what_was_approved_for_one_login_is_not_used_by_another(one: Place) -> None:
    async with guarded() as there:
        logins().keep(await log_in(there.url, Browser().show))
        async with one.link(at(there.url, [], "files")) as wire:
            await wire.hello()
            await wire.call(1, "delete_files", path="/a")
            (request,) = await one.waiting()
        await one.approve(request)
        logins().keep(await log_in(there.url, Browser().show))  # perhaps as somebody else
        async with one.link(at(there.url, [], "files")) as wire:
            await wire.hello()
            await wire.call(1, "delete_files", path="/a")
            (again,) = await one.waiting()
            assert again.id != request.id
            assert there.files == []


async def test_whoever_runs_is_not_made_somebody_else_by_a_new_login(one: Place) -> None:
    async with guarded() as there:
        logins().keep(await log_in(there.url, Browser().show))
        async with one.link(at(there.url, [], "files")) as wire:
            await wire.hello()
            there.end_tokens()
            there.provider.refresh_tokens.clear()
            logins().keep(await log_in(there.url, Browser().show))
            await wire.say(id=1, method="tools/list")
            assert "answered 401" in str(await wire.answer(1))


async def test_a_login_that_is_over_says_so_and_nothing_ran(one: Place) -> None:
    async with guarded() as there:
        given = await log_in(there.url, Browser().show)
        logins().keep(replace(given, refresh="spent"))
        there.end_tokens()
        async with one.link(at(there.url, [], "files")) as wire:
            await wire.say(id=1, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}})
            told = str(await wire.answer(1))
            assert "answered 401 (log in with assentry mcp --url … --login" in told


async def test_the_command_logs_in_and_out(one: Place, tmp_path: Path) -> None:
    async with guarded() as there:
        process = await asyncio.create_subprocess_exec(
            *one.proxy("--url", there.url, "--login"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        link = ""
        async with asyncio.timeout(PATIENCE):
            while not (found := re.search(r"  (http://\S+)", link)):
                link += (await process.stderr.readline()).decode()
        await Browser().go(found[1])
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert (process.returncode, "Logged in at http://127.0.0.1" in out.decode()) == (0, True)
        assert logins().find(there.url) is not None
        for says in ("Logged out of", "Nobody was logged in at"):
            done = await asyncio.create_subprocess_exec(
                *one.proxy("--url", there.url, "--logout"), stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(done.communicate(), PATIENCE)
            assert says in out.decode()
        assert logins().find(there.url) is None


async def test_who_brings_no_word_of_ours_changes_nothing_and_a_refusal_is_told() -> None:
    async with guarded() as there:
        seen: list[int] = []

        def show(link: str) -> None:
            back = httpx.URL(httpx.URL(link).params["redirect_uri"])

            async def visits() -> None:
                state = httpx.URL(link).params["state"]
                other = {"code": "x", "state": state, "iss": "https://evil.example"}
                wrong = ({"code": "stolen", "state": "guessed"}, {"code": "stolen"}, {}, other)
                async with httpx.AsyncClient() as client:
                    seen.extend([(await client.get(back, params=said)).status_code for said in wrong])
                    await client.get(back, params={"error": "access_denied", "state": state})

            tasks.append(asyncio.create_task(visits()))

        tasks: list[asyncio.Task[None]] = []
        with pytest.raises(SettingsError, match="refused there"):
            await log_in(there.url, show)
        await tasks[0]
        assert seen == [404] * 4


async def test_nobody_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_login, "PATIENCE", 0.1)
    async with guarded() as there:
        with pytest.raises(SettingsError, match="nobody came back"):
            await log_in(there.url, lambda _: None)


async def test_where_nobody_is_registered_by_itself_a_name_is_wanted() -> None:
    async with guarded(registers=False) as there:
        with pytest.raises(SettingsError, match="--client-id"):
            await log_in(there.url, lambda _: None)


def test_a_login_is_for_one_address_and_what_cannot_be_opened_is_none(tmp_path: Path) -> None:
    kept, one = logins(), Login("1", "https://a.example", "https://a.example/token", Client("us", "shh"), "t", "r", 5.0)
    kept.keep(one)
    assert kept.find("https://a.example") == one
    assert kept.find("https://b.example") is None
    assert "shh" not in repr(one)
    (file,) = (keys_for(load()).directory / "mcp").glob("*.login")
    file.rename(kept._file("https://b.example"))
    assert kept.find("https://b.example") is None
