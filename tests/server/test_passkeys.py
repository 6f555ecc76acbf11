"""Passkeys: added by who just proved themselves, used once per challenge, and only by whose they are."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from assentry.core.authority import Principal
from assentry.core.credential import CredentialKind
from assentry.server.knocks import MOST
from tests.server.authenticator import Authenticator
from tests.server.building import URL, Browser, Building


async def sent(browser: Browser, path: str, **fields: str) -> httpx.Response:
    headers = {"origin": URL, "x-assentry-csrf": await browser.csrf("/you"), "accept": "application/json"}
    return await browser.post(path, data=fields, headers=headers)


async def with_a_key(
    house: Building, name: str = "ada", device: Authenticator | None = None
) -> tuple[Browser, Authenticator]:
    """A browser where this person has come in and added a passkey."""
    browser, device = house.browser(), device or Authenticator()
    await browser.enter(await house.link(name))
    asked = (await sent(browser, "/you/passkeys/ask")).json()
    added = await sent(browser, "/you/passkeys", answer=device.made(asked), name="laptop")
    assert added.status_code == 200, added.text
    return browser, device


async def proved(browser: Browser, device: Authenticator, **how: Any) -> httpx.Response:
    asked = (await sent(browser, "/prove/passkey/ask")).json()
    return await sent(browser, "/prove/passkey", answer=device.signed(asked, **how), next="/r/abc")


async def test_a_passkey_is_added_used_to_prove_and_removed(house: Building) -> None:
    browser, device = await with_a_key(house)
    key = (await house.credentials(CredentialKind.PASSKEY, "ada"))[0]
    assert "laptop" in (await browser.get("/you")).text
    await house.aged(CredentialKind.SESSION, "ada", timedelta(hours=1))
    before = browser.cookie
    answer = await proved(browser, device)
    assert (answer.status_code, answer.json()) == (200, {"next": "/r/abc"})
    assert browser.cookie != before
    session = await house.identities.session(browser.cookie, house.desk.judgement.policy)
    assert session is not None
    assert session.how == "passkey"
    assert (await house.credentials(CredentialKind.PASSKEY, "ada"))[0].about["sign_count"] == 1
    assert (await sent(browser, f"/you/passkeys/{key.id}/remove")).status_code == 303
    assert (await proved(browser, device)).status_code == 403
    assert not await (await house.premises.room("default")).passkeys.of("ada")


async def test_a_passkey_lets_in(house: Building) -> None:
    _, device = await with_a_key(house, "ben")
    door = house.browser()
    asked = (await door.post("/login/passkey/ask", headers={"origin": URL})).json()
    assert asked["userVerification"] == "required"
    assert asked.get("allowCredentials", []) == [], "nobody learns who has which keys"
    fields = {"answer": device.signed(asked), "next": "//evil.test"}
    answer = await door.post("/login/passkey", data=fields, headers={"origin": URL})
    assert (answer.status_code, answer.json()) == (200, {"next": "/"})
    assert await door.who() == "ben"
    again = await house.browser().post("/login/passkey", data=fields, headers={"origin": URL})
    assert again.status_code == 403, "a challenge is answered once"
    await house.policy("people: {ada: {}}")
    asked = (await door.post("/login/passkey/ask", headers={"origin": URL})).json()
    gone = await door.post("/login/passkey", data={"answer": device.signed(asked)}, headers={"origin": URL})
    assert gone.status_code == 403, "whom the policy does not know stays outside"


@pytest.mark.parametrize(
    "lie", [{"rp_id": "evil.test"}, {"origin": "https://evil.test"}, {"flags": 0x01}, {"flags": 0x04}, {"count": -1}]
)
async def test_a_device_that_lies_proves_nothing(house: Building, lie: dict[str, Any]) -> None:
    browser, device = await with_a_key(house)
    device.count = 7
    assert (await proved(browser, device)).status_code == 200
    for name, value in lie.items():
        setattr(device, name, value)
    assert (await proved(browser, device)).status_code == 403


async def test_a_copied_device_shows_by_its_count(house: Building) -> None:
    browser, device = await with_a_key(house)
    copy = Authenticator(keys=dict(device.keys))
    for _ in range(3):
        assert (await proved(browser, device)).status_code == 200
    assert (await proved(browser, copy)).status_code == 403
    assert (await proved(browser, device)).status_code == 200


async def test_a_key_of_another_person_or_another_device_proves_nothing(house: Building) -> None:
    browser, device = await with_a_key(house, "ada")
    _, bens = await with_a_key(house, "ben")
    assert (await proved(browser, bens)).status_code == 403
    forged = Authenticator()
    forged.made({"challenge": "x"})
    forged.keys = {next(iter(device.keys)): next(iter(forged.keys.values()))}
    assert (await proved(browser, forged)).status_code == 403


async def test_a_challenge_is_for_one_person_one_use_and_some_minutes(house: Building) -> None:
    ada, device = await with_a_key(house, "ada")
    ben, bens = await with_a_key(house, "ben")
    asked = (await sent(ada, "/prove/passkey/ask")).json()
    assert (await sent(ben, "/prove/passkey", answer=bens.signed(asked))).status_code == 403, "it was asked of ada"
    assert (await sent(ada, "/prove/passkey", answer=device.signed(asked))).status_code == 403, "and is used up"
    asked = (await sent(ada, "/prove/passkey/ask")).json()
    door = await house.browser().post("/login/passkey", data={"answer": device.signed(asked)}, headers={"origin": URL})
    assert door.status_code == 403, "what was asked of somebody is no way in"
    assert (await proved(ada, device)).status_code == 200
    asked = (await sent(ada, "/you/passkeys/ask")).json()
    refused = await sent(ada, "/prove/passkey", answer=device.signed(asked))
    assert refused.status_code == 403, "what was asked for a new key is no proof"
    asked = (await sent(ada, "/prove/passkey/ask")).json()
    for each in await house.credentials(CredentialKind.CHALLENGE, "ada"):
        if each.ended_at is None:
            assert each.expires_at is not None
            await house.changed(each, expires_at=each.expires_at - timedelta(minutes=6))
    assert (await sent(ada, "/prove/passkey", answer=device.signed(asked))).status_code == 403


DEEP = ("[" * 5_000, '{"id": ' * 2_000 + "1" + "}" * 2_000, '{"id": ' + "[" * 9_000 + "]" * 9_000 + "}")


@pytest.mark.parametrize(
    "answer", ["", "[]", "{", "{}", '{"id": 3}', '{"id": "x", "response": {"clientDataJSON": "\\u0000"}}', *DEEP]
)
async def test_nonsense_is_refused(house: Building, answer: str) -> None:
    browser, _ = await with_a_key(house)
    for path in ("/prove/passkey", "/you/passkeys", "/login/passkey"):
        assert (await sent(browser, path, answer=answer)).status_code in (403, 422)


async def test_what_proves_somebody_is_changed_only_by_who_just_proved_it(house: Building) -> None:
    browser, device = await with_a_key(house)
    await house.aged(CredentialKind.SESSION, "ada", timedelta(hours=1))
    for path, fields in (
        ("/you/passkeys/ask", {}),
        ("/you/passkeys", {"answer": "{}"}),
        ("/settings/password", {"new": "another battery horse", "again": "another battery horse"}),
    ):
        answer = await sent(browser, path, **fields)
        assert answer.status_code == 403
        assert answer.json()["step_up"] == "/prove"
    await proved(browser, device)
    old = house.browser(cookies={"__Host-assentry": browser.cookie})
    fields = {"new": "another battery horse", "again": "another battery horse"}
    assert (await sent(browser, "/settings/password", **fields)).status_code == 303
    assert await browser.who() == ""
    assert await old.who() == "", "every other session has ended"
    assert (await house.browser().log_in("ada", "another battery horse")).status_code == 303


async def test_who_has_only_links_needs_a_new_one_to_add_a_passkey(house: Building) -> None:
    browser = house.browser()
    await browser.enter(await house.link("ada"))
    await house.aged(CredentialKind.SESSION, "ada", timedelta(hours=1))
    refused = await sent(browser, "/you/passkeys/ask")
    assert refused.status_code == 403
    assert "new link" in refused.json()["detail"]


async def test_an_agent_has_no_passkeys(house: Building) -> None:
    _, token = await house.identities.give_token(Principal("ada"), "ada")
    for path in ("/you/passkeys/ask", "/you/passkeys", "/prove/passkey/ask", "/prove/passkey"):
        answer = await house.browser().post(
            path, data={"answer": json.dumps({})}, headers={"authorization": f"Bearer {token}"}
        )
        assert answer.status_code in (403, 422)
    assert not await house.credentials(CredentialKind.CHALLENGE)


async def test_nobody_knocks_for_ever(house: Building) -> None:
    door = house.browser()
    answers = [await door.post("/login/passkey/ask", headers={"origin": URL}) for _ in range(MOST + 1)]
    assert [each.status_code for each in answers] == [200] * MOST + [429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    assert len(await house.credentials(CredentialKind.CHALLENGE, "")) == MOST
