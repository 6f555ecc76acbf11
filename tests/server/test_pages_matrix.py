"""Who may open which page and send which form: every route of the pages, and every kind of visitor.

A new route without a row here fails a test. The table of the API is in `test_matrix.py`.
"""

from collections.abc import AsyncIterator

import httpx
import pytest

from assentry.core.authority import Principal
from assentry.core.change import Change
from assentry.core.credential import Credential, CredentialKind
from assentry.engine.identity import Identities
from assentry.engine.policies import apply_policy
from assentry.server.pages import router
from assentry.server.routes import api_routes
from assentry.server.visitors import csrf_for
from tests.server.reception import POLICY, Reception, reception
from tests.server.test_matrix import Scene

VISITORS = ("nobody", "agent", "ended", "other team", "reviewer", "operator", "elsewhere", "another site")
"""`elsewhere` is an operator of another workspace; `another site` an operator whose browser was sent by a page of
others."""

DOOR = {
    "nobody": 303, "agent": 403, "ended": 303, "other team": 200, "reviewer": 200, "operator": 200, "elsewhere": 200,
    "another site": 200,
}  # fmt: skip
"""Pages for people: nobody is sent to the door, and people see what is in their own workspace."""
ABOUT = {**DOOR, "elsewhere": 404}
"""The same about something that is in this workspace."""
SENT = {
    "nobody": 401, "agent": 403, "ended": 401, "other team": 303, "reviewer": 303, "operator": 303, "elsewhere": 303,
    "another site": 403,
}  # fmt: skip
"""Forms for people."""
SHOWN = {**SENT, "other team": 200, "reviewer": 200, "operator": 200, "elsewhere": 200}
SENT_ABOUT, SHOWN_ABOUT = {**SENT, "elsewhere": 404}, {**SHOWN, "elsewhere": 404}
REVIEWERS = {**SENT_ABOUT, "other team": 403}
OPERATORS = {**SENT_ABOUT, "other team": 403, "reviewer": 403}


def everybody(status: int, *, another_site: int = 0) -> dict[str, int]:
    return {**dict.fromkeys(VISITORS, status), "another site": another_site or status}


def people(status: int) -> dict[str, int]:
    return {**SENT, **dict.fromkeys(("other team", "reviewer", "operator", "elsewhere"), status)}


ROWS: dict[tuple[str, str], dict[str, int]] = {
    # The way in: whoever has a link, a password or a key may use it, unless a page of others sends it.
    ("GET", "/enter"): everybody(200),
    ("POST", "/enter"): everybody(303, another_site=403),
    ("GET", "/login"): {**everybody(303), "nobody": 200, "agent": 200, "ended": 200},
    ("POST", "/login"): everybody(303, another_site=403),
    ("POST", "/login/passkey/ask"): everybody(200, another_site=403),
    ("POST", "/login/passkey"): everybody(403),
    ("GET", "/prove"): DOOR,
    # The wrong password, and nobody's passkey.
    ("POST", "/prove"): people(403),
    ("POST", "/prove/passkey/ask"): people(200),
    ("POST", "/prove/passkey"): people(403),
    ("POST", "/logout"): SENT,
    # There is no provider here; with one they are in test_sso.py.
    ("POST", "/sso/begin"): everybody(404, another_site=403),
    ("POST", "/sso/prove"): people(404),
    ("GET", "/sso/return"): everybody(404),
    ("POST", "/sso/return"): everybody(404, another_site=403),
    ("GET", "/you"): DOOR,
    ("POST", "/you/passkeys/ask"): people(200),
    ("POST", "/you/passkeys"): people(403),
    # It is somebody else's, and stays.
    ("POST", "/you/passkeys/{passkey}/remove"): people(404),
    ("GET", "/"): DOOR,
    ("HEAD", "/"): DOOR,
    ("GET", "/r/{code}"): ABOUT,
    ("GET", "/icon.svg"): everybody(200),
    ("POST", "/r/{code}/seen"): {**people(204), "elsewhere": 404},
    ("POST", "/r/{code}/decide"): REVIEWERS,
    ("POST", "/r/{code}/preview"): SHOWN_ABOUT,
    ("POST", "/r/{code}/edit"): SHOWN_ABOUT,
    ("POST", "/r/{code}/afterwards"): REVIEWERS,
    ("GET", "/r/{code}/alike"): ABOUT,
    # The page says of each what became of it; that nothing is decided by those who may not is looked at below.
    ("POST", "/r/{code}/alike"): SHOWN_ABOUT,
    ("POST", "/r/{code}/similar"): {**OPERATORS, "operator": 200},
    ("POST", "/r/{code}/similar/give"): OPERATORS,
    ("GET", "/runs"): DOOR,
    ("GET", "/runs/{code}"): ABOUT,
    ("POST", "/runs/{code}/turn"): SENT_ABOUT,
    ("GET", "/stop"): DOOR,
    ("POST", "/stop"): SENT,
    ("GET", "/log"): DOOR,
    ("POST", "/log/export"): SHOWN,
    ("GET", "/policy"): DOOR,
    ("POST", "/policy/proposals/{code}/confirm"): OPERATORS,
    ("POST", "/policy/proposals/{code}/reject"): OPERATORS,
    ("POST", "/grants/{grant_id}/revoke"): OPERATORS,
    ("GET", "/settings"): DOOR,
    ("POST", "/settings/tokens"): {**OPERATORS, "operator": 200, "elsewhere": 200},
    ("POST", "/settings/tokens/{token}/end"): OPERATORS,
    ("POST", "/settings/terminal"): SHOWN,
    # The two passwords differ.
    ("POST", "/settings/password"): people(422),
    ("GET", "/api"): everybody(200),
}
CHANGES_NOTHING = {("POST", "/r/{code}/preview"), ("POST", "/r/{code}/edit"), ("POST", "/r/{code}/similar")}
THE_WAY_IN = ("/enter", "/login")
MARKS = ("sweeper", "tidy_shelf", "night shift", "billing")
"""What is in this workspace, and in no other."""
ELSEWHERE = "people:\n  ann: {roles: [operator]}\n  bob: {}\nself_review: allow\n"
ACCEPT = {"accept": "text/html"}


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Reception]:
    async with reception(database, POLICY.replace("  cem:", "  dan: {roles: [operator]}\n  cem:")) as made:
        yield made


class Forms(Scene):
    """For every route something to be about, and a form that would succeed if nothing but the visitor mattered."""

    async def form(self, method: str, path: str) -> tuple[str, dict[str, str]]:
        self._count += 1
        desk, number = self.desk, self._count
        last = path.rpartition("/")[2]
        if path.startswith("/r/"):
            asked = await (desk.carried_out("note_visit", n=number) if last == "afterwards" else desk.asked(n=number))
            digest = asked.shown_digest
            forms = {
                "decide": {"word": "approve"}, "preview": {}, "edit": {"word": "modify"},
                "afterwards": {"word": "accepted"}, "alike": {"word": "approve", "item": f"{asked.id} {digest}"},
                "similar": {}, "give": {"uses": "1", "hours": "1"},
            }  # fmt: skip
            return path.replace("{code}", asked.code), {"seen_digest": digest, **forms.get(last, {})}
        if path.startswith("/runs/{code}"):
            where, _ = await self._about_run(path, last, number)
            return where, {"setting": "pause"}
        if path.startswith("/policy/proposals"):
            where, body = await self._about_proposal(path, last, number)
            return where, {**(body or {})}
        if "{grant_id}" in path:
            return path.replace("{grant_id}", await self._grant()), {}
        if "{token}" in path:
            made = await desk.post("/tokens", {"agent": f"agent-{number}"}, "operator", 201)
            return path.replace("{token}", made["token"]["id"]), {}
        link = await desk.identities.link(Principal("ann"), "bea") if last == "enter" else ""
        return {
            ("GET", "/enter"): (f"/enter?link={link}", {}),
            ("POST", "/enter"): (path, {"link": link}),
            ("POST", "/login"): (path, {"name": "bea", "password": "correct horse battery"}),
            ("POST", "/prove"): (path, {"password": "wrong"}),
            ("POST", "/login/passkey"): (path, {"answer": "{}"}),
            ("POST", "/prove/passkey"): (path, {"answer": "{}"}),
            ("POST", "/you/passkeys"): (path, {"answer": "{}"}),
            ("POST", "/you/passkeys/{passkey}/remove"): (path.replace("{passkey}", "dans-key"), {}),
            ("POST", "/sso/return"): (path, {"code": "c", "state": "s"}),
            ("POST", "/stop"): (path, {"agent": "stranger", "setting": "pause", "sure": "yes"}),
            ("POST", "/settings/tokens"): (path, {"agent": f"agent-{number}"}),
            ("POST", "/settings/password"): (path, {"new": "one long password", "again": "another"}),
        }.get((method, path), (path, {}))


async def headers_of(desk: Reception, who: str, method: str) -> dict[str, str]:
    """What the browser or the agent sends; people with a session of their own, for some forms end it."""
    if who == "nobody":
        return ACCEPT
    if who == "agent":
        return {**ACCEPT, "authorization": f"Bearer {desk.secrets[who]}"}
    if who == "ended":
        return {**ACCEPT, "cookie": f"assentry-session={desk.secrets['revoked']}"}
    workspace = "other" if who == "elsewhere" else "default"
    names = {"other team": "cem", "reviewer": "bea"}
    identities = Identities(desk.premises.store, workspace)
    secret = await identities.begin_session(names.get(who, "ann"), "password")
    session = await identities.session(secret, (await desk.premises.room(workspace)).desk.judgement.policy)
    assert session is not None
    headers = {**ACCEPT, "cookie": f"assentry-session={secret}"}
    if who == "another site":
        # It cannot read the page, so it has no proof; with one it would fail as well.
        return {**headers, "origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    return {**headers, "x-assentry-csrf": csrf_for(session)} if method == "POST" else headers


async def prepared(desk: Reception) -> Forms:
    store = desk.premises.store
    await apply_policy(store, "other", ELSEWHERE, Principal("root"))
    await desk.identities.set_password(Principal("bea"), "bea", "correct horse battery")
    now = await store.now()
    key = Credential(
        "default", CredentialKind.PASSKEY, "dans-key", "dan", now, "dan", proof="AAAA", about={"name": "laptop"}
    )
    await store.transact("default", None, lambda _: Change(credentials=(key,)))
    await desk.asked(n=0)
    return Forms(desk)


async def test_every_kind_of_visitor_gets_what_the_table_says(desk: Reception) -> None:
    store, wrong = desk.premises.store, []
    forms = await prepared(desk)
    for (method, path), expected in ROWS.items():
        where, form = await forms.form(method, path)
        # Those who are refused first: they change nothing, so that one form serves them all.
        for who in sorted(VISITORS, key=lambda kind: -expected[kind]):
            if expected[who] < 400 and method == "POST":
                where, form = await forms.form(method, path)
            headers = await headers_of(desk, who, method)
            before = await store.sequence("default")
            got = await desk.client.request(method, where, data=form or None, headers=headers)
            desk.client.cookies.clear()
            told = f"{who}: {method} {where}: {got.status_code}"
            if got.status_code != expected[who]:
                wrong.append(f"{told}, not {expected[who]}: {text_of(got)}")
            elif got.status_code == 303 and expected is DOOR and not got.headers["location"].startswith("/login"):
                wrong.append(f"{told} leads to {got.headers['location']}")
            changes = method == "POST" and expected[who] < 400 and (who != "elsewhere" or path in THE_WAY_IN)
            changed = await store.sequence("default") != before
            if changed and (not changes or (method, path) in CHANGES_NOTHING):
                wrong.append(f"{told}, and it left an entry")
            if who in ("nobody", "agent", "ended", "elsewhere") and path != "/api":
                wrong += [f"{told}, and shows {mark}" for mark in MARKS if mark in got.text]
    assert not wrong, "\n".join(wrong)
    key = await store.credential("default", CredentialKind.PASSKEY, "dans-key")
    assert key is not None
    assert key.ended_at is None


def text_of(answer: httpx.Response) -> str:
    return " ".join(answer.text.partition("<main")[2].split())[:300]


async def test_the_table_has_a_row_for_every_route() -> None:
    routes = {(method, route.path) for route in api_routes(router) for method in route.methods or ()}
    assert routes == set(ROWS)
    assert all(set(row) == set(VISITORS) for row in ROWS.values())


async def test_of_many_on_one_page_only_those_are_decided_that_the_visitor_may_decide(desk: Reception) -> None:
    asked = await desk.asked(n=1)
    form = {"word": "approve", "item": f"{asked.id} {asked.shown_digest}"}
    for who, state in (("other team", "pending"), ("reviewer", "approved")):
        headers = await headers_of(desk, who, "POST")
        got = await desk.client.post(f"/r/{asked.code}/alike", data=form, headers=headers)
        assert (got.status_code, str((await desk.now(asked)).state)) == (200, state)
