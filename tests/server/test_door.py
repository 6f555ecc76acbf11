"""The door: who comes in, by what, for how long, and who stays outside."""

import asyncio
from datetime import timedelta

import pytest

from assentry.core.authority import Principal
from assentry.core.credential import CredentialKind
from assentry.engine.identity import Identities, workspace_of
from assentry.server.pages.frame import local_path
from tests.server.building import HOST, PASSWORD, PEOPLE, URL, Building


async def test_looking_at_a_link_does_not_use_it_up_and_its_button_does_once(house: Building) -> None:
    link, browser = await house.link("ada"), house.browser()
    for _ in range(3):
        page = await browser.get("/enter", params={"link": link})
        assert page.status_code == 200
        assert "ada" in page.text
    assert not browser.cookie
    assert (await browser.enter(link)).status_code == 303
    assert await browser.who() == "ada"
    second = house.browser()
    assert (await second.enter(link)).status_code == 403
    assert await second.who() == ""
    assert (await second.get("/enter", params={"link": link})).status_code == 410


async def test_of_many_who_press_at_once_one_comes_in(house: Building) -> None:
    link = await house.link("ada")
    browsers = [house.browser() for _ in range(8)]
    answers = await asyncio.gather(*(browser.enter(link) for browser in browsers))
    assert sorted(answer.status_code for answer in answers) == [303] + [403] * 7


async def test_a_link_that_is_too_old_or_nonsense_is_nothing(house: Building) -> None:
    old = await house.identities.link(Principal("ada"), "ada", timedelta(seconds=-1))
    for link in (
        old,
        "",
        "apl_x",
        "apl_x.default",
        "apl_x.\x00",
        "apl_x.\ud800".encode("utf-8", "replace").decode(),
        "x" * 399,
    ):
        assert (await house.browser().get("/enter", params={"link": link})).status_code == 410
        assert (await house.browser().enter(link)).status_code in (403, 422)


async def test_the_cookie_is_for_this_host_and_https_and_no_script_reads_it(house: Building) -> None:
    browser = house.browser()
    answer = await browser.enter(await house.link("ada"))
    set_cookie = answer.headers["set-cookie"]
    assert set_cookie.startswith("__Host-assentry=aps_")
    assert {"Path=/", "Secure", "HttpOnly", "SameSite=lax"} <= {part.strip() for part in set_cookie.split(";")}
    assert "Domain" not in set_cookie
    out = await browser.fill("/logout")
    assert out.headers["set-cookie"].startswith('__Host-assentry="";')
    assert "Secure" in out.headers["set-cookie"]


async def test_behind_a_proxy_that_says_nothing_cookies_are_still_for_https(house: Building) -> None:
    browser = house.browser(f"http://{HOST}")
    answer = await browser.post("/enter", data={"link": await house.link("ada")}, headers={"origin": URL})
    assert answer.headers["set-cookie"].startswith("__Host-assentry=")


async def test_a_password_lets_in_and_a_wrong_one_does_not(house: Building) -> None:
    await house.password("ada")
    browser = house.browser()
    wrong = await browser.log_in("ada", "something else entirely")
    assert wrong.status_code == 403
    assert not browser.cookie
    unknown = await browser.log_in("nobody", "something else entirely")
    assert unknown.text == wrong.text.replace('value="ada"', 'value="nobody"')
    assert (await browser.log_in("a\x00da")).status_code == 403
    right = await browser.log_in("ada", next="/r/abc?x=1")
    assert (right.status_code, right.headers["location"]) == (303, "/r/abc?x=1")
    assert await browser.who() == "ada"


async def test_after_wrong_passwords_the_right_one_waits_and_nobody_is_told_why(house: Building) -> None:
    await house.password("ada")
    answers = await asyncio.gather(*(house.browser().log_in("ada", f"wrong number {n}") for n in range(8)))
    assert {answer.status_code for answer in answers} == {403}
    account = (await house.credentials(CredentialKind.ACCOUNT, "ada"))[0]
    assert account.about["failures"] in range(5, 9), "every try of a crowd counts"
    account = await house.changed(account, about={**account.about, "failures": 12})
    right = await house.browser().log_in("ada")
    assert right.status_code == 403
    assert right.text == answers[0].text
    account = (await house.credentials(CredentialKind.ACCOUNT, "ada"))[0]
    assert account.about["failures"] == 12, "a try that has to wait is not made"
    await house.changed(account, about={**account.about, "failed": (account.made_at - timedelta(hours=1)).isoformat()})
    assert (await house.browser().log_in("ada")).status_code == 303
    assert (await house.credentials(CredentialKind.ACCOUNT, "ada"))[0].about["failures"] == 0


async def test_a_crowd_at_the_door_is_sent_away_instead_of_holding_everybody_up(house: Building) -> None:
    house.premises.checking = 32
    assert (await house.browser().log_in("ada")).status_code == 429
    house.premises.checking = 0
    assert (await house.browser().log_in("ada")).status_code == 403
    assert house.premises.checking == 0


async def test_who_is_no_longer_in_the_policy_is_nobody_at_the_next_call(house: Building) -> None:
    await house.password("ben")
    browser = house.browser()
    await browser.log_in("ben")
    assert await browser.who() == "ben"
    await house.policy("people: {ada: {roles: [operator]}}")
    assert await browser.who() == ""
    assert (await browser.get("/")).headers["location"].startswith("/login")
    assert (await house.browser().log_in("ben")).status_code == 403
    assert (await house.browser().enter(await house.link("ben"))).status_code == 403


async def test_another_password_ends_every_session_of_theirs(house: Building) -> None:
    await house.password("ada")
    browsers = [house.browser() for _ in range(3)]
    for browser in browsers:
        await browser.log_in("ada")
    await house.password("ada", "another battery horse")
    assert [await browser.who() for browser in browsers] == ["", "", ""]
    assert (await house.browser().log_in("ada")).status_code == 403


async def test_logging_out_ends_this_session_and_no_other(house: Building) -> None:
    await house.password("ada")
    here, there = house.browser(), house.browser()
    await here.log_in("ada")
    await there.log_in("ada")
    kept = here.cookie
    assert (await here.fill("/logout")).status_code == 303
    assert not here.cookie
    assert await house.browser(cookies={"__Host-assentry": kept}).who() == ""
    assert await there.who() == "ada"


async def test_coming_in_anew_ends_what_this_browser_had(house: Building) -> None:
    browser = house.browser()
    await browser.enter(await house.link("ada"))
    first = browser.cookie
    await browser.enter(await house.link("ben"))
    assert await browser.who() == "ben"
    assert browser.cookie != first
    assert await house.browser(cookies={"__Host-assentry": first}).who() == ""


async def test_a_session_is_never_one_that_the_browser_brought(house: Building) -> None:
    brought = "aps_" + "a" * 43 + ".default"
    browser = house.browser()
    answer = await browser.post(
        "/enter",
        data={"link": await house.link("ada")},
        headers={"origin": URL, "cookie": f"__Host-assentry={brought}"},
    )
    assert brought not in answer.headers["set-cookie"]
    assert await house.browser(cookies={"__Host-assentry": brought}).who() == ""


async def test_a_cookie_is_renewed_by_a_change_and_never_by_a_look(house: Building) -> None:
    browser = house.browser()
    await browser.enter(await house.link("ada"))
    csrf, old = await browser.csrf(), browser.cookie
    await house.aged(CredentialKind.SESSION, "ada", timedelta(hours=13))
    for page in ("/", "/login", "/prove"):
        assert "set-cookie" not in (await browser.get(page)).headers
    answer = await browser.post("/r/none/seen", headers={"x-assentry-csrf": csrf, "origin": URL})
    assert answer.status_code == 404, "whatever the answer is, it carries the cookie"
    new = browser.cookie
    assert new != old
    assert await browser.csrf() == csrf, "pages that are open stay good"
    late = house.browser(cookies={"__Host-assentry": old})
    assert await late.who() == "ada", "calls on their way are not lost"
    again = await late.post("/r/none/seen", headers={"x-assentry-csrf": csrf})
    assert "set-cookie" not in again.headers, "the old one does not become a second session"
    await house.aged(CredentialKind.SESSION, "ada", timedelta(0))
    for each in await house.credentials(CredentialKind.SESSION, "ada"):
        if each.about["followed"]:
            assert each.expires_at is not None
            await house.changed(each, expires_at=each.expires_at - timedelta(minutes=2))
    assert await late.who() == ""
    assert await browser.who() == "ada"


async def test_logging_out_right_after_a_renewal_leaves_nothing_behind(house: Building) -> None:
    browser = house.browser()
    await browser.enter(await house.link("ada"))
    old = browser.cookie
    await house.aged(CredentialKind.SESSION, "ada", timedelta(hours=13))
    await browser.fill("/logout")
    assert not browser.cookie
    for each in await house.credentials(CredentialKind.SESSION, "ada"):
        assert each.ended_at is not None
    assert await house.browser(cookies={"__Host-assentry": old}).who() == ""


async def test_a_token_is_no_session_and_a_session_no_token(house: Building) -> None:
    _, token = await house.identities.give_token(Principal("ada"), "cleanup")
    assert await house.browser(cookies={"__Host-assentry": token}).who() == ""
    browser = house.browser()
    await browser.enter(await house.link("ada"))
    for header in (
        f"Bearer {token}",
        f"Bearer {browser.cookie.replace('aps_', 'aat_')}",
        f"Bearer {token.replace('aat_', 'aps_')}",
    ):
        answer = await house.browser().get("/prove", headers={"authorization": header, "accept": "application/json"})
        assert answer.status_code in (401, 403)
    assert await house.identities.agent(browser.cookie) is None
    both = await browser.get("/prove", headers={"authorization": f"Bearer {token}", "accept": "application/json"})
    assert both.status_code == 403, "a token beside a cookie is an agent's call"


async def test_a_session_of_one_workspace_is_nobody_in_another(house: Building) -> None:
    other = Identities(house.premises.store, "other")
    secret = await other.begin_session("ada", "link")
    assert workspace_of(secret) == "other"
    elsewhere = secret.replace(".other", ".default")
    assert await house.browser(cookies={"__Host-assentry": elsewhere}).who() == ""
    assert await house.identities.session(secret, house.desk.judgement.policy) is None
    await house.password("ada")
    assert (await house.browser().log_in("ada", workspace="other")).status_code == 403
    assert (await house.browser().log_in("ada", workspace="\x00")).status_code == 303, "no workspace is the usual one"


async def test_a_page_of_others_logs_nobody_in_or_out(house: Building) -> None:
    await house.password("ada")
    browser = house.browser()
    form = {"name": "ada", "password": PASSWORD}
    for headers in (
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert (await browser.post("/login", data=form, headers=headers)).status_code == 403
        assert (
            await browser.post("/enter", data={"link": await house.link("ada")}, headers=headers)
        ).status_code == 403
    await browser.log_in("ada")
    csrf = await browser.csrf()
    for headers in ({"origin": "https://evil.test"}, {"sec-fetch-site": "cross-site"}, {"origin": f"http://{HOST}"}):
        assert (await browser.post("/logout", data={"csrf": csrf}, headers=headers)).status_code == 403
    for wrong in ("", "0" * 40, csrf[:-1]):
        assert (await browser.post("/logout", data={"csrf": wrong}, headers={"origin": URL})).status_code == 403
    assert await browser.who() == "ada"


async def test_another_name_for_this_server_is_turned_away(house: Building) -> None:
    assert (await house.browser("https://evil.test").get("/login")).status_code == 421


@pytest.mark.parametrize(
    "path", ["//evil.test", "/\\evil.test", "https://evil.test", "/\t/evil.test", "//[", "", "x", "/a\n"]
)
async def test_after_the_log_in_nobody_is_led_away(path: str) -> None:
    assert local_path(path) == "/"


async def test_where_nobody_is_named_a_link_is_all_it_takes(house: Building) -> None:
    await house.policy("autonomy: balanced")
    browser = house.browser()
    await browser.enter(await house.link("whoever"))
    assert await browser.who() == "whoever"
    await house.policy(PEOPLE)
    assert await browser.who() == ""


async def test_a_terminal_logs_in_by_the_same_rules(house: Building) -> None:
    await house.password("ben")
    link, door = await house.link("ben"), house.browser()
    for proof in ({"link": link}, {"name": "ben", "password": PASSWORD}):
        answer = await door.post("/api/v1/sessions", json=proof)
        assert answer.status_code == 201
        assert "set-cookie" not in answer.headers
    for proof in (
        {"link": link},
        {"name": "ben", "password": "wrong password"},
        {"name": "b\x00en", "password": PASSWORD},
    ):
        assert (await door.post("/api/v1/sessions", json=proof)).status_code == 403
    again = await house.link("ben")
    await house.policy("people: {ada: {}}")
    for proof in ({"link": again}, {"name": "ben", "password": PASSWORD}):
        assert (await door.post("/api/v1/sessions", json=proof)).status_code == 403


async def test_another_password_ends_links_that_were_not_used(house: Building) -> None:
    link = await house.link("ada")
    await house.password("ada")
    assert (await house.browser().enter(link)).status_code == 403
