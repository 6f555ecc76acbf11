"""The contract, seventh part: what proves who somebody is."""

from dataclasses import replace
from datetime import timedelta

import pytest

from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.core.proving import ended, given, noted
from assentry.errors import StaleRequest
from assentry.ports import Store
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_contract_use import Heard
from assentry.testing.store_values import LONG_AGO, WORKSPACE

TOKEN = Credential(WORKSPACE, CredentialKind.TOKEN, "a1", "cleanup", LONG_AGO, "ada", about={"name": "laptop"})


async def put(store: Store, change: Change) -> Credential:
    """The credential, committed."""
    made = await store.transact(WORKSPACE, None, lambda _: change)
    assert made is not None
    return made.credentials[0]


class Credentials(StorePlace):
    """What every store does with credentials."""

    async def test_a_credential_is_found_by_kind_and_id(self, store: Store) -> None:
        await put(store, given(TOKEN, "ada"))
        assert await store.credential(WORKSPACE, CredentialKind.TOKEN, "a1") == TOKEN
        assert await store.credential(WORKSPACE, CredentialKind.SESSION, "a1") is None
        assert await store.credential("other", CredentialKind.TOKEN, "a1") is None

    async def test_they_are_listed_by_holder_and_page(self, store: Store) -> None:
        for number, holder in enumerate(("cleanup", "mail", "cleanup")):
            await put(store, given(replace(TOKEN, id=f"a{number}", holder=holder), "ada"))
        everyone = await store.credentials(WORKSPACE, CredentialKind.TOKEN)
        assert [each.id for each in everyone] == ["a0", "a1", "a2"]
        of_one = await store.credentials(WORKSPACE, CredentialKind.TOKEN, holder="cleanup", after="a0", limit=1)
        assert [each.id for each in of_one] == ["a2"]

    async def test_one_id_is_given_once(self, store: Store) -> None:
        await put(store, given(TOKEN, "ada"))
        with pytest.raises(StaleRequest):
            await put(store, given(replace(TOKEN, holder="another"), "ada"))

    async def test_a_credential_is_changed_from_how_it_is(self, store: Store) -> None:
        await put(store, given(TOKEN, "ada"))
        stopped = await put(store, ended(TOKEN, "ada", LONG_AGO))
        assert not stopped.is_live(LONG_AGO)
        with pytest.raises(StaleRequest):
            await put(store, noted(TOKEN, used=1))
        assert await store.credential(WORKSPACE, CredentialKind.TOKEN, "a1") == stopped

    async def test_who_was_given_what_is_on_record_and_no_secret_is(self, store: Store) -> None:
        await put(store, given(replace(TOKEN, proof="s3cret"), "ada"))
        await put(store, given(replace(TOKEN, kind=CredentialKind.REPLY), "ada"))
        await store.sequence(WORKSPACE)
        (entry,) = await store.entries(WORKSPACE)
        assert "identity.given" in entry.text
        assert "s3cret" not in entry.text

    async def test_a_change_is_heard_of(self, store: Store) -> None:
        heard = Heard()
        stop = store.watch(heard)
        await put(store, given(TOKEN, "ada"))
        await heard.until(lambda told: any(key.startswith("identity:") for key in told.versions))
        stop()

    async def test_what_has_long_ended_is_forgotten_and_tokens_are_not(self, store: Store) -> None:
        now = await store.now()
        past, coming = now - timedelta(days=2), now + timedelta(days=2)
        for kind in (CredentialKind.TOKEN, CredentialKind.SESSION, CredentialKind.REPLY):
            for name, expires in (("old", past), ("new", coming)):
                await put(store, given(replace(TOKEN, kind=kind, id=name, expires_at=expires), "ada"))
        await store.forget_credentials(WORKSPACE, now)
        left = {
            kind: [each.id for each in await store.credentials(WORKSPACE, kind)]
            for kind in (CredentialKind.TOKEN, CredentialKind.SESSION, CredentialKind.REPLY)
        }
        assert left == {
            CredentialKind.TOKEN: ["new", "old"],
            CredentialKind.SESSION: ["new"],
            CredentialKind.REPLY: ["new"],
        }
