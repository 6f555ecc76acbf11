"""One server process: where it listens, by which names it goes, and an orderly end."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TextIO
from urllib.parse import urlsplit

import uvicorn

from assentry.assemble import gate_for, keys_for
from assentry.core.authority import Principal, eligible, may_change, resolve
from assentry.engine.gate import store_of
from assentry.engine.os_user import os_user
from assentry.errors import SettingsError
from assentry.server.app import create_app
from assentry.server.premises import Premises, Room
from assentry.server.whereabouts import announced
from assentry.settings import Settings

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_GRACE = 10


@dataclass(frozen=True, slots=True)
class Address:
    """Where it listens, and by which address people reach it."""

    host: str = "127.0.0.1"
    port: int = 8750
    url: str = ""
    """As people type it, where that is another: behind a proxy."""

    @property
    def public(self) -> str:
        if self.url:
            return self.url.rstrip("/")
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    @property
    def names(self) -> frozenset[str]:
        """Every Host header that means this server; others are turned away, whatever they resolve to."""
        found = {urlsplit(self.public).netloc.lower()}
        if self.host in _LOOPBACK:
            found |= {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        return frozenset(found)


def checked(address: Address) -> Address:
    """The address, if cookies can be safe there."""
    parts = urlsplit(address.url) if address.url else None
    if parts is not None and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/")):
        raise SettingsError("--url is how people reach the server, such as https://assentry.example.com")
    if address.host not in _LOOPBACK and not (parts is not None and parts.scheme == "https"):
        raise SettingsError(
            f"listening on {address.host} shows passwords and cookies to the network: put a proxy with https before it "
            "and say so with --url https://…, or listen on 127.0.0.1"
        )
    return address


@dataclass(frozen=True, slots=True)
class Standing:
    """A server that answers."""

    url: str
    premises: Premises
    stop: Callable[[], None]

    async def link(self) -> str:
        """A one-time sign-in link while nobody can sign in yet, so that no password is needed for a first start.

        It is for whoever sits at this machine, else for somebody who may change the policy: whoever starts a server
        on a database can write to it anyway. Empty once somebody can sign in: the output of a service is kept in logs.
        """
        room = await self.premises.room(self.premises.settings.workspace)
        user, policy = os_user(), room.desk.judgement.policy
        person = resolve(policy, user)
        if await _can_sign_in(room, {each.name for each in policy.people} or {user}):
            return ""
        if person is None:
            able = [each for each in eligible(policy, ()) if may_change(policy, each) is None]
            person = able[0] if able else None
        if person is None:
            return ""
        return f"{self.url}/enter?link={await room.identities.link(Principal(user), person.name)}"


async def _can_sign_in(room: Room, names: Collection[str]) -> bool:
    """One of these people can sign in without a link."""
    for name in names:
        if await room.identities.has_password(name) or await room.passkeys.of(name):
            return True
    return room.sign_on is not None


@asynccontextmanager
async def standing(settings: Settings, address: Address, *, works: bool = True) -> AsyncIterator[Standing]:
    """The server answers inside; with `works`, deadlines and resumptions are looked after in the same process."""
    checked(address)
    listening = _bound(address)  # first: where somebody else listens, nothing was opened
    gate = gate_for(settings)
    port = int(listening.getsockname()[1])
    address = Address(address.host, port, address.url)
    premises = Premises(settings, store_of(gate), keys_for(settings), gate)
    app = create_app(premises, hosts=address.names, public=address.public)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=_GRACE, ws="none",
        proxy_headers=bool(address.url), forwarded_allow_ips="127.0.0.1,::1", server_header=False, date_header=True,
    )  # fmt: skip
    server = _Server(config)
    async with AsyncExitStack() as open_things:
        open_things.push_async_callback(gate.close)
        if works:
            await open_things.enter_async_context(gate.worker())
        serving = asyncio.create_task(server.serve([listening]))

        def stop() -> None:
            premises.events.close()  # streams would hold it up for as long as somebody looks
            premises.agents.let_go()  # and so would calls that wait for an outcome
            server.should_exit = True

        try:
            up = asyncio.create_task(server.up.wait())
            await asyncio.wait({up, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not server.up.is_set():
                up.cancel()
                await serving
                raise SettingsError("the server could not start; the lines above say why")
            identity = await premises.store.identity()
            with announced(premises.keys.directory, identity, address.public, (address.host, port)):
                yield Standing(address.public, premises, stop)
        finally:
            stop()
            await serving


class _Server(uvicorn.Server):
    """Says when it answers, and leaves signals to whoever started it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address.host, address.port))
    except OSError as problem:
        made.close()
        raise SettingsError(
            f"{address.host}:{address.port} cannot be listened on: {problem.strerror}; choose another with --port"
        ) from None
    made.listen(512)
    made.setblocking(False)
    return made


def log_to(stream: TextIO) -> None:
    """Lines without payloads on this stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    for name in ("assentry", "uvicorn.error"):
        logging.getLogger(name).addHandler(handler)
    logging.getLogger("assentry").setLevel(logging.INFO)
