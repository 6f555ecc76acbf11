"""Who may call what: one table of every operation and every kind of principal, and a sweep that agents decide nothing.

A new operation without a row here fails a test.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from uuid_utils.compat import uuid7

from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.run import Run, RunState
from assentry.engine.policies import propose_policy
from assentry.server.visitors import csrf_for
from tests.server.reception import KINDS, POLICY, Reception, reception

PEOPLE = {
    "none": 401, "agent": 403, "other agent": 403, "other team": 200, "reviewer": 200, "operator": 200,
    "expired": 401, "revoked": 401, "revoked agent": 401,
}  # fmt: skip
"""For people of the workspace, whatever their team."""
REVIEWERS = {**PEOPLE, "other team": 403}
"""For those whom the request waits for."""
TOO_LATE = {**REVIEWERS, "reviewer": 409, "operator": 409}
"""The same, about something of which there is nothing to take back or to settle."""
OPERATORS = {**PEOPLE, "other team": 403, "reviewer": 403}
KNOWN = {**PEOPLE, "agent": 200, "other agent": 200}
EVERYBODY = dict.fromkeys(KINDS, 200)

ROWS: dict[tuple[str, str], dict[str, int]] = {
    ("GET", "/healthz"): EVERYBODY,
    ("GET", "/readyz"): EVERYBODY,
    ("GET", "/metrics"): EVERYBODY,
    ("GET", "/api/v1/requests"): PEOPLE,
    ("GET", "/api/v1/requests/{request_id}"): PEOPLE,
    ("GET", "/api/v1/events"): KNOWN,
    ("POST", "/api/v1/requests/{request_id}/decision"): REVIEWERS,
    ("POST", "/api/v1/requests/{request_id}/seen"): PEOPLE,
    ("POST", "/api/v1/requests/{request_id}/undo"): TOO_LATE,
    ("POST", "/api/v1/requests/{request_id}/review"): REVIEWERS,
    ("POST", "/api/v1/requests/{request_id}/reconcile"): TOO_LATE,
    ("POST", "/api/v1/requests/{request_id}/receipt"): PEOPLE,
    ("POST", "/api/v1/requests/{request_id}/allow-similar"): OPERATORS,
    # Of many, each is answered by itself; whether it was decided is looked at below.
    ("POST", "/api/v1/decisions"): PEOPLE,
    ("GET", "/api/v1/grants"): PEOPLE,
    ("POST", "/api/v1/grants/preview"): PEOPLE,
    ("POST", "/api/v1/grants"): OPERATORS,
    ("POST", "/api/v1/grants/{grant_id}/revoke"): OPERATORS,
    ("GET", "/api/v1/switches"): PEOPLE,
    ("POST", "/api/v1/switches"): PEOPLE,
    ("GET", "/api/v1/runs"): PEOPLE,
    ("GET", "/api/v1/runs/{code}/timeline"): PEOPLE,
    ("POST", "/api/v1/runs/{code}/pause"): PEOPLE,
    ("POST", "/api/v1/runs/{code}/go"): PEOPLE,
    ("POST", "/api/v1/runs/{code}/stop"): PEOPLE,
    ("GET", "/api/v1/log"): PEOPLE,
    ("GET", "/api/v1/log/verification"): PEOPLE,
    ("POST", "/api/v1/log/export"): PEOPLE,
    ("GET", "/api/v1/policy"): PEOPLE,
    ("GET", "/api/v1/policy/history"): PEOPLE,
    ("POST", "/api/v1/policy/check"): PEOPLE,
    ("POST", "/api/v1/policy/explain"): PEOPLE,
    ("POST", "/api/v1/policy"): OPERATORS,
    ("GET", "/api/v1/policy/proposals"): OPERATORS,
    ("GET", "/api/v1/policy/proposals/{code}"): OPERATORS,
    # Somebody else proposed it; that the proposer cannot confirm it is looked at below.
    ("POST", "/api/v1/policy/proposals/{code}/confirm"): OPERATORS,
    ("POST", "/api/v1/policy/proposals/{code}/reject"): OPERATORS,
    ("GET", "/api/v1/people"): PEOPLE,
    ("GET", "/api/v1/me"): KNOWN,
    ("GET", "/api/v1/tokens"): OPERATORS,
    ("POST", "/api/v1/tokens"): OPERATORS,
    ("POST", "/api/v1/tokens/{token_id}/end"): OPERATORS,
    ("GET", "/api/v1/records/{what}"): PEOPLE,
    # Whoever has a link or a password gets a session; what they send with it does not matter.
    ("POST", "/api/v1/sessions"): EVERYBODY,
    ("POST", "/api/v1/sessions/end"): PEOPLE,
}
AGENTS = {
    "none": 401, "agent": 200, "other agent": 404, "other team": 403, "reviewer": 403, "operator": 403,
    "expired": 401, "revoked": 401, "revoked agent": 401,
}  # fmt: skip
"""For the agent whose request or run it is; for other agents there is no such thing."""
ANY_AGENT = {**AGENTS, "other agent": 200}
_OWN = "/api/v1/agent/proposals/{request_id}"
_RUN = "/api/v1/agent/runs/{run_id}"
AGENT_ROWS: dict[tuple[str, str], dict[str, int]] = {
    ("GET", "/api/v1/agent/me"): ANY_AGENT,
    ("POST", "/api/v1/agent/foreseen"): ANY_AGENT,
    ("POST", "/api/v1/agent/proposals"): ANY_AGENT,
    ("GET", "/api/v1/agent/proposals"): ANY_AGENT,
    ("POST", "/api/v1/agent/questions"): ANY_AGENT,
    ("POST", "/api/v1/agent/runs"): ANY_AGENT,
    ("GET", _OWN): AGENTS,
    **{("POST", f"{_OWN}/{word}"): AGENTS for word in ("begin", "renew", "finish", "fail", "cancel", "callers")},
    ("POST", "/api/v1/agent/callers/{name}"): ANY_AGENT,
    ("GET", _RUN): AGENTS,
    ("GET", f"{_RUN}/resumption"): AGENTS,
    **{
        ("POST", f"{_RUN}/{word}"): AGENTS
        for word in ("enter", "live", "notes", "stops", "park", "finish", "fail", "cancel")
    },
}
"""What is for agents only; whether the call fits the state of things is another matter (409, 422)."""
FOR_AGENTS: frozenset[tuple[str, str]] = frozenset({("GET", "/api/v1/events"), ("GET", "/api/v1/me")})
"""What an agent's token is for. Everything else that an agent can reach is open to everybody."""


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Reception]:
    async with reception(database, POLICY.replace("  cem:", "  dan: {roles: [operator]}\n  cem:")) as made:
        yield made


class Scene:
    """Something for every call to be about, made anew for each, so that nobody before has spoiled it."""

    def __init__(self, desk: Reception) -> None:
        self.desk, self._count = desk, 0

    async def call(self, method: str, path: str) -> tuple[str, Any]:
        """The path and the body of a call that would succeed if nothing but the caller mattered."""
        self._count += 1
        desk, number = self.desk, self._count
        last = path.rpartition("/")[2]
        if "{request_id}" in path or last == "decisions":
            return await self._about_request(path, last, number)
        if "proposals/{code}" in path:
            return await self._about_proposal(path, last, number)
        if "{code}" in path:
            return await self._about_run(path, last, number)
        if "{grant_id}" in path:
            return path.replace("{grant_id}", await self._grant()), None
        if "{token_id}" in path:
            made = await desk.post("/tokens", {"agent": f"agent-{number}"}, "operator", 201)
            return path.replace("{token_id}", made["token"]["id"]), None
        path = path.replace("{what}", "requests")
        shown = (await desk.get("/policy", "operator"))["text"]
        bodies = {
            "grants": {"actions": ["tidy_*"], "life": "1h"},
            "preview": {"actions": ["tidy_*"], "life": "1h"},
            "switches": {"setting": "go", "agent": "nobody"},
            "check": {"text": shown},
            "explain": {"action": "tidy_shelf"},
            "policy": {"text": f"{shown}# {number}\n"},
            "tokens": {"agent": f"agent-{number}"},
            "sessions": {"link": await desk.identities.link(Principal("ann"), "bea")},
        }
        return path, bodies.get(last) if method == "POST" else None

    async def _about_request(self, path: str, last: str, number: int) -> tuple[str, Any]:
        desk = self.desk
        ran = last in ("review", "receipt", "undo", "reconcile")
        request = await (desk.carried_out("note_visit", n=number) if last == "review" else desk.asked(n=number))
        if ran and last != "review":
            word = {"word": "approve", "seen_digest": request.shown_digest}
            await desk.post(f"/requests/{request.id}/decision", word)
        seen = {"seen_digest": request.shown_digest}
        bodies: dict[str, Any] = {
            "decision": {"word": "approve", **seen},
            "allow-similar": {**seen, "limit": 1, "life": "1h"},
            "review": {"opinion": "accepted"},
            "reconcile": {"finding": "done"},
            "undo": {},
            "decisions": {"word": "approve", "items": [{"id": request.id, **seen}]},
        }
        return path.replace("{request_id}", request.id), bodies.get(last)

    async def _about_run(self, path: str, last: str, number: int) -> tuple[str, Any]:
        run = f"run{number}"
        store = self.desk.premises.store
        parked = Run(
            str(uuid7()), run, "default", "sweeper", "root", await store.now(), "Tidy up", host="night shift",
            state=RunState.PARKED,
        )  # fmt: skip
        await store.transact("default", None, lambda _: Change(run=parked, new_run=True))
        if last == "go":
            await self.desk.post(f"/runs/{run}/pause")
        return path.replace("{code}", run), None

    async def _about_proposal(self, path: str, last: str, number: int) -> tuple[str, Any]:
        store = self.desk.premises.store
        text = f"{(await self.desk.get('/policy', 'operator'))['text']}# {number}\n"
        waits = await propose_policy(store, "default", text, Principal("dan"))
        body = {"confirm": {"digest": waits.digest}, "reject": {"reason": "no"}}.get(last)
        return path.replace("{code}", waits.code), body

    async def _grant(self) -> str:
        made = await self.desk.post("/grants", {"actions": ["x_*"], "life": "1h"}, "operator", 201)
        found: str = made["grant"]["id"]
        return found


async def test_every_kind_of_principal_gets_what_the_table_says(desk: Reception) -> None:
    desk.premises.events.close()  # streams end at once
    scene, wrong = Scene(desk), []
    for (method, path), expected in ROWS.items():
        where, body = await scene.call(method, path)
        # Those who are refused first: they change nothing, so that one scene serves them all.
        for who in sorted(KINDS, key=lambda kind: -expected[kind]):
            if expected[who] < 300 and method == "POST":
                where, body = await scene.call(method, path)
            got = await sent(desk, who, method, where, body)
            if got.status_code // 100 * 100 != expected[who] // 100 * 100 or (
                expected[who] >= 400 and got.status_code != expected[who]
            ):
                wrong.append(f"{who}: {method} {where}: {got.status_code}, not {expected[who]}: {got.text[:200]}")
    assert not wrong, "\n".join(wrong)


async def sent(desk: Reception, who: str, method: str, path: str, body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {desk.secrets[who]}"} if who in desk.secrets else {}
    return await desk.client.request(method, path, json=body, headers=headers)


async def test_the_table_has_a_row_for_every_operation(desk: Reception) -> None:
    operations = {(method.upper(), path) for path, each in desk.app.openapi()["paths"].items() for method in each}
    assert operations == {*ROWS, *AGENT_ROWS}
    assert all(set(row) == set(KINDS) for row in (*ROWS.values(), *AGENT_ROWS.values()))


async def test_what_is_for_agents_is_for_the_agent_whose_it_is(desk: Reception) -> None:
    asked = await desk.client.post(
        "/api/v1/agent/proposals",
        json={"action": "delete_everything", "args": {"n": 1}},
        headers={"authorization": f"Bearer {desk.secrets['agent']}"},
    )
    began = await desk.client.post(
        "/api/v1/agent/runs", json={"goal": "Tidy up"}, headers={"authorization": f"Bearer {desk.secrets['agent']}"}
    )
    assert (asked.status_code // 100, began.status_code // 100) == (2, 2), (asked.text, began.text)
    bodies = {
        "proposals": {"action": "delete_everything", "args": {"n": 2}}, "questions": {"text": "Which?"},
        "runs": {"goal": "Tidy up"}, "renew": {"fence": 1}, "finish": {"fence": 1, "result": 1, "outcome": None},
        "fail": {"fence": 1, "error": "no"},
    }  # fmt: skip
    wrong = []
    for (method, path), expected in AGENT_ROWS.items():
        where = path.replace("{request_id}", asked.json()["id"]).replace("{run_id}", began.json()["id"])
        body = bodies.get(where.rpartition("/")[2], {})
        for who in sorted(KINDS, key=lambda kind: -expected[kind]):
            got = await sent(desk, who, method, where, body if method == "POST" else None)
            refused = got.status_code in (401, 403, 404) or got.status_code >= 500
            right = got.status_code == expected[who] if expected[who] >= 400 else not refused
            # Who may not is told so before anything is said about what they sent.
            if not right and not (expected[who] == 404 and got.status_code == 422):
                wrong.append(f"{who}: {method} {where}: {got.status_code}, not {expected[who]}: {got.text[:160]}")
    assert not wrong, "\n".join(wrong)


async def test_no_get_and_no_agent_changes_anything(desk: Reception) -> None:
    desk.premises.events.close()
    scene, store = Scene(desk), desk.premises.store
    for (method, path), expected in ROWS.items():
        for who in ("operator",) if method == "GET" else ("agent", "other agent"):
            if (method, path) in FOR_AGENTS or (method == "POST" and expected[who] < 300):
                continue
            where, body = await scene.call(method, path)
            before = await store.sequence("default")
            got = await sent(desk, who, method, where, body)
            assert await store.sequence("default") == before, f"{who}: {method} {where} left an entry"
            if who != "operator" and expected is not EVERYBODY:
                assert got.status_code in (401, 403), f"{who}: {method} {where}: {got.status_code}"


async def test_an_agent_gets_no_answer_of_success_from_what_is_for_people(desk: Reception) -> None:
    scene = Scene(desk)
    for (method, path), expected in ROWS.items():
        if (method, path) in FOR_AGENTS or expected is EVERYBODY:
            continue
        where, body = await scene.call(method, path)
        for who in ("agent", "other agent", "revoked agent"):
            for headers in (
                {"authorization": f"Bearer {desk.secrets[who]}"},
                {"cookie": f"assentry-session={desk.secrets[who]}"},
                {
                    "authorization": f"Bearer {desk.secrets[who]}",
                    "cookie": f"assentry-session={desk.secrets['operator']}",
                },
                {"authorization": f"Bearer {desk.secrets[who]}", "idempotency-key": "same"},
            ):
                got = await desk.client.request(method, where, json=body, headers=headers)
                assert got.status_code in (401, 403), f"{method} {where} with {sorted(headers)}: {got.status_code}"


async def test_who_proposed_a_change_of_the_policy_does_not_confirm_it(desk: Reception) -> None:
    where, body = await Scene(desk).call("POST", "/api/v1/policy/proposals/{code}/confirm")
    desk.secrets["proposer"] = await desk.identities.begin_session("dan", "password")
    assert (await sent(desk, "proposer", "POST", where, body)).status_code == 403
    assert (await sent(desk, "operator", "POST", where, body)).status_code == 200


async def test_of_many_only_those_are_decided_that_the_person_may_decide(desk: Reception) -> None:
    where, body = await Scene(desk).call("POST", "/api/v1/decisions")
    refused = (await sent(desk, "other team", "POST", where, body)).json()
    assert [each["ok"] for each in refused["items"]] == [False]
    assert refused["items"][0]["problem"]["status"] == 403
    assert (await sent(desk, "reviewer", "POST", where, body)).json()["decided"] == 1


async def test_a_cookie_changes_something_only_from_a_page_of_ours(desk: Reception) -> None:
    secret, scene = desk.secrets["reviewer"], Scene(desk)
    cookie = {"cookie": f"assentry-session={secret}"}
    policy = desk.desk.judgement.policy
    session = await desk.identities.session(secret, policy)
    assert session is not None
    proof = {**cookie, "x-assentry-csrf": csrf_for(session)}
    foreign = (
        {"origin": "https://elsewhere.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    )
    tries = [cookie, {**cookie, "x-assentry-csrf": "0" * 40}, *({**proof, **each} for each in foreign)]
    where, body = await scene.call("POST", "/api/v1/requests/{request_id}/decision")
    for headers in tries:
        assert (await desk.client.post(where, json=body, headers=headers)).status_code == 403
    ours = {**proof, "origin": "http://assentry.test", "sec-fetch-site": "same-origin"}
    assert (await desk.client.post(where, json=body, headers=ours)).status_code == 200
