"""In front of a real MCP server, for the official client: what may run runs, what waits is held, what is denied is not."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from assent.assemble import Desk, desk
from assent.core.advance import phrase
from assent.core.request import Request, State
from assent.ports import Filter
from assent.settings import load

SERVER = Path(__file__).parent / "mcp_server.py"


@dataclass
class Bench:
    """A server behind the proxy, its ledger, and the desk of whoever decides."""

    folder: Path
    desk: Desk
    database: str

    @property
    def ledger(self) -> list[str]:
        file = self.folder / "ledger"
        return file.read_text().splitlines() if file.exists() else []

    @asynccontextmanager
    async def client(
        self, *options: str, words: str = "Deletes files for good.", mode: str = "auto"
    ) -> AsyncIterator[Client]:
        command = ["-m", "assent", "--database", self.database, "mcp", "--name", "files", *options, "--"]
        server = [sys.executable, str(SERVER), str(self.folder / "ledger"), words]
        parameters = StdioServerParameters(
            command=sys.executable, args=[*command, *server], env=dict(os.environ), cwd=str(self.folder)
        )
        async with Client(parameters, mode=mode) as made:  # type: ignore[arg-type]
            yield made

    async def waiting(self, number: int = 1) -> list[Request]:
        async with asyncio.timeout(30):
            while True:
                found = (await self.desk.inbox.page(Filter(states=(State.PENDING,)))).requests
                if len(found) >= number:
                    return list(found)
                await asyncio.sleep(0.02)

    async def approve(self, request: Request) -> None:
        card = await self.desk.inbox.brief(request.id)
        await self.desk.inbox.approve(self.desk.person(), request.id, confirm=card.phrase)

    async def becomes(self, request: Request, state: State) -> Request:
        async with asyncio.timeout(20):
            while True:
                found = await self.desk.store.request("default", request.id)
                assert found is not None
                if found.state is state:
                    return found
                await asyncio.sleep(0.02)


@pytest.fixture
async def bench(database: str, tmp_path: Path) -> AsyncIterator[Bench]:
    place = await desk(load({"database": database}))
    yield Bench(tmp_path, place, database)
    await place.store.close()


def text(result: Any) -> str:
    return "\n".join(part.text for part in result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_everything_is_relayed_and_what_reads_runs_at_once(bench: Bench, mode: str) -> None:
    async with bench.client("--trusted", mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "list_files",
            "delete_files",
            "fail_to_delete",
        }
        assert "/srv/a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))


async def test_a_held_call_runs_when_it_is_approved_and_what_came_of_it_is_on_record(bench: Bench) -> None:
    heard: list[str] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        heard.append(message or "")

    async with bench.client() as client:
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}, progress_callback=progress))
        (request,) = await bench.waiting()
        assert (request.ask.agent, request.candidate.action.name) == ("mcp", "delete_files")
        assert request.candidate.action.trusted is False
        assert bench.ledger == []
        # Others are not held up by it.
        assert "a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))
        await bench.approve(request)
        assert text(await call) == "deleted 1"
        assert bench.ledger == ["/a"]
        assert "deleted 1" in (await bench.becomes(request, State.DONE)).result_text
        assert any(request.code in each for each in heard)


async def test_a_denied_call_is_not_made_and_the_model_hears_why(bench: Bench) -> None:
    async with bench.client() as client:
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
        (request,) = await bench.waiting()
        await bench.desk.inbox.deny(bench.desk.person(), request.id, "those are the backups")
        result = await call
        assert result.is_error
        assert "those are the backups" in text(result)
    assert bench.ledger == []


async def test_a_changed_call_runs_as_changed_and_the_model_is_told(bench: Bench) -> None:
    async with bench.client() as client:
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a", "/b"]}))
        (request,) = await bench.waiting()
        less = {"paths": ["/a"]}
        confirm = phrase(bench.desk.inbox.changed(request, less))
        await bench.desk.inbox.modify(bench.desk.person(), request.id, less, confirm=confirm)
        told = text(await call)
    assert bench.ledger == ["/a"]
    assert "deleted 1" in told
    assert 'What really ran is: {"paths":["/a"]}' in told


async def test_a_failure_is_on_record_as_one(bench: Bench) -> None:
    async with bench.client() as client:
        call = asyncio.create_task(client.call_tool("fail_to_delete", {"path": "/a"}))
        (request,) = await bench.waiting()
        await bench.approve(request)
        assert (await call).is_error
        assert "Error executing tool fail_to_delete" in (await bench.becomes(request, State.FAILED)).error


async def test_several_calls_at_once_are_answered_each_for_itself(bench: Bench) -> None:
    async with bench.client() as client:
        calls = [asyncio.create_task(client.call_tool("delete_files", {"paths": [f"/{n}"]})) for n in range(4)]
        for request in await bench.waiting(4):
            number = int(request.candidate.action.args["paths"][0][1:])
            if number % 2:
                await bench.desk.inbox.deny(bench.desk.person(), request.id, f"not {number}")
            else:
                await bench.approve(request)
        told = [text(await call) for call in calls]
    assert [("deleted 1" in each, f"not {n}" in each) for n, each in enumerate(told)] == [
        (True, False), (False, True), (True, False), (False, True),
    ]  # fmt: skip
    assert sorted(bench.ledger) == ["/0", "/2"]


async def test_the_ticket_form_answers_at_once_and_the_same_call_finds_the_decision_once(bench: Bench) -> None:
    async with bench.client("--wait", "0") as client:
        first = await client.call_tool("delete_files", {"paths": ["/a"]})
        (request,) = await bench.waiting()
        assert first.is_error
        assert request.code in text(first)
        await bench.approve(request)
    async with bench.client("--wait", "0") as client:  # the proxy is another process by now
        assert text(await client.call_tool("delete_files", {"paths": ["/a"]})) == "deleted 1"
        again = await client.call_tool("delete_files", {"paths": ["/a"]})
        assert again.is_error
    assert bench.ledger == ["/a"]
    assert (await bench.waiting())[0].id != request.id


async def test_what_nobody_waits_for_does_not_run(bench: Bench) -> None:
    async with bench.client() as client:
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}, read_timeout_seconds=1.0))
        (request,) = await bench.waiting()
        with pytest.raises(Exception, match=r"(?i)timed out|timeout"):
            await call
        await bench.approve(request)
        assert "a.txt" in text(await client.call_tool("list_files", {"folder": "/srv"}))
        assert bench.ledger == []
        assert text(await client.call_tool("delete_files", {"paths": ["/a"]})) == "deleted 1"  # asked for again
    assert bench.ledger == ["/a"]


async def test_a_tool_that_is_described_otherwise_than_before_is_held(bench: Bench) -> None:
    async with bench.client("--trusted") as client:
        await client.call_tool("list_files", {"folder": "/srv"})
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/a"]}))
        (request,) = await bench.waiting()
        await bench.approve(request)
        await call
    async with bench.client("--trusted", words="Lists things. Safe.") as client:
        call = asyncio.create_task(client.call_tool("delete_files", {"paths": ["/b"]}))
        (request,) = await bench.waiting()
        why = (await bench.desk.inbox.brief(request.id)).why
        assert any("has changed since it was last allowed" in each for each in why)
        await bench.approve(request)
        assert text(await call) == "deleted 1"
