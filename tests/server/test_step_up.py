"""Step-up: who lets something critical pass has just proved who they are, where they have anything to prove it with."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

import assentry
from assentry.core.briefing import brief
from assentry.core.credential import CredentialKind
from assentry.core.request import Request, State
from tests.server.building import PASSWORD, PEOPLE, URL, Browser, Building
from tests.server.test_passkeys import proved, with_a_key

POLICY = f"""
{PEOPLE}
self_review: allow
rules:
  - {{name: by hand, actions: [wipe], gate: manual}}
  - {{name: much, actions: [pay], when: "args.amount > 100", gate: manual}}
  - {{name: little, actions: [pay, note], gate: hard}}
"""


@pytest.fixture
async def ready(house: Building) -> Building:
    await house.policy(POLICY)
    await house.gate._judgement.refresh()
    return house


async def asked(house: Building, action: str, args: dict[str, Any], **more: Any) -> Request:
    proposal = await house.gate.propose(action, args, **more)
    found = await house.premises.store.request("default", proposal.request.id)
    assert found is not None
    assert found.state is State.PENDING
    return found


async def said(browser: Browser, house: Building, request: Request, word: str, **more: str) -> httpx.Response:
    """A decision with everything that the card asks for."""
    card = brief(request, await house.premises.store.now())
    fields = {
        "word": word,
        "seen_digest": card.digest,
        "confirm": card.phrase,
        **more,
        "csrf": await browser.csrf("/you"),
    }
    headers = {"origin": URL, "accept": "application/json"}
    return await browser.post(f"/r/{request.code}/decide", data=fields, headers=headers)


async def come_in(house: Building, name: str = "ada", *, old: bool = False, password: bool = True) -> Browser:
    browser = house.browser()
    if password:
        await house.password(name)
        await browser.log_in(name)
    else:
        await browser.enter(await house.link(name))
    if old:
        await house.aged(CredentialKind.SESSION, name, timedelta(minutes=11))
    return browser


def wants_proof(answer: httpx.Response) -> bool:
    return answer.status_code == 403 and answer.json().get("step_up") == "/prove"


async def test_an_old_session_proves_once_more_before_it_approves_what_is_critical(ready: Building) -> None:
    browser = await come_in(ready, old=True)
    request = await asked(ready, "wipe", {"disk": "a"})
    refused = await said(browser, ready, request, "approve")
    assert wants_proof(refused)
    assert refused.json()["back"] == f"/r/{request.code}"
    await browser.fill("/prove", password="wrong password here")
    assert wants_proof(await said(browser, ready, request, "approve"))
    answer = await browser.fill("/prove", password=PASSWORD, next=f"/r/{request.code}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/r/{request.code}")
    assert (await said(browser, ready, request, "approve")).status_code == 200


async def test_who_has_just_logged_in_is_not_asked_again(ready: Building) -> None:
    browser = await come_in(ready)
    assert (await said(browser, ready, await asked(ready, "wipe", {"disk": "a"}), "approve")).status_code == 200


async def test_a_link_is_no_proof_for_who_has_a_password(ready: Building) -> None:
    await ready.password("ada")
    browser = await come_in(ready, password=False)
    assert wants_proof(await said(browser, ready, await asked(ready, "wipe", {"disk": "a"}), "approve"))


async def test_a_passkey_is_asked_for_and_proves(ready: Building) -> None:
    browser, device = await with_a_key(ready)
    request = await asked(ready, "wipe", {"disk": "a"})
    assert wants_proof(await said(browser, ready, request, "approve"))
    await proved(browser, device)
    assert (await said(browser, ready, request, "approve")).status_code == 200


async def test_where_there_are_only_links_the_typed_phrase_is_all(ready: Building) -> None:
    browser = await come_in(ready, old=True, password=False)
    request = await asked(ready, "wipe", {"disk": "a"})
    assert (await said(browser, ready, request, "approve", confirm="")).status_code == 422
    assert (await said(browser, ready, request, "approve")).status_code == 200
    assert "nothing to prove it with" in (await browser.get("/prove")).text


async def test_denying_and_sending_back_need_no_proof(ready: Building) -> None:
    browser = await come_in(ready, old=True)
    assert (
        await said(browser, ready, await asked(ready, "wipe", {"disk": "a"}), "deny", reason="no")
    ).status_code == 200
    request = await asked(ready, "wipe", {"disk": "b"})
    assert (await said(browser, ready, request, "revise", instructions="another")).status_code == 200


async def test_what_only_waits_needs_no_proof(ready: Building) -> None:
    browser = await come_in(ready, old=True)
    assert (await said(browser, ready, await asked(ready, "pay", {"amount": 5}), "approve")).status_code == 200


async def test_a_change_that_makes_it_critical_needs_a_proof(ready: Building) -> None:
    browser = await come_in(ready, old=True)
    request = await asked(ready, "pay", {"amount": 5})
    assert (await said(browser, ready, request, "modify", args='{"amount": 6}')).status_code == 200
    request = await asked(ready, "pay", {"amount": 7})
    assert wants_proof(await said(browser, ready, request, "modify", args='{"amount": 500}'))
    request = await asked(ready, "pay", {"amount": 800})
    assert wants_proof(await said(browser, ready, request, "modify", args='{"amount": 1}')), "it was critical before"
    after = await ready.premises.store.request("default", request.id)
    assert after is not None
    assert after.version == request.version


async def test_an_option_that_is_critical_needs_a_proof(ready: Building) -> None:
    browser = await come_in(ready, old=True)
    options = [assentry.option("Much", "costs", {"amount": 500}), assentry.option("Little", "costs", {"amount": 5})]
    request = await asked(ready, "pay", {"amount": 7}, options=options)
    assert wants_proof(await said(browser, ready, request, "choose", option="0"))
    assert (await said(browser, ready, request, "choose", option="9")).status_code == 422
    assert (await said(browser, ready, request, "choose", option="1")).status_code == 200


async def test_the_api_asks_for_the_same_proof(ready: Building) -> None:
    browser = await come_in(ready, old=True)
    request = await asked(ready, "wipe", {"disk": "a"})
    card = brief(request, await ready.premises.store.now())
    answer = await ready.browser().post(
        f"/api/v1/requests/{request.code}/decision",
        json={"word": "approve", "seen_digest": card.digest, "confirm": card.phrase},
        headers={"authorization": f"Bearer {browser.cookie}"},
    )
    assert wants_proof(answer)
