"""An agent cannot hide what decides how dangerous a call is; a password is nobody's business."""

from datetime import timedelta
from typing import Annotated, Any

import pytest

import assentry
from assentry.core.action import Json, Risk
from assentry.core.canonical import restore
from assentry.core.grant import Terms
from assentry.core.request import Request, State
from assentry.core.verdict import GateKind
from assentry.engine.agent_calls import Described
from assentry.engine.grants import give
from assentry.engine.hiding import hidden_by_agent
from assentry.engine.judgement import Context, Judgement
from assentry.engine.sealing import holds_marks, unsealed
from assentry.engine.tool import option, tool_of
from assentry.errors import InvalidDecision, StaleRequest
from tests.engine.conftest import House

HIDDEN: dict[str, tuple[dict[str, Json], list[str]]] = {
    "a path": ({"path": "/etc/passwd"}, ["path"]),
    "an amount": ({"amount": 250_000, "currency": "EUR"}, ["amount"]),
    "a link": ({"url": "http://169.254.169.254/latest"}, ["url"]),
    "a recipient": ({"to": "x@evil.example"}, ["to"]),
    "recipients": ({"recipients_list": ["x@evil.example"]}, ["recipients_list"]),
    "a command": ({"command": "rm -rf /"}, ["command"]),
    "a filter": ({"where": "1=1"}, ["where"]),
    "how many": ({"count": 900}, ["count"]),
    "where": ({"environment": "production"}, ["environment"]),
    "inside": ({"options": {"more": [{"path": "/etc/passwd"}]}}, ["options"]),
    "by the name of a field": ({"secret": {"path": "/etc/passwd", "amount": 7}}, []),
    "in a field for passwords": ({"password": {"command": "rm -rf /"}}, []),
    "as a password": ({"password": "/etc/passwd"}, []),
    "as a token": ({"token": "https://evil.example/somewhere"}, []),
    "as an object that is written": ({"secret": '{"path": "/etc/passwd"}'}, []),
    "as the same text elsewhere": ({"note": "production", "target": "production"}, ["note"]),
    "as the same password elsewhere": ({"password": "evil1.example", "command": "curl evil1.example"}, []),
    "as the name of a field": ({"note": "x@evil.example", "rights": {"x@evil.example": 1}}, ["note"]),
    "by its shape": ({"to": "password=x123@evil.example"}, []),
}
OPEN: dict[str, tuple[dict[str, Json], list[str]]] = {
    "a password": ({"path": "/tmp/a", "password": "hunter2hunter2"}, []),
    "a declared key": ({"to": "ann@ours.example", "key": "wJalrXUtnFEMI/K7MDENG/bPxRfi"}, ["key"]),
    "a login of a database": ({"database": {"host": "db1", "password": "p@ssw0rd"}}, []),
    "a link with a password": ({"url": "https://me:hunter22@db.example/x"}, []),
    "a header": ({"command": "curl -H 'Authorization: Bearer abcdefghij1234567890' https://a.example"}, []),
    "a number": ({"pin": 1234, "path": "a"}, []),
    "words": ({"note": "what we talked about", "body": "Dear Ann, write to bob@ours.example soon"}, ["note", "body"]),
}  # fmt: skip


@pytest.mark.parametrize("args", HIDDEN.values(), ids=HIDDEN)
def test_what_decides_and_is_hidden_is_found(args: tuple[dict[str, Json], list[str]]) -> None:
    assert hidden_by_agent(args[1], args[0])


@pytest.mark.parametrize("args", OPEN.values(), ids=OPEN)
def test_a_password_and_words_are_not_what_decides(args: tuple[dict[str, Json], list[str]]) -> None:
    assert hidden_by_agent(args[1], args[0]) == ()


async def proposed(house: House, action: str, args: dict[str, Json], secret: list[str], **more: Any) -> Request | None:
    calls = house.gate.agent("bot")
    made, _ = calls.described(Described(action, secret=frozenset(secret), **more))
    request: Request | None = await calls.propose(made, args, Context(agent="bot"))
    if request is not None:
        assert calls.foreseen(made, args) is request.candidate.verdict.gate
    return request


def triggers(request: Request) -> list[str]:
    return [trigger.name for trigger in request.candidate.verdict.triggers]


@pytest.mark.parametrize("word", ["nothing", "a rule", "a grant"])
@pytest.mark.parametrize("trusted", [False, True])
async def test_it_holds_and_says_that_the_agent_hides_it(house: House, trusted: bool, word: str) -> None:
    listed = "agents: {bot: {}}\n" if trusted else ""
    await house.policy(listed + ("rules: [{name: mine, actions: ['*'], gate: run}]\n" if word == "a rule" else ""))
    if word == "a grant":
        terms = Terms(("*",), timedelta(hours=1), limit=99, max_risk=Risk.CRITICAL)
        await give(house.desk.store, "default", house.me, terms)
        await house.gate._judgement.refresh()
    for args, secret in HIDDEN.values():
        request = await proposed(house, "list_notes", args, secret)
        assert request is not None, args
        assert request.state is State.PENDING, args
        assert request.candidate.verdict.gate in (GateKind.HARD, GateKind.MANUAL), args
        assert "hidden" in triggers(request)
        shown = request.candidate.args_text
        assert "⟨hidden by the agent, secret" in shown
        assert holds_marks(restore(shown))
        assert unsealed(house.gate._vault, request.id, restore(shown), request.sealed) == args
        for kept in ("evil", "passwd", "250000"):
            assert kept not in shown, args
    for args, secret in OPEN.values():
        request = await proposed(house, "list_notes", args, secret)
        assert request is None or "hidden" not in triggers(request)


async def test_what_the_operator_declares_secret_is_as_it_was(house: House) -> None:
    @house.gate.guard(patience=0, risk="safe")
    async def show_note(path: Annotated[str, assentry.Secret], token: str) -> str:
        return path + token

    await house.policy("rules: [{name: fine, actions: ['*'], gate: watch}]\n")
    assert await show_note("/etc/hosts", "https://ours.example/abc") == "/etc/hostshttps://ours.example/abc"


async def test_what_an_option_hides_holds_as_well(house: House) -> None:
    await house.policy("agents: {bot: {}}\nrules: [{name: fine, actions: ['*'], gate: run}]\n")
    offer = option("other", "", {"path": "/etc/passwd"})
    request = await proposed(house, "list_notes", {"path": ""}, ["path"], options=(offer,))
    assert request is not None
    assert "hidden" in triggers(request)
    candidate = request.ask.options[0].candidate
    assert candidate is not None
    assert "hidden by the agent" in candidate.args_text


NEW = "rules: [{name: new, actions: ['*'], when: 'has(args.command) && args.command.contains(\"-rf\")', gate: %s}]\n"


async def approved(house: House) -> Request:
    request = await proposed(house, "run_command", {"command": "rm -rf /srv"}, ["command"])
    assert request is not None
    confirm = (await house.inbox.brief(request.id)).phrase
    return await house.inbox.approve(house.me, request.id, confirm=confirm)


async def test_a_policy_that_came_after_the_approval_is_held_against_what_is_sealed(house: House) -> None:
    request = await approved(house)
    await house.policy(NEW % "forbid")
    await house.gate._judgement.refresh()
    with pytest.raises(assentry.Denied, match="policy says forbid"):
        await house.gate.agent("bot").begin(request.id, attempt="one")


async def test_a_policy_that_came_after_the_proposal_is_held_against_what_is_sealed(house: House) -> None:
    request = await proposed(house, "run_command", {"command": "rm -rf /srv"}, ["command"])
    assert request is not None
    await house.policy(NEW % "manual")
    await house.inbox.refresh()
    with pytest.raises(StaleRequest, match="types what they confirm"):
        await house.inbox.approve(house.me, request.id)
    await house.policy(NEW % "forbid")
    await house.inbox.refresh()
    with pytest.raises(InvalidDecision, match="policy forbids"):
        await house.inbox.approve(house.me, request.id)


async def test_what_cannot_be_opened_here_cannot_be_allowed_here(house: House) -> None:
    request = await approved(house)
    blind = Judgement(house.desk.store, "default")
    verdict = blind.judged_again(tool_of(request.candidate.action), request, request.changed_at)[2]
    assert verdict.gate is GateKind.FORBID
    assert "cannot be opened here" in verdict.because
