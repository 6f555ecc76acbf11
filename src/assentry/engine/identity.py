"""Who somebody is: tokens for agents, one-time links, passwords and sessions for people.

What is secret is shown once and kept as a hash. An agent's token finds an agent and never a person; nothing here
makes one of the other.
"""

import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from assentry.core.authority import ASSENTRY, EVERYTHING, Principal, principal_named
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.core.policy import Policy
from assentry.core.proving import changed, ended, followed, given, noted
from assentry.engine.threads import in_thread
from assentry.errors import InvalidDecision, NotAllowed, NotFound, StaleRequest
from assentry.ports import Store

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LINK_LIFE = timedelta(minutes=10)
SESSION_LIFE = timedelta(days=14)
ROTATE_AFTER = timedelta(hours=12)
"""A cookie that was stolen is of use for so long at most while its owner goes on working."""
GRACE = timedelta(minutes=1)
"""For so long the cookie before still works: for calls that were on their way when it was renewed."""
PROOF_LIFE = timedelta(minutes=10)
"""For so long after somebody proved who they are they may decide what is critical."""
SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1_000
_FREE_TRIES = 5
_LONGEST_WAIT = timedelta(minutes=15)
_WRONG = (
    "this name and password do not belong together; after five wrong ones every try has to wait, 15 minutes at most"
)
"""The same for whatever is wrong, so that nobody learns which names there are."""

TOKEN_MARK = "aat_"  # noqa: S105  how an agent's token begins
SESSION_MARK = "aps_"
LINK_MARK = "apl_"


@dataclass(frozen=True, slots=True)
class Session:
    """A person who has logged in."""

    credential: Credential
    principal: Principal
    proved_at: datetime
    """When they last proved who they are."""
    how: str
    """link, password, passkey or sso."""

    @property
    def workspace(self) -> str:
        return self.credential.workspace

    @property
    def family(self) -> str:
        """What stays the same when its secret is renewed."""
        return str(self.credential.about.get("family") or self.credential.id)


def person_in(policy: Policy, name: str) -> Principal | None:
    """The person of this name: as the policy has them, or the only one there is where it names nobody."""
    if policy.people:
        return principal_named(policy, name)
    return Principal(name, "person", (EVERYTHING,), (EVERYTHING,))


def workspace_of(secret: str) -> str:
    """The workspace that a token, a cookie or a link is for, as it says itself."""
    name = secret.partition(".")[2]
    return name if is_workspace(name) else ""


def is_workspace(name: str) -> bool:
    """A workspace may be called that."""
    return 0 < len(name) <= 200 and all(char.isalnum() or char in "-_." for char in name)


class Identities:
    """The credentials of one workspace."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store, self._workspace = store, workspace

    async def give_token(
        self, by: Principal, agent: str, *, life: timedelta | None = None, note: str = ""
    ) -> tuple[Credential, str]:
        """A token with which this agent proposes, and the only time that it is seen."""
        if not agent.strip() or len(agent) > 200:
            raise InvalidDecision("a token is for an agent: give its name, of at most 200 characters")
        if agent.strip().casefold() == ASSENTRY:
            raise InvalidDecision(f"{agent} is who does what Assentry does by itself; give the agent another name")
        secret = self._secret(TOKEN_MARK)
        made = await self._give(CredentialKind.TOKEN, secret, agent, by.name, life, note=note)
        return made, secret

    async def tokens(self, *, after: str = "", limit: int = 100) -> tuple[Credential, ...]:
        """Every token there was, live or not."""
        return await self._store.credentials(self._workspace, CredentialKind.TOKEN, after=after, limit=limit)

    async def agent(self, secret: str) -> Credential | None:
        """The live token that this is, which names its agent."""
        return await self._live(CredentialKind.TOKEN, secret) if secret.startswith(TOKEN_MARK) else None

    async def end(self, by: Principal, kind: CredentialKind, credential_id: str) -> Credential:
        """The credential proves nothing any more."""
        found = await self._store.credential(self._workspace, kind, credential_id)
        if found is None:
            matching = [each for each in await self.tokens(limit=1_000) if each.id.startswith(credential_id)]
            if kind is not CredentialKind.TOKEN or len(matching) != 1:
                raise NotFound(f"there is no {kind} {credential_id!r}")
            found = matching[0]
        now = await self._store.now()
        return found if found.ended_at is not None else await self._put(ended(found, by.name, now))

    async def link(self, by: Principal, person: str, life: timedelta = LINK_LIFE) -> str:
        """A link's secret: whoever presses the button behind it first is this person."""
        secret = self._secret(LINK_MARK)
        await self._give(CredentialKind.LINK, secret, person, by.name, life)
        return secret

    async def link_for(self, secret: str) -> Credential | None:
        """The live link that this is. Looking at it does not use it up."""
        return await self._live(CredentialKind.LINK, secret) if secret.startswith(LINK_MARK) else None

    async def use_link(self, secret: str) -> str:
        """Whose link it was; it is used up."""
        link = await self.link_for(secret)
        if link is None:
            raise NotAllowed("this link was used already, or is too old; ask for another one", principal="")
        try:
            await self._put(ended(link, link.holder, await self._store.now()))
        except StaleRequest:
            raise NotAllowed("this link was used a moment ago; ask for another one", principal="") from None
        return link.holder

    async def set_password(self, by: Principal, person: str, password: str) -> None:
        """The person logs in with this password; whoever was logged in as them, or had a link for it, no longer is."""
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise InvalidDecision(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
        proof = await in_thread(_hasher().hash, password)
        now = await self._store.now()
        found = await self._store.credential(self._workspace, CredentialKind.ACCOUNT, person)
        if found is None:
            made = Credential(
                self._workspace, CredentialKind.ACCOUNT, person, person, now, by.name, proof=proof
            )  # fmt: skip
            await self._put(given(made, by.name))
        else:
            await self._put(changed(replace(found, proof=proof, ended_at=None), by.name, now, failures=0))
        await self.end_sessions(by, person)
        await self._end_all(CredentialKind.LINK, by, person, lambda _: True)

    async def has_password(self, person: str) -> bool:
        """The person has one."""
        return await self._account(person) is not None

    async def check_password(self, person: str, password: str) -> None:
        """It is theirs, or the error says nothing about why not. Wrong ones make the next try wait."""
        account = await self._tried(person)
        proof = account.proof if account is not None else _nobodys_proof()
        right = await in_thread(_matches, proof, password[: LONGEST_PASSWORD + 1])
        if account is None or not right:
            raise NotAllowed(_WRONG, principal=person)
        await self._quietly(noted(account, failures=0))

    async def _tried(self, person: str) -> Credential | None:
        """The account, if somebody may try its password now.

        The try is counted before it is made: a hundred at once are a hundred tries.
        """
        for _ in range(_FREE_TRIES):
            account = await self._account(person)
            now = await self._store.now()
            if account is None or _wait(account, now) > timedelta(0):
                return None
            before = account.about.get("failures")
            failures = (before if isinstance(before, int) else 0) + 1
            with suppress(StaleRequest):
                return await self._put(noted(account, failures=failures, failed=now.isoformat()))
        return None

    async def _account(self, person: str) -> Credential | None:
        """The account of somebody who has a password."""
        if not person.isprintable() or len(person) > 200:
            return None
        found = await self._store.credential(self._workspace, CredentialKind.ACCOUNT, person)
        return found if found is not None and found.proof else None

    async def begin_session(self, person: str, how: str) -> str:
        """The secret of a new session of somebody who has just proved who they are."""
        secret = self._secret(SESSION_MARK)
        proved, family = (await self._store.now()).isoformat(), secrets.token_hex(16)
        await self._give(
            CredentialKind.SESSION, secret, person, person, SESSION_LIFE, proved=proved, how=how, family=family
        )
        return secret

    async def has_session(self, secret: str) -> bool:
        """There is a live session by this secret."""
        return await self._live(CredentialKind.SESSION, secret) is not None

    async def session(self, secret: str, policy: Policy) -> Session | None:
        """The live session that this is, of a person whom the policy still knows."""
        found = await self._live(CredentialKind.SESSION, secret) if secret.startswith(SESSION_MARK) else None
        person = person_in(policy, found.holder) if found is not None else None
        if found is None or person is None:
            return None
        proved = datetime.fromisoformat(str(found.about["proved"]))
        return Session(found, person, proved, str(found.about.get("how", "")))

    async def rotated(self, session: Session) -> tuple[Session, str] | None:
        """The same session with another secret, if it has had this one for long enough."""
        now = await self._store.now()
        if session.credential.about.get("followed") or now - session.credential.made_at < ROTATE_AFTER:
            return None
        return await self._renewed(session, session.how, session.proved_at)

    async def proved_again(self, session: Session, how: str) -> tuple[Session, str] | None:
        """The session, with another secret, of somebody who has proved once more who they are."""
        return await self._renewed(session, how, await self._store.now())

    async def _renewed(self, session: Session, how: str, proved_at: datetime) -> tuple[Session, str] | None:
        """Another secret in the place of this one; nothing where somebody else has renewed or ended it meanwhile."""
        old, now = session.credential, await self._store.now()
        secret, proved_at = self._secret(SESSION_MARK), proved_at.astimezone(UTC)
        about = {**old.about, "proved": proved_at.isoformat(), "how": how, "followed": False}
        new = Credential(
            self._workspace, CredentialKind.SESSION, _hash(secret), old.holder, now, old.holder,
            expires_at=old.expires_at, about=about,
        )  # fmt: skip
        try:
            await self._put(followed(old, new, now, now + GRACE))
        except StaleRequest:
            return None
        return replace(session, credential=new, proved_at=proved_at, how=how), secret

    async def log_out(self, session: Session) -> None:
        """The session has ended, and so has what it was before it was renewed."""
        by = session.principal
        await self._end_all(
            CredentialKind.SESSION, by, by.name, lambda each: each.about.get("family") == session.family
        )
        await self._quietly(ended(session.credential, by.name, await self._store.now()))

    async def end_sessions(self, by: Principal, person: str) -> None:
        """Whoever is logged in as this person no longer is."""
        await self._end_all(CredentialKind.SESSION, by, person, lambda _: True)

    async def _end_all(
        self, kind: CredentialKind, by: Principal, person: str, which: Callable[[Credential], bool]
    ) -> None:
        now, after = await self._store.now(), ""
        while page := await self._store.credentials(self._workspace, kind, holder=person, after=after):
            for each in page:
                if each.is_live(now) and which(each):
                    await self._quietly(ended(each, by.name, now))
            after = page[-1].id

    def _secret(self, mark: str) -> str:
        return f"{mark}{secrets.token_urlsafe(32)}.{self._workspace}"

    async def _give(
        self, kind: CredentialKind, secret: str, holder: str, by: str, life: timedelta | None, **about: str
    ) -> Credential:
        now = await self._store.now()
        made = Credential(
            self._workspace, kind, _hash(secret), holder, now, by,
            expires_at=now + life if life is not None else None, about=about,
        )  # fmt: skip
        return await self._put(given(made, by))

    async def _live(self, kind: CredentialKind, secret: str) -> Credential | None:
        found = await self._store.credential(self._workspace, kind, _hash(secret))
        return found if found is not None and found.is_live(await self._store.now()) else None

    async def _put(self, change: Change) -> Credential:
        await self._store.transact(self._workspace, None, lambda _: change)
        return change.credentials[0]

    async def _quietly(self, change: Change) -> None:
        """The same, where somebody else may have done it a moment ago."""
        try:
            await self._put(change)
        except StaleRequest:
            return


def _hash(secret: str) -> str:
    """A secret of 256 random bits needs no salt and no slowness."""
    return hashlib.sha256(secret.encode()).hexdigest()


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _nobodys_proof() -> str:
    """What is compared where there is no account, so that both take equally long."""
    return _hasher().hash(secrets.token_urlsafe())


def _matches(proof: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(proof, password)
    except (VerificationError, InvalidHashError):
        return False


def _wait(account: Credential, now: datetime) -> timedelta:
    """How long nobody may try this account's password."""
    failures, failed = account.about.get("failures"), account.about.get("failed")
    if not isinstance(failures, int) or failures < _FREE_TRIES or not isinstance(failed, str):
        return timedelta(0)
    pause = min(_LONGEST_WAIT, timedelta(seconds=2 ** min(failures - _FREE_TRIES, 20)))
    return datetime.fromisoformat(failed) + pause - now
