"""Changes of the policy that wait for a second person: over the API, and on the page in a browser without script."""

import asyncio
import html
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assentry.core.authority import Principal
from assentry.engine.policies import apply_policy, propose_policy
from tests.server.building import Browser, Building, building
from tests.server.reception import POLICY, RISKY, Reception, reception

TWO = f"second_person: true\n{POLICY.replace('  cem:', '  dan: {roles: [operator]}{}  cem:'.replace('{}', chr(10)))}"
NEW = TWO.replace("quorum: 2, ", "")
PEOPLE = """second_person: true
people:
  ada: {roles: [operator]}
  bob: {roles: [operator]}
  cem: {}
"""
RULE = "  - {name: no <b>shredding</b>, actions: ['shred_*'], gate: forbid}\n"


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Reception]:
    name = str(tmp_path / "assentry.db")
    place = name if request.param == "sqlite" else request.getfixturevalue("postgres_database")
    async with reception(place, TWO) as made:
        made.secrets["second"] = await made.identities.begin_session("dan", "password")
        yield made


async def test_a_policy_that_is_sent_waits_until_another_operator_confirms_it(desk: Reception) -> None:
    proposal = (await desk.post("/policy", {"text": NEW, "file": "new.yaml", "based_on": 1}, "operator", 202))[
        "proposal"
    ]
    assert (proposal["proposed_by"], proposal["based_on"], proposal["file"]) == ("ann", 1, "new.yaml")
    assert any("two" in each for each in proposal["changes"])
    assert "another person confirms it" in proposal["why_not"]
    assert (await desk.get("/policy"))["version"] == 1
    where, seen = f"/policy/proposals/{proposal['code']}", {"digest": proposal["digest"]}
    assert (await desk.get("/policy/proposals", "operator"))["proposals"] == [proposal]
    assert (await desk.get(where, "second"))["proposal"]["why_not"] == ""
    refused = await desk.post(f"{where}/confirm", seen, "operator", 403)
    assert "ann proposed this" in refused["detail"]
    await desk.post(f"{where}/confirm", {"digest": "another"}, "second", 409)
    await desk.post(f"{where}/confirm", {}, "second", 422)
    applied = await desk.post(f"{where}/confirm", seen, "second", idempotency_key="once")
    assert (applied["version"], applied["applied"]) == (2, True)
    assert await desk.post(f"{where}/confirm", seen, "second", idempotency_key="once") == applied
    late = await desk.post(f"{where}/confirm", seen, "second", 409)
    assert (late["type"], late["state"], late["by"]) == ("/problems/already-decided", "applied", "dan")
    assert (await desk.get("/policy"))["text"] == NEW
    entries = (await desk.get("/log?kind=policy.applied"))["entries"]
    assert entries[0]["says"].startswith("policy version 2 applied: proposed by ann, confirmed by dan")
    assert (await desk.get("/policy/proposals", "second"))["proposals"] == []
    assert (await desk.get(where, "second"))["proposal"]["state"] == "applied"


async def test_what_was_rejected_is_over(desk: Reception) -> None:
    proposal = (await desk.post("/policy", {"text": NEW}, "operator", 202))["proposal"]
    where = f"/policy/proposals/{proposal['code']}"
    ended = (await desk.post(f"{where}/reject", {"reason": "not before the audit"}, "second"))["proposal"]
    assert (ended["state"], ended["ended_by"], ended["reason"]) == ("rejected", "dan", "not before the audit")
    await desk.post(f"{where}/confirm", {"digest": proposal["digest"]}, "second", 409)
    await desk.post(f"{where}/reject", None, "operator", 409)
    await desk.post("/policy/proposals/nothing/reject", None, "operator", 404)
    mine = (await desk.post("/policy", {"text": NEW}, "operator", 202))["proposal"]
    assert (await desk.post(f"/policy/proposals/{mine['code']}/reject", None, "operator"))["proposal"]["state"]
    assert (await desk.get("/policy"))["version"] == 1


async def test_what_was_made_from_an_older_version_is_sent_again(desk: Reception) -> None:
    sent = [await desk.post("/policy", {"text": f"{NEW}# {n}\n"}, "operator", 202) for n in range(2)]
    one, two = (each["proposal"] for each in sent)
    await desk.post(f"/policy/proposals/{one['code']}/confirm", {"digest": one["digest"]}, "second")
    stale = await desk.post(f"/policy/proposals/{two['code']}/confirm", {"digest": two["digest"]}, "second", 409)
    assert "propose it again" in stale["detail"]
    await desk.post("/policy", {"text": NEW, "based_on": 1}, "operator", 412)


async def test_of_two_who_apply_to_the_same_version_at_once_one_is_told_so(tmp_path: Any) -> None:
    async with reception(str(tmp_path / "assentry.db")) as desk:
        calls = [
            desk.call("operator", "POST", "/policy", {"text": f"{POLICY}# {number}\n", "based_on": 1})
            for number in range(6)
        ]
        answers = await asyncio.gather(*calls)
        assert sorted(each.status_code for each in answers) == [200, *[412] * 5]
        assert (await desk.get("/policy"))["version"] == 2


async def test_no_direct_application_lands_after_two_people_are_needed(tmp_path: Any) -> None:
    async with reception(str(tmp_path / "assentry.db"), TWO.replace("second_person: true\n", "")) as desk:
        calls = [desk.call("operator", "POST", "/policy", {"text": f"{TWO}# {number}\n"}) for number in range(6)]
        answers = await asyncio.gather(*calls)
        assert sorted(each.status_code for each in answers) == [200, *[202] * 5]
        assert (await desk.get("/policy"))["version"] == 2


@pytest.fixture
async def here(database: str) -> AsyncIterator[Building]:
    async with building(database, PEOPLE) as made:
        yield made


async def entered(here: Building, name: str) -> Browser:
    browser = here.browser()
    await browser.enter(await here.link(name))
    return browser


async def proposes(here: Building, by: str = "ada", text: str = f"{PEOPLE}rules:\n{RULE}") -> str:
    made = await apply_policy(here.premises.store, here.workspace, text, Principal(by), "new <file>.yaml")
    await here.desk.judgement.refresh()
    return str(getattr(made, "code", ""))


async def test_the_page_shows_what_waits_and_the_second_person_confirms_it(here: Building) -> None:
    code = await proposes(here)
    mine = (await (await entered(here, "ada")).get("/policy")).text
    assert "You cannot confirm it: ada proposed this, so another person confirms it" in mine
    assert f"/policy/proposals/{code}/confirm" not in mine
    assert "Withdraw" in mine
    assert code not in (await (await entered(here, "cem")).get("/policy")).text
    bob = await entered(here, "bob")
    told = '1<span class="unseen"> to confirm</span>'
    assert told in (await bob.get("/runs")).text  # wherever they look
    for nobody in ("ada", "cem"):
        assert told not in (await (await entered(here, nobody)).get("/runs")).text
    page = (await bob.get("/policy")).text
    assert "<b>ada</b> proposed it" in page
    assert "new &lt;file&gt;.yaml" in page
    assert "rule &#34;no &lt;b&gt;shredding&lt;/b&gt;&#34; is new" in page
    assert '<span class="added">+rules:</span>' in page
    assert f'<form method="post" action="/policy/proposals/{code}/confirm">' in page
    assert "Reject" in page
    found = re.search(r'name="digest" value="([^"]+)"', page)
    assert found is not None
    where = f"/policy/proposals/{code}/confirm"
    assert (await bob.post(where, data={"digest": found[1]})).status_code == 403  # no proof that a page of ours asked
    assert (await bob.fill(where, "/policy", digest="another")).status_code == 409
    done = await bob.fill(where, "/policy", digest=found[1])
    assert (done.status_code, done.headers["location"]) == (303, "/policy")
    after = (await bob.get("/policy")).text
    assert "Version 2, applied by bob" in after
    assert "A change waits" not in after
    assert (await bob.fill(where, "/policy", digest=found[1])).status_code == 409


def long_policy(roles: str, when: str) -> str:
    notes = "".join(f"# note {number}\n" for number in range(2_001))
    guard = f"  - {{name: guard, actions: [pay], gate: manual, when: '{when}'}}\n"
    return f"{notes}{PEOPLE}  mallory: {{roles: [{roles}]}}\nrules:\n{guard}"


async def test_what_a_very_long_policy_changes_is_before_whoever_confirms_it(here: Building) -> None:
    roles = ", ".join(f"reader-of-department-{number:02}" for number in range(6))
    when = 'args.amount > 0 && args.currency == "EUR" && args.country in ["DE", "FR", "IT"]'
    await propose_policy(here.premises.store, "default", long_policy(roles, f"{when} || true"), Principal("ada"))
    (first,) = await here.desk.rules.proposals()
    await here.desk.rules.confirm(Principal("bob"), first, first.digest)
    await here.desk.judgement.refresh()
    text = long_policy(f"{roles}, operator", f"{when} && false")
    await propose_policy(here.premises.store, "default", text, Principal("ada"))
    bob = here.browser()
    await bob.enter(await here.link("bob"))
    shown = re.search(r'<section class="panel" id="proposal-.*?</section>', (await bob.get("/policy")).text, re.DOTALL)
    assert shown is not None
    told = html.unescape(shown.group(0).partition("<details")[0])
    assert "adds operator" in told
    assert "|| true -> …" in told
    assert "&& false" in told
    assert '<details class="exactly" open>' in shown.group(0)


async def test_the_page_rejects_it_too_and_says_when_it_is_too_old(here: Building) -> None:
    first, second = await proposes(here), await proposes(here, text=f"{PEOPLE}# another\n")
    bob = await entered(here, "bob")
    digest = (await here.desk.rules.proposal(first)).digest
    await bob.fill(f"/policy/proposals/{first}/confirm", "/policy", digest=digest)
    page = (await bob.get("/policy")).text
    assert "it was made from version 1, and version 2 is active by now" in page
    assert f"/policy/proposals/{second}/confirm" not in page
    done = await bob.fill(f"/policy/proposals/{second}/reject", "/policy", reason="too old")
    assert done.status_code == 303
    assert "A change waits" not in (await bob.get("/policy")).text
    ended = await here.desk.rules.proposal(second)
    assert (ended.ended_by, ended.reason) == ("bob", "too old")


async def test_those_who_may_not_change_the_policy_get_nowhere_from_a_page(here: Building) -> None:
    proposal = await propose_policy(here.premises.store, here.workspace, f"{PEOPLE}# new\n", Principal("ada"))
    cem = await entered(here, "cem")
    for what in ("confirm", "reject"):
        done = await cem.fill(f"/policy/proposals/{proposal.code}/{what}", "/policy", digest=proposal.digest)
        assert done.status_code == 403
    assert await here.premises.store.proposals(here.workspace) == (proposal,)


async def test_nobody_alone_allows_in_advance_what_is_critical_and_a_typed_gate_holds_the_rest(desk: Reception) -> None:
    terms = {"actions": ["*"], "life": "1h"}
    refused = await desk.post("/grants", {**terms, "max_risk": "critical"}, "operator", 403)
    assert "put a rule for it into the policy, which a second person confirms" in refused["detail"]
    assert (await desk.get("/grants?ended=true"))["grants"] == []
    given = (await desk.post("/grants", terms, "operator", 201))["grant"]
    assert (await desk.get("/log?kind=grant.given"))["entries"][0]["actor"] == "ann"
    await desk.gate._judgement.refresh()
    assert (await desk.carried_out("merge_branch", branch="main")).candidate.verdict.grant == given["id"]
    typed = await desk.gate.propose("launch_kite", {"to": "sky"}, agent="sweeper", declared=RISKY)
    assert typed.request is not None
    assert (typed.request.state.value, typed.request.candidate.verdict.grant) == ("pending", None)
