"""The line breaks, the server is killed, the agent is killed: nothing is proposed twice and nothing runs twice."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import assentry
from assentry.assemble import desk
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.engine.identity import Identities
from assentry.ports import Filter
from assentry.settings import load
from tests.remote.place import Place
from tests.stage import PATIENCE


class Cutter:
    """A line in between that lets requests through and cuts the connection in place of the answer."""

    def __init__(self, target: str) -> None:
        self.host, self.port = urlsplit(target).hostname, urlsplit(target).port
        self.cuts: list[bytes] = []
        """What is cut once each: requests that contain this."""
        self.cut = 0

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._served, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            server.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection(self.host, self.port)
        asked = asyncio.Event()

        async def forth() -> None:
            while data := await reader.read(65536):
                for each in tuple(self.cuts):
                    if each in data:
                        self.cuts.remove(each)
                        asked.set()
                # The server goes by its own name.
                outer.write(data.replace(_host(writer), f"127.0.0.1:{self.port}".encode()))
                await outer.drain()

        async def back() -> None:
            while data := await inner.read(65536):
                if asked.is_set():
                    self.cut += 1
                    break
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.ensure_future(forth()), asyncio.ensure_future(back())]
        with suppress(ConnectionError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, outer):
            end.close()


def _host(writer: asyncio.StreamWriter) -> bytes:
    return f"127.0.0.1:{writer.get_extra_info('sockname')[1]}".encode()


async def test_answers_that_are_lost_are_asked_for_again_and_nothing_happens_twice(place: Place):
    cutter, ran = Cutter(place.url), []
    async with cutter.standing() as url:
        gate = await asyncio.to_thread(assentry.connect, url, await place.token("cleanup"))

        @gate.guard
        async def delete_files(paths: list[str]) -> int:
            ran.append(paths)
            return len(paths)

        cutter.cuts = [b"POST /api/v1/agent/proposals?", b"/begin", b"/finish", b"GET /api/v1/agent/proposals/"]
        call = place.start(delete_files(["/a"]))
        [request] = await place.waiting()
        async with asyncio.timeout(PATIENCE):
            while not place.server.premises.agents._waiting:
                await asyncio.sleep(0.01)
        await place.approve(request)
        assert await asyncio.wait_for(call, PATIENCE) == 1
        assert cutter.cuts == []
        assert cutter.cut == 4
        assert ran == [["/a"]]
        assert len((await place.inbox.page(Filter(agent="cleanup"))).requests) == 1
        await place.in_state(request.id, State.DONE)
        await gate.close()


async def test_a_watched_call_whose_answer_is_lost_is_begun_once(place: Place):
    await place.policy("rules: [{name: watched, actions: ['write_*'], gate: watch}]\n")
    cutter, ran = Cutter(place.url), []
    async with cutter.standing() as url:
        gate = await asyncio.to_thread(assentry.connect, url, await place.token("cleanup"))

        @gate.guard
        async def write_note(text: str) -> str:
            ran.append(text)
            return text

        cutter.cuts = [b"POST /api/v1/agent/proposals?"]
        assert await asyncio.wait_for(write_note("x"), PATIENCE) == "x"
        assert (cutter.cut, ran) == (1, ["x"])
        [request] = (await place.inbox.page(Filter(agent="cleanup"))).requests
        assert (request.state, request.fence) == (State.DONE, 1)
        await gate.close()


async def test_a_server_that_is_not_there_is_told_after_a_while(place: Place):
    token = await place.token("cleanup")
    gate = await asyncio.to_thread(lambda: assentry.connect(place.url, token, retry_for=1))

    @gate.guard
    async def list_files(path: str) -> str:
        pytest.fail("ran although nobody said that it may")

    place.server.stop()
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
        with suppress(httpx.TransportError):
            while await client.get(f"{place.url}/healthz"):
                await asyncio.sleep(0.01)
    with pytest.raises(assentry.Unreachable):
        await asyncio.wait_for(list_files("/"), PATIENCE)
    await gate.close()


class Process:
    """`assentry serve` as a process of its own, on a port that stays the same."""

    def __init__(self, database: str, where: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [
            sys.executable, "-m", "assentry", "--database", database, "serve", "--port", str(self.port), "--no-browser",
        ]  # fmt: skip
        self._where = where
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self.process = self._started()
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client:
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get(f"{self.url}/readyz")).status_code == 200:
                        return
                assert self.process.poll() is None, (self._where / "server.log").read_text()
                await asyncio.sleep(0.05)

    def _started(self) -> "subprocess.Popen[bytes]":
        with (self._where / "server.log").open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=self._where, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
            )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.mark.proof
async def test_a_waiting_call_outlives_a_server_that_is_killed(database: str, tmp_path: Path):
    server = Process(database, tmp_path)
    await server.start()
    table = await desk(load({"database": database}))
    try:
        _, token = await Identities(table.store, "default").give_token(Principal("root"), "cleanup")
        gate = await asyncio.to_thread(assentry.connect, server.url, token)

        @gate.guard
        async def delete_files(paths: list[str]) -> int:
            return len(paths)

        call = asyncio.create_task(delete_files.acall(["/a"]))
        async with asyncio.timeout(PATIENCE):
            while not (found := (await table.inbox.page()).requests):
                await asyncio.sleep(0.02)
        server.kill()
        # Decided while nobody serves; the call hears of it from the server that comes back.
        await table.inbox.approve(table.person(), found[0].id, confirm=(await table.inbox.brief(found[0].id)).phrase)
        assert not call.done()
        await server.start()
        assert await asyncio.wait_for(call, PATIENCE) == 1
        request = await table.store.request("default", found[0].id)
        assert request is not None
        assert request.state is State.DONE
        await gate.close()
    finally:
        server.kill()
        await table.store.close()


AGENT = """
import sys, time, assentry
from datetime import timedelta
gate = assentry.connect(sys.argv[1], sys.argv[2], lease=timedelta(seconds=1))

@gate.guard
def delete_files(paths: list[str]) -> int:
    print("running", flush=True)
    time.sleep(600)
    return 1

delete_files(["/a"])
"""


@pytest.mark.proof
async def test_an_agent_killed_between_begin_and_finish_leaves_an_unknown_outcome(place: Place):
    agent = _agent(place.url, await place.token("cleanup"))
    try:
        [request] = await place.waiting()
        await place.approve(request)
        assert agent.stdout is not None
        assert await asyncio.wait_for(asyncio.to_thread(agent.stdout.readline), PATIENCE) == b"running\n"
        os.kill(agent.pid, signal.SIGKILL)
        await place.in_state(request.id, State.UNKNOWN)
    finally:
        agent.kill()
        agent.wait()
        assert agent.stdout is not None
        agent.stdout.close()


def _agent(url: str, token: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", AGENT, url, token], stdout=subprocess.PIPE)
