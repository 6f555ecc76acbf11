"""The pages beside the inbox, with nothing but forms: runs and their switches, the log, the policy, the settings."""

import html
import re

import pytest

import assentry
from assentry.core.action import Declaration
from assentry.core.credential import CredentialKind
from assentry.core.run import RunState
from assentry.core.switch import EVERYTHING
from tests.server.building import URL, Browser, Building

GONE = Declaration(reversible=False)


@pytest.fixture
async def ada(house: Building) -> Browser:
    browser = house.browser(headers={"accept": "text/html"}, follow_redirects=True)
    await browser.enter(await house.link("ada"))
    return browser


async def test_a_run_is_listed_shown_paused_let_go_and_stopped(house: Building, ada: Browser) -> None:
    with pytest.raises(assentry.RunStopped):
        await a_run_that_is_looked_at(house, ada)


async def a_run_that_is_looked_at(house: Building, ada: Browser) -> None:
    async with house.gate.run("Tidy <b>up</b>", scope={"files": 20}) as run:
        proposal = await house.gate.propose("delete_files", {"files": ["a"]}, declared=GONE, key="1")
        assert proposal.request is not None
        listed = (await ada.get("/runs")).text
        assert "Tidy &lt;b&gt;up&lt;/b&gt;" in listed
        assert f'href="/runs/{run.code}"' in listed
        assert "data-count>1</b>" in listed  # what waits for her is told on every page
        assert proposal.request.code in (await ada.get(f"/runs/{run.code}")).text
        for setting, state in (("pause", RunState.PAUSED), ("go", RunState.RUNNING), ("stop", RunState.STOPPING)):
            answer = await ada.fill(f"/runs/{run.code}/turn", page="/runs", setting=setting, reason="a look")
            assert answer.status_code == 200
            found = await house.gate._store.run("default", run.id)
            assert found is not None
            assert found.state is state
            card = (await ada.get(f"/r/{proposal.request.code}")).text
            assert ("stands still while its run is paused" in card) is (state is RunState.PAUSED)
            assert ("data-until" in card) is (state is RunState.RUNNING)
        assert (await ada.fill(f"/runs/{run.code}/turn", page="/runs", setting="fly")).status_code == 422
        await run.checkpoint("done")


async def test_a_switch_asks_once_about_a_name_that_nobody_knows(house: Building, ada: Browser) -> None:
    async def held() -> dict[str, str]:
        return {each.agent: str(each.setting) for each in await house.desk.oversight.switches()}

    await house.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    assert 'aria-label="Stop cleanup"' in (await ada.get("/stop")).text
    asked = await ada.fill("/stop", page="/stop", agent="claenup", setting="stop", reason="odd")
    assert asked.status_code == 422
    assert "No agent called claenup" in asked.text
    assert await held() == {}
    (form,) = re.findall(r'<form [^>]*role="alert">(.*?)</form>', asked.text, re.DOTALL)
    again = {name: html.unescape(value) for name, value in re.findall(r'hidden" name="(\w+)" value="([^"]*)"', form)}
    assert (again["agent"], again["reason"], again["sure"]) == ("claenup", "odd", "yes")
    sure = await ada.fill("/stop", page="/stop", agent="claenup", setting="stop", sure="yes")
    assert sure.status_code == 200
    await ada.fill("/stop", page="/stop", agent="cleanup", setting="pause")
    await ada.fill("/stop", page="/stop", everything="yes", setting="pause", reason="lunch")
    assert await held() == {"claenup": "stop", "cleanup": "pause", EVERYTHING: "pause"}
    page = (await ada.get("/")).text
    assert "lunch" in page
    for fields in ({"agent": "claenup"}, {"agent": "cleanup"}, {"everything": "yes"}):
        await ada.fill("/stop", page="/stop", setting="go", **fields)
    assert await held() == {}
    assert (await ada.fill("/stop", page="/stop", setting="stop")).status_code == 422
    for setting in ("pause", "stop", "go"):
        star = await ada.fill("/stop", page="/stop", agent=" * ", setting=setting, sure="yes")
        assert (star.status_code, await held()) == (422, {}), setting
        assert "use “Everything” above" in star.text


async def test_the_log_is_searched_verified_and_exported(house: Building, ada: Browser) -> None:
    proposal = await house.gate.propose("delete_files", {"files": ["a"]}, declared=GONE)
    assert proposal.request is not None
    page = await ada.get("/log", params={"subject": proposal.request.code})
    assert page.status_code == 200
    assert proposal.request.code in page.text
    links = re.findall(r'href="(/log/[^"]+|/api/v1/log[^"]*)"', page.text)
    assert links
    for link in links:
        assert (await ada.get(html.unescape(link))).status_code == 200


async def test_the_policy_explains_a_call_and_says_what_is_wrong_with_one(ada: Browser) -> None:
    told = await ada.get("/policy", params={"action": "delete_files", "args": '{"files": ["a"]}'})
    assert "gate: hard" in told.text
    assert "approvals: needs 1 of everyone listed under people: ada, ben" in told.text
    for words in ("what is safe runs at once", "what is critical waits for a person who types what they confirm"):
        assert words in " ".join(told.text.split())
    wrong = await ada.get("/policy", params={"action": "delete_files", "args": "[1"})
    assert (wrong.status_code, "arguments are JSON" in wrong.text) == (200, True)


async def test_a_token_is_given_shown_once_and_ended(house: Building, ada: Browser) -> None:
    given = await ada.fill("/settings/tokens", page="/settings", agent="mailer", note="the night job", days="30")
    [secret] = re.findall(r'class="secret-once">([^<]+)<', given.text)
    page = (await ada.get("/settings")).text
    assert secret not in page
    assert "the night job" in page
    [token] = await house.credentials(CredentialKind.TOKEN, "mailer")
    assert token.expires_at is not None
    assert token.expires_at.strftime("%Y-%m-%d") in page
    headers = {"authorization": f"Bearer {secret}", "accept": "application/json"}
    agent = house.browser()
    assert (await agent.get(f"{URL}/api/v1/me", headers=headers)).json()["agent"] == "mailer"
    await ada.fill(f"/settings/tokens/{token.id}/end", page="/settings")
    assert (await agent.get(f"{URL}/api/v1/me", headers=headers)).status_code == 401
    for days in ("²", "-1", "x", "99999"):
        assert (await ada.fill("/settings/tokens", page="/settings", agent="a", days=days)).status_code == 422
    ben = house.browser(headers={"accept": "text/html"})
    await ben.enter(await house.link("ben"))
    assert (await ben.fill("/settings/tokens", page="/settings", agent="mine")).status_code == 403
