"""Settings become a Gate, an Inbox, a Worker: the only place where the parts are put together.

A person's desk needs little of what a gate needs, so a gate's modules are imported when one is opened.
"""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from assentry.core.authority import Principal, resolve
from assentry.core.running import LEASE
from assentry.engine.callers import clear
from assentry.engine.chronicle import Chronicle
from assentry.engine.identity import person_in
from assentry.engine.inbox import Inbox
from assentry.engine.judgement import Judgement
from assentry.engine.notary import Notary
from assentry.engine.os_user import os_user
from assentry.engine.oversight import Oversight
from assentry.engine.policies import apply_policy
from assentry.engine.portal import Portal
from assentry.engine.rules import Rules
from assentry.errors import NotAllowed, SettingsError, StaleRequest
from assentry.extras import needs
from assentry.keys import KeyRing
from assentry.ports import Store
from assentry.settings import Settings, load
from assentry.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from assentry.engine.errands import Errands
    from assentry.engine.gate import Gate


def store_for(settings: Settings) -> Store:
    """The store that the settings name, not yet opened."""
    if settings.is_postgres:
        with needs("postgres", "a PostgreSQL address"):
            from assentry.stores.postgres import PostgresStore

        return PostgresStore(settings.database)
    return SqliteStore(settings.database)


def keys_for(settings: Settings) -> KeyRing:
    """The keys, outside the database."""
    return KeyRing(Path(settings.home) if settings.home else None)


def open(
    database: str | os.PathLike[str] | None = None,
    *,
    policy: str | os.PathLike[str] | None = None,
    workspace: str | None = None,
    agent: str | None = None,
    lease: timedelta = LEASE,
) -> "Gate":
    """A gate on this database: a file path (default `./assentry.db`) or a PostgreSQL address.

    `policy` is a file to begin with: it is applied where the store has no policy yet. Afterwards the store's
    version holds, and `assentry policy apply` changes it. Opened like this the gate is cooperative: it keeps an
    honest agent from acting alone, not a process that can write to the database itself. `lease` is how long others
    take this process to live without a sign of it.
    """
    given = {
        "database": os.fspath(database) if database is not None else None,
        "policy": os.fspath(policy) if policy is not None else None,
        "workspace": workspace,
        "agent": agent,
    }
    return gate_for(load(given), lease=lease)


def gate_for(settings: Settings, *, lease: timedelta = LEASE) -> "Gate":
    """A gate with exactly these settings, whatever the environment and the working directory say."""
    from assentry.engine.describing import check_lease
    from assentry.engine.gate import Gate

    check_lease(lease)
    portal = Portal()
    store, keys = store_for(settings), keys_for(settings)
    gate = Gate(
        store,
        keys,
        workspace=settings.workspace,
        agent=settings.agent,
        portal=portal,
        notary=Notary(store, keys, settings.workspace),
        lease=lease,
    )
    portal.run(_begin(gate, settings))
    return gate


async def _begin(gate: "Gate", settings: Settings) -> None:
    from assentry.engine.gate import store_of

    store = store_of(gate)
    await store.open()
    if settings.policy:
        text = read_policy(settings.policy)
        active = await store.policy(settings.workspace)
        if active is None:
            try:
                await apply_policy(store, settings.workspace, text, Principal(os_user()), settings.policy, based_on=0)
            except StaleRequest:
                active = await store.policy(settings.workspace)  # another process was faster; what it applied holds
        if active is not None and active.text != text:
            warnings.warn(
                f"{settings.policy} differs from the active policy (version {active.version}), which holds; "
                f"`assentry policy apply {settings.policy}` makes it the active one",
                stacklevel=2,
            )
    await gate.start()


def read_policy(file: str) -> str:
    """The text of a policy file that loads without complaint."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text; save it as YAML or JSON in UTF-8"
        raise SettingsError(f"the policy file {file} cannot be read: {reason}") from None
    except OSError as problem:
        raise SettingsError(f"the policy file {file} cannot be read: {problem.strerror}; check the path") from None
    from assentry.core.policy_file import load_policy

    load_policy(text, file)
    return text


@dataclass(frozen=True, slots=True)
class Desk:
    """What a person at a terminal works with."""

    settings: Settings
    store: Store
    keys: KeyRing
    judgement: Judgement
    inbox: Inbox
    notary: Notary
    oversight: Oversight
    chronicle: Chronicle
    rules: Rules
    logged_in: str = ""
    """Who the server says sits here, where the desk is on another machine."""

    async def look_for_the_gone(self) -> None:
        """Requests whose callers are gone say so; behind a server, the server sees to that."""
        if not self.logged_in:
            await clear(self.store, self.settings.workspace)

    def person(self) -> Principal:
        """Who sits here: by the server's word, or by the operating system's and the policy's `people:`."""
        if self.logged_in:
            found = person_in(self.judgement.policy, self.logged_in)
            if found is None:
                raise NotAllowed(f"{self.logged_in} is nobody in the active policy any more", principal=self.logged_in)
            return found
        user = os_user()
        found = resolve(self.judgement.policy, user)
        if found is None:
            raise NotAllowed(
                f"the operating-system user {user!r} is nobody in the active policy; an operator can add it as "
                "os_users: under people:",
                principal=user,
            )
        return found


async def desk(settings: Settings) -> Desk:
    """A desk on an open store, with the active policy loaded; or on the server that somebody logged in to."""
    keys = keys_for(settings)
    if settings.server:
        return await _remote_desk(settings, keys)
    store = store_for(settings)
    await store.open()
    place = await desk_at(settings, store, keys)
    await place.look_for_the_gone()
    return place


async def _remote_desk(settings: Settings, keys: KeyRing) -> Desk:
    from assentry.remote.desk import RemoteInbox, RemoteOversight, RemoteRules, remote_store
    from assentry.remote.session import Session

    login = keys.login(settings.server)
    if login is None:
        raise NotAllowed(f"nobody is logged in to {settings.server}; `assentry login {settings.server}`", principal="")
    line = Session(login["url"], login["session"])
    me = await line.get("/api/v1/me")
    settings = replace(settings, workspace=str(me["workspace"]))
    store = remote_store(line, settings.workspace)
    judgement = Judgement(store, settings.workspace)
    await judgement.refresh()
    return Desk(
        settings, store, keys, judgement, RemoteInbox(line, store, settings.workspace, judgement),
        Notary(store, keys, settings.workspace), RemoteOversight(line, store, settings.workspace),
        Chronicle(store, settings.workspace), RemoteRules(line, store, settings.workspace), logged_in=str(me["name"]),
    )  # fmt: skip


async def desk_at(settings: Settings, store: Store, keys: KeyRing) -> Desk:
    """A desk in one workspace of a store that is open."""
    judgement = Judgement(store, settings.workspace)
    await judgement.refresh()
    inbox = Inbox(store, settings.workspace, judgement)
    workspace = settings.workspace
    return Desk(
        settings, store, keys, judgement, inbox, Notary(store, keys, workspace),
        Oversight(store, workspace, lambda: judgement.policy),
        Chronicle(store, workspace), Rules(store, workspace),
    )  # fmt: skip


TOKEN = "ASSENTRY_TOKEN"  # noqa: S105  the name of a variable


@asynccontextmanager
async def errands_for(settings: Settings, agent: str) -> "AsyncIterator[Errands]":
    """Where a program that carries out calls itself proposes them: at the server of the settings, or here."""
    if not settings.server:
        from assentry.engine.errands import LocalErrands

        gate = await asyncio.to_thread(gate_for, settings)
        try:
            yield LocalErrands(gate.agent(agent), keys_for(settings))
        finally:
            await gate.close()
        return
    from assentry.remote.errands import FarErrands
    from assentry.remote.line import Line

    if not (token := os.environ.get(TOKEN, "")):
        raise SettingsError(f"{TOKEN} is not set; `assentry token give {agent}` at the server makes one")
    portal = Portal("assentry-errands")
    line = Line(settings.server, token, portal, retry_for=20)
    try:
        yield FarErrands(line)
    finally:
        await asyncio.wrap_future(portal.submit(line.close()))
        portal.close()
