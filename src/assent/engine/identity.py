"""Who somebody is: tokens for agents, one-time links, passwords and sessions for people.

What is secret is shown once and kept as a hash. An agent's token finds an agent and never a person; nothing here
makes one of the other.
"""

import hashlib
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from assent.core.authority import EVERYTHING, Principal, principal_named
from assent.core.change import Change
from assent.core.credential import Credential, CredentialKind
from assent.core.policy import Policy
from assent.core.proving import changed, ended, given, noted
from assent.engine.threads import in_thread
from assent.errors import InvalidDecision, NotAllowed, NotFound, StaleRequest
from assent.ports import Store

LINK_LIFE = timedelta(minutes=10)
SESSION_LIFE = timedelta(days=14)
ROTATE_AFTER = timedelta(hours=12)
"""A cookie that was stolen is of use for so long at most while its owner goes on working."""
PROOF_LIFE = timedelta(minutes=10)
"""For so long after somebody proved who they are they may decide what is critical."""
SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1_000
_FREE_TRIES = 5
_LONGEST_WAIT = timedelta(minutes=15)

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


def person_in(policy: Policy, name: str) -> Principal | None:
    """The person of this name: as the policy has them, or the only one there is where it names nobody."""
    if policy.people:
        return principal_named(policy, name)
    return Principal(name, "person", (EVERYTHING,), (EVERYTHING,))


def workspace_of(secret: str) -> str:
    """The workspace that a token, a cookie or a link is for, as it says itself."""
    return secret.partition(".")[2]


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

    async def enter(self, secret: str) -> str:
        """A session for the person of this link, which is used up."""
        link = await self.link_for(secret)
        if link is None:
            raise NotAllowed("this link was used already, or is too old; ask for another one", principal="")
        try:
            await self._put(ended(link, link.holder, await self._store.now()))
        except StaleRequest:
            raise NotAllowed("this link was used a moment ago; ask for another one", principal="") from None
        return await self.begin_session(link.holder, "link")

    async def set_password(self, by: Principal, person: str, password: str) -> None:
        """The person logs in with this password; whoever was logged in as them no longer is."""
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

    async def has_password(self, person: str) -> bool:
        """The person has one."""
        found = await self._store.credential(self._workspace, CredentialKind.ACCOUNT, person)
        return found is not None and bool(found.proof)

    async def check_password(self, person: str, password: str) -> None:
        """It is theirs, or the error says nothing about why not. Wrong ones make the next try wait."""
        account = await self._store.credential(self._workspace, CredentialKind.ACCOUNT, person)
        now = await self._store.now()
        if account is not None and (wait := _wait(account, now)) > timedelta(0):
            seconds = int(wait.total_seconds()) + 1
            raise NotAllowed(f"too many wrong passwords; try again in {seconds} s", principal=person)
        proof = account.proof if account is not None and account.proof else _nobodys_proof()
        right = await in_thread(_matches, proof, password[: LONGEST_PASSWORD + 1])
        if account is None or not account.proof or not right:
            if account is not None:
                await self._failed(account, now)
            raise NotAllowed("this name and password do not belong together", principal=person)
        if account.about.get("failures"):
            await self._quietly(noted(account, failures=0))

    async def log_in(self, person: str, password: str) -> str:
        """A session for who knows the password."""
        await self.check_password(person, password)
        return await self.begin_session(person, "password")

    async def begin_session(self, person: str, how: str, **about: str) -> str:
        """The secret of a new session of somebody who has just proved who they are."""
        secret = self._secret(SESSION_MARK)
        proved = (await self._store.now()).isoformat()
        await self._give(CredentialKind.SESSION, secret, person, person, SESSION_LIFE, proved=proved, how=how, **about)
        return secret

    async def has_session(self, secret: str) -> bool:
        """There is a live session by this secret."""
        return await self._live(CredentialKind.SESSION, secret) is not None

    async def session(self, secret: str, policy: Policy) -> Session | None:
        """The live session that this is, of a person whom the policy still knows."""
        if not secret.startswith(SESSION_MARK):
            return None
        found = await self._live(CredentialKind.SESSION, secret)
        person = person_in(policy, found.holder) if found is not None else None
        if found is None or person is None:
            return None
        proved = datetime.fromisoformat(str(found.about["proved"]))
        return Session(found, person, proved, str(found.about.get("how", "")))

    async def rotated(self, session: Session) -> str | None:
        """Another secret for the same session, if it has had this one for long enough."""
        now = await self._store.now()
        if now - session.credential.made_at < ROTATE_AFTER:
            return None
        return await self._renewed(session, session.how, session.proved_at)

    async def proved_again(self, session: Session, how: str) -> str | None:
        """Another secret for the session of somebody who has proved once more who they are."""
        return await self._renewed(session, how, await self._store.now())

    async def _renewed(self, session: Session, how: str, proved_at: datetime) -> str | None:
        """A new session in the place of this one; nothing where that has ended meanwhile."""
        old, now = session.credential, await self._store.now()
        secret = self._secret(SESSION_MARK)
        about = {**old.about, "proved": proved_at.astimezone(UTC).isoformat(), "how": how}
        new = Credential(
            self._workspace, CredentialKind.SESSION, _hash(secret), old.holder, now, old.holder,
            expires_at=old.expires_at, about=about,
        )  # fmt: skip
        gone, come = ended(old, old.holder, now), given(new, old.holder)
        both = Change(credentials=gone.credentials + come.credentials, entries=gone.entries + come.entries)
        try:
            await self._put(both)
        except StaleRequest:
            return None
        return secret

    async def log_out(self, session: Session) -> None:
        """The session has ended."""
        await self._quietly(ended(session.credential, session.principal.name, await self._store.now()))

    async def end_sessions(self, by: Principal, person: str) -> None:
        """Whoever is logged in as this person no longer is."""
        now, after = await self._store.now(), ""
        while page := await self._store.credentials(
            self._workspace, CredentialKind.SESSION, holder=person, after=after
        ):
            for each in page:
                if each.ended_at is None:
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

    async def _failed(self, account: Credential, now: datetime) -> None:
        before = account.about.get("failures")
        failures = (before if isinstance(before, int) else 0) + 1
        await self._quietly(noted(account, failures=failures, failed=now.isoformat()))

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
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _nobodys_proof() -> str:
    """What is compared where there is no account, so that both take equally long."""
    return _hasher().hash(secrets.token_urlsafe())


def _matches(proof: str, password: str) -> bool:
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
