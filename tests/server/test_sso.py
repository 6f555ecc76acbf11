"""Single sign-on against a real provider that also lies: who comes in, and everything that does not."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc.jwk import RSAKey

from assentry.core.credential import CredentialKind
from tests.server.building import URL, Browser, Building, building
from tests.server.provider import CLIENT, SECRET, Provider, provider


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


@pytest.fixture
async def house(database: str, there: Provider, tmp_path: Path) -> AsyncIterator[Building]:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    named = {"sso_issuer": there.url, "sso_client_id": CLIENT, "sso_client_secret_file": str(tmp_path / "secret")}
    async with building(database, **named) as made:
        yield made


async def begun(browser: Browser, path: str = "/sso/begin", **fields: str) -> str:
    """Where the browser is sent to."""
    form = fields if path == "/sso/begin" else {**fields, "csrf": await browser.csrf("/you")}
    answer = await browser.post(path, data=form, headers={"origin": URL})
    assert answer.status_code == 200, answer.text
    found = re.search(r'href="(http[^"]+)"', answer.text)
    assert found is not None
    return unescape(found.group(1))


async def brought(browser: Browser, back: dict[str, str]) -> httpx.Response:
    """The way back: the page, and what it sends."""
    page = await browser.get("/sso/return", params=back)
    assert page.status_code == 200
    assert "set-cookie" not in page.headers
    return await browser.post("/sso/return", data=back, headers={"origin": URL})


async def signed_on(house: Building, there: Provider, browser: Browser | None = None) -> httpx.Response:
    browser = browser or house.browser()
    return await brought(browser, await there.visit(await begun(browser, next="/r/abc")))


async def test_whom_the_provider_knows_comes_in_under_the_name_of_the_policy(house: Building, there: Provider) -> None:
    browser = house.browser()
    assert "Log in with" in (await browser.get("/login")).text
    answer = await signed_on(house, there, browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/r/abc")
    assert await browser.who() == "ada"
    asked = there.asked[0]
    assert asked["redirect_uri"] == f"{URL}/sso/return"
    assert {"state", "nonce", "code_challenge"} <= set(asked)
    assert "prompt" not in asked
    session = (await house.credentials(CredentialKind.SESSION, "ada"))[0]
    assert session.about["how"] == "sso"
    there.email = "ben@EXAMPLE.com"
    other = house.browser()
    await signed_on(house, there, other)
    assert await other.who() == "ben"


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ({"claims": {"nonce": "another"}}, "nonce"),
        ({"claims": {"nonce": None}}, "nonce"),
        ({"claims": {"aud": "somebody-else"}}, "aud"),
        ({"claims": {"aud": [CLIENT, "somebody-else"]}}, "azp"),
        ({"claims": {"aud": [CLIENT, "x"], "azp": "x"}}, "azp"),
        ({"claims": {"aud": None}}, "aud"),
        ({"claims": {"exp": 1_000_000_000}}, "exp"),
        ({"claims": {"exp": None}}, "exp"),
        ({"claims": {"iat": 9_999_999_999}}, "iat"),
        ({"claims": {"iss": "https://elsewhere.test"}}, "iss"),
        ({"claims": {"iss": None}}, "iss"),
        ({"algorithm": "none"}, "signature"),
        ({"algorithm": "HS256"}, "signature"),
        ({"signs_with": RSAKey.generate_key(2048, {"kid": "one"})}, "signature"),
        ({"verified": False}, "not verified"),
        ({"verified": None}, "not verified"),
        ({"verified": "true"}, "not verified"),
        ({"email": ""}, "does not say who"),
        ({"email": None}, "does not say who"),
        ({"email": "eve@example.com"}, "nobody here"),
        ({"email": "ada@example.com\x00"}, "does not say who"),
    ],
)
async def test_a_provider_that_lies_lets_nobody_in(
    house: Building, there: Provider, lie: dict[str, Any], told: str
) -> None:
    for name, value in lie.items():
        setattr(there, name, value)
    browser = house.browser(headers={"accept": "text/html"})
    answer = await signed_on(house, there, browser)
    assert answer.status_code == 403
    assert told in answer.text or "believed" in answer.text
    assert not browser.cookie
    assert not await house.credentials(CredentialKind.SESSION)


async def test_an_answer_is_taken_once(house: Building, there: Provider) -> None:
    browser = house.browser()
    back = await there.visit(await begun(browser))
    kept = browser.cookies.get("__Host-assentry-sso")
    assert (await brought(browser, back)).status_code == 303
    again = house.browser(cookies={"__Host-assentry-sso": kept})
    there.codes[back["code"]] = there.asked[0]
    assert (await brought(again, back)).status_code == 403
    assert not again.cookie


async def test_an_answer_is_taken_from_the_browser_that_asked(house: Building, there: Provider) -> None:
    attacker, victim = house.browser(), house.browser()
    back = await there.visit(await begun(attacker))
    assert (await brought(victim, back)).status_code == 403, "nobody is logged in as somebody else by a link"
    await begun(victim)
    assert (await brought(victim, back)).status_code == 403
    mixed = {**await there.visit(await begun(victim)), "code": back["code"]}
    assert (await brought(victim, mixed)).status_code == 403, "a code of another question has another verifier"
    assert not victim.cookie
    assert (await brought(attacker, back)).status_code == 403, "the code was used"
    wrong = {**await there.visit(await begun(victim)), "iss": "https://elsewhere.test"}
    assert (await brought(victim, wrong)).status_code == 403


async def test_an_answer_comes_in_time(house: Building, there: Provider) -> None:
    browser = house.browser()
    back = await there.visit(await begun(browser))
    for each in await house.credentials(CredentialKind.CHALLENGE):
        assert each.expires_at is not None
        await house.changed(each, expires_at=each.expires_at - timedelta(minutes=6))
    assert (await brought(browser, back)).status_code == 403


async def test_looking_at_the_way_back_changes_nothing(house: Building, there: Provider) -> None:
    browser = house.browser()
    back = await there.visit(await begun(browser))
    for _ in range(3):
        await browser.get("/sso/return", params=back)
    assert not await house.credentials(CredentialKind.SESSION)
    assert (await brought(browser, back)).status_code == 303
    refused = await browser.get("/sso/return", params={"error": "access_denied", "error_description": "<b>x</b>"})
    assert refused.status_code == 403
    assert "access_denied" in refused.text
    assert "<b>x" not in refused.text


async def test_no_page_of_others_begins_or_ends_it(house: Building, there: Provider) -> None:
    browser = house.browser()
    headers = {"origin": "https://evil.test"}
    assert (await browser.post("/sso/begin", headers=headers)).status_code == 403
    back = await there.visit(await begun(browser))
    assert (await browser.post("/sso/return", data=back, headers=headers)).status_code == 403
    assert (await brought(browser, back)).status_code == 303


async def test_a_provider_that_takes_another_key_is_understood(
    house: Building, there: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await signed_on(house, there)).status_code == 303
    there.key = RSAKey.generate_key(2048, {"kid": "two"})
    assert (await signed_on(house, there)).status_code == 403, "not looked up again at once"
    monkeypatch.setattr("assentry.server.sign_on._AGAIN", 0.0)
    assert (await signed_on(house, there)).status_code == 303


async def test_a_provider_that_is_gone_says_so(house: Building, there: Provider) -> None:
    assert house.premises.sign_on is not None
    house.premises.sign_on.issuer = "http://127.0.0.1:9"
    answer = await house.browser().post("/sso/begin", headers={"origin": URL, "accept": "text/html"})
    assert answer.status_code == 503
    assert "cannot be reached" in answer.text


async def test_a_provider_that_calls_itself_something_else_is_not_asked(house: Building, there: Provider) -> None:
    there.url = "https://elsewhere.test"
    answer = await house.browser().post("/sso/begin", headers={"origin": URL})
    assert answer.status_code == 503


async def test_a_fresh_log_in_there_proves_once_more(house: Building, there: Provider) -> None:
    browser = house.browser()
    await signed_on(house, there, browser)
    await house.aged(CredentialKind.SESSION, "ada", timedelta(hours=1))
    before = browser.cookie
    answer = await brought(browser, await there.visit(await begun(browser, "/sso/prove", next="/r/abc")))
    assert (answer.status_code, answer.headers["location"]) == (303, "/r/abc")
    assert (there.asked[-1]["prompt"], there.asked[-1]["max_age"]) == ("login", "0")
    assert browser.cookie != before
    session = await house.identities.session(browser.cookie, house.desk.judgement.policy)
    assert session is not None
    assert await house.premises.store.now() - session.proved_at < timedelta(minutes=1)


@pytest.mark.parametrize(
    "lie",
    [
        {"logged_in_ago": 3_600.0},
        {"claims": {"auth_time": None}},
        {"claims": {"auth_time": True}},
        {"claims": {"auth_time": "now"}},
        {"claims": {"auth_time": 9_999_999_999}},
        {"email": "ben@example.com"},
    ],
)
async def test_what_is_no_fresh_log_in_of_the_same_person_proves_nothing(
    house: Building, there: Provider, lie: dict[str, Any]
) -> None:
    browser = house.browser()
    await signed_on(house, there, browser)
    before = browser.cookie
    for name, value in lie.items():
        setattr(there, name, value)
    answer = await brought(browser, await there.visit(await begun(browser, "/sso/prove")))
    assert answer.status_code == 403
    assert browser.cookie == before
    assert await browser.who() == "ada"


async def test_a_proof_is_for_the_session_that_asked_for_it(house: Building, there: Provider) -> None:
    browser = house.browser()
    await signed_on(house, there, browser)
    back = await there.visit(await begun(browser, "/sso/prove"))
    await browser.enter(await house.link("ada"))
    assert (await brought(browser, back)).status_code == 403
    assert all(
        each.about["how"] != "sso"
        for each in await house.credentials(CredentialKind.SESSION, "ada")
        if not each.ended_at
    )


async def test_where_no_provider_is_named_there_is_no_such_door(database: str) -> None:
    async with building(database) as house:
        browser = house.browser()
        assert "Log in with" not in (await browser.get("/login")).text.replace("Log in with a passkey", "")
        assert (await browser.post("/sso/begin", headers={"origin": URL})).status_code == 404
        assert (await browser.get("/sso/return", params={"code": "x", "state": "y"})).status_code == 404
