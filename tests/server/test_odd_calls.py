"""Calls that no document describes: odd text, depth and numbers get a problem, never an error of ours."""

import pytest

from tests.server.reception import Reception

DEEP = "[" * 50_000 + "]" * 50_000
BODIES = {
    "half a pair as a name": '{"\\ud800": 1}',
    "half a pair as a value": '{"word": "deny", "reason": "\\ud800"}',
    "half a pair inside": '{"word": "modify", "args": {"a": "\\ud800"}, "seen_digest": "x"}',
    "half a pair inside a name": '{"word": "modify", "args": {"\\udfff": 1}, "seen_digest": "x"}',
    "nothing at all": "",
    "no JSON": "{",
    "a number": "7",
    "nul": '{"word": "deny", "reason": "\\u0000", "seen_digest": "\\u0000"}',
    "deep": f'{{"word": "answer", "answer": {DEEP}, "seen_digest": "x"}}',
    "not a number": '{"word": "answer", "answer": NaN, "seen_digest": "x"}',
    "without end": '{"word": "answer", "answer": 1e999, "seen_digest": "x"}',
    "a very long number": f'{{"word": "answer", "answer": {"9" * 5000}, "seen_digest": "x"}}',
    "option without end": '{"word": "choose", "option": 1e999}',
    "not UTF-8": b'{"word": "\xff"}',
}
PATHS = ("%00", "%ED%A0%80", "%F0%9F%A6%84", "a" * 200, "%2e%2e", "%25", "_", "%", "\u202e", "%0a")


async def test_no_body_makes_the_server_fail(desk: Reception) -> None:
    request = await desk.asked(shelf=1)
    head = {"authorization": f"Bearer {desk.secrets['operator']}", "content-type": "application/json"}
    paths = [f"requests/{request.id}/{last}" for last in ("decision", "undo", "review", "reconcile", "allow-similar")]
    paths += ["decisions", "grants", "grants/preview", "switches", "policy", "policy/check", "policy/explain", "tokens"]
    for path in paths:
        for name, body in BODIES.items():
            for headers in (head, {**head, "idempotency-key": f"{path} {name}"}):
                got = await desk.client.post(f"/api/v1/{path}", content=body, headers=headers)
                taken = path.endswith("/undo") and name == "nothing at all"
                assert 400 <= got.status_code < 500, f"{path}: {name}: {got.status_code} {got.text[:200]}"
                assert taken or got.headers["content-type"] == "application/problem+json"
    assert (await desk.get(f"/requests/{request.id}"))["request"]["state"] == "pending"


async def test_odd_text_in_arguments_of_an_explanation_is_told_not_failed(desk: Reception) -> None:
    for args in ({"a": "\x00"}, {"\u202e": ["\ufeff"]}, {"n": 10**300}, {"": {"": None}}, {"x": "\U0001f984" * 1000}):
        answer = await desk.call("reviewer", "POST", "/policy/explain", {"action": "tidy\u202e_\x00", "args": args})
        assert answer.status_code in (200, 422), answer.text
    await desk.post("/switches", {"setting": "stop", "agent": "\x00\u202e"}, status=200)
    assert len((await desk.get("/switches"))["switches"]) == 1


@pytest.mark.parametrize("odd", PATHS)
async def test_no_name_makes_the_server_fail(desk: Reception, odd: str) -> None:
    headers = {"authorization": f"Bearer {desk.secrets['operator']}"}
    gets = [f"requests/{odd}", f"runs/{odd}/timeline", f"records/{odd}"]
    queries = ("after", "agent", "action", "text", "run", "kind", "request", "before", "state")
    gets += [f"{what}?{name}={odd}" for what in ("requests", "runs", "log", "tokens") for name in queries]
    for path in gets:
        got = await desk.client.get(f"/api/v1/{path}", headers=headers)
        assert got.status_code < 500, f"{path}: {got.text[:200]}"
    for path in (f"requests/{odd}/seen", f"runs/{odd}/stop", f"grants/{odd}/revoke", f"tokens/{odd}/end"):
        got = await desk.client.post(f"/api/v1/{path}", headers=headers)
        assert 400 <= got.status_code < 500, f"{path}: {got.text[:200]}"
