"""Who somebody is: what is kept of secrets, how passwords wait, how sessions are renewed and end."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assentry.assemble import store_for
from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.core.policy import Person, Policy, builtin_policy
from assentry.engine import identity
from assentry.engine.identity import Identities, _wait, is_workspace, workspace_of
from assentry.errors import InvalidDecision, NotAllowed
from assentry.ports import Store
from assentry.settings import load

ADA, PASSWORD = Principal("ada"), "correct horse battery"
POLICY = replace(builtin_policy(), people=(Person("ada"), Person("ben")))
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def quick_passwords() -> None:
    """Here they cost what they cost."""
    identity._nobodys_proof.cache_clear()


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    made = store_for(load({"database": database}))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def identities(store: Store) -> Identities:
    return Identities(store, "default")


def test_a_password_is_slow_to_try_out() -> None:
    hasher = identity._hasher()
    assert (hasher.memory_cost >= 64 * 1024, hasher.time_cost >= 3) == (True, True)


async def test_nothing_secret_is_kept_or_logged(store: Store, identities: Identities) -> None:
    await identities.set_password(ADA, "ada", PASSWORD)
    _, token = await identities.give_token(ADA, "cleanup")
    secrets = [token, await identities.link(ADA, "ada"), await identities.begin_session("ada", "link")]
    kept = [str(each) for kind in CredentialKind for each in await store.credentials("default", kind)]
    await store.sequence("default")
    kept += [entry.text for entry in await store.entries("default")]
    assert len(kept) > 6
    for secret in [PASSWORD, *secrets, *(each[4:47] for each in secrets)]:
        assert not any(secret in text for text in kept)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (4, 0), (5, 1), (6, 2), (9, 16), (14, 512), (15, 900), (1_000, 900)]
)
def test_wrong_passwords_wait_longer_and_longer(failures: int, seconds: int) -> None:
    about = {"failures": failures, "failed": NOW.isoformat()}
    account = Credential("default", CredentialKind.ACCOUNT, "ada", "ada", NOW, "ada", proof="x", about=about)
    assert max(_wait(account, NOW), timedelta(0)) == timedelta(seconds=seconds)
    assert _wait(account, NOW + timedelta(seconds=901)) <= timedelta(0)


async def test_of_two_wrong_passwords_at_once_both_are_counted(store: Store, identities: Identities) -> None:
    await identities.set_password(ADA, "ada", PASSWORD)
    tries = await asyncio.gather(
        *(identities.check_password("ada", "wrong" * 3) for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(each, NotAllowed) for each in tries)
    account = await store.credential("default", CredentialKind.ACCOUNT, "ada")
    assert account is not None
    assert account.about["failures"] == 3


async def test_a_name_that_nobody_has_takes_as_long_as_one_that_somebody_has(identities: Identities) -> None:
    await identities.set_password(ADA, "ada", PASSWORD)

    async def took(name: str) -> float:
        began = time.process_time()
        with pytest.raises(NotAllowed):
            await identities.check_password(name, "wrong password")
        return time.process_time() - began

    await took("nobody")
    known = statistics.median([await took("ada") for _ in range(4)])
    unknown = statistics.median([await took("nobody") for _ in range(4)])
    waiting = statistics.median([await took("ada") for _ in range(3)])
    assert unknown > known / 2
    assert waiting > known / 2


@pytest.mark.parametrize("password", ["", "short", "x" * 1_001])
async def test_a_password_has_a_length(identities: Identities, password: str) -> None:
    with pytest.raises(InvalidDecision):
        await identities.set_password(ADA, "ada", password)
    assert not await identities.has_password("ada")


async def test_an_account_that_was_ended_has_no_password(identities: Identities) -> None:
    await identities.set_password(ADA, "ada", PASSWORD)
    await identities.end(ADA, CredentialKind.ACCOUNT, "ada")
    assert not await identities.has_password("ada")
    with pytest.raises(NotAllowed):
        await identities.check_password("ada", PASSWORD)


async def test_a_session_is_renewed_once_and_the_old_secret_ends_soon(store: Store, identities: Identities) -> None:
    secret = await identities.begin_session("ada", "password")
    young = await identities.session(secret, POLICY)
    assert young is not None
    assert await identities.rotated(young) is None
    aged = replace(young.credential, version=2, made_at=young.credential.made_at - timedelta(hours=13))
    await store.transact("default", None, lambda _: Change(credentials=(aged,)))
    old = await identities.session(secret, POLICY)
    assert old is not None
    renewed = [each for each in await asyncio.gather(*(identities.rotated(old) for _ in range(4))) if each]
    assert len(renewed) == 1
    session, other = renewed[0]
    assert await identities.session(other, POLICY) == session
    assert (session.family, session.proved_at, session.how) == (old.family, old.proved_at, "password")
    assert session.credential.expires_at == old.credential.expires_at, "renewing does not make it longer"
    before = await identities.session(secret, POLICY)
    assert before is not None
    assert before.credential.expires_at is not None
    assert before.credential.expires_at <= await store.now() + timedelta(minutes=1)
    assert await identities.rotated(before) is None
    await identities.log_out(session)
    assert await identities.session(secret, POLICY) is None
    assert await identities.session(other, POLICY) is None


async def test_proving_again_makes_it_fresh_under_another_secret_only(identities: Identities) -> None:
    secret = await identities.begin_session("ada", "link")
    session = await identities.session(secret, POLICY)
    assert session is not None
    again = await identities.proved_again(session, "password")
    assert again is not None
    fresh, other = again
    assert other != secret
    assert fresh.proved_at > session.proved_at
    old = await identities.session(secret, POLICY)
    assert old is not None
    assert (old.how, old.proved_at) == ("link", session.proved_at)


async def test_whom_the_policy_does_not_know_has_no_session(identities: Identities) -> None:
    secret = await identities.begin_session("eve", "password")
    assert await identities.session(secret, POLICY) is None
    alone = await identities.session(secret, Policy())
    assert alone is not None
    assert alone.principal.kind == "person"


async def test_what_is_for_one_use_is_for_no_other(store: Store, identities: Identities) -> None:
    _, token = await identities.give_token(ADA, "ada")
    link, session = await identities.link(ADA, "ada"), await identities.begin_session("ada", "link")
    marks = ("aat_", "apl_", "aps_")
    for secret in (token, link, session):
        for mark in marks:
            shown = mark + secret[4:]
            found = [
                await identities.agent(shown),
                await identities.link_for(shown),
                await identities.session(shown, POLICY),
            ]
            assert [each is not None for each in found] == [shown == each for each in (token, link, session)]
    other = Identities(store, "other")
    assert await other.agent(token) is None
    assert await other.link_for(link) is None
    assert await other.session(session, POLICY) is None


@pytest.mark.parametrize(
    ("secret", "workspace"), [("aps_x.a.b", "a.b"), ("aps_x", ""), ("aps_x.a\x00", ""), ("aps_x.a/b", "")]
)
def test_a_secret_names_its_workspace(secret: str, workspace: str) -> None:
    assert workspace_of(secret) == workspace
    assert is_workspace(workspace) == bool(workspace)


async def test_who_is_on_duty_decides_and_who_is_not_does_not(house):
    await house.policy("""
people: {ada: {}, ben: {}}
rotas:
  nights: {weekly: [ada], from: "2020-01-06T00:00:00+00:00"}
  past: {turns: [{person: ben, from: "2020-01-06T00:00:00+00:00", to: "2020-01-07T00:00:00+00:00"}]}
rules: [{name: duty, actions: [wipe], gate: hard, reviewers: ["rota:nights", "rota:past"]}]
""")
    request = (await house.gate.propose("wipe", {"disk": "a"})).request
    assert "rota:nights" in house.inbox.may_decide(Principal("ben"), request)
    with pytest.raises(NotAllowed):
        await house.inbox.approve(Principal("ben"), request.id)
    assert house.inbox.may_decide(ADA, request) is None
    await house.inbox.approve(ADA, request.id)
