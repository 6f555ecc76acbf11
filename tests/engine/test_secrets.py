"""Seeded secrets are searched for in every place that keeps or shows something; none is found."""

import os
import random
import string
from pathlib import Path
from typing import Annotated, Any

import pytest

import assentry
from assentry.core.request import State
from assentry.errors import InvalidDecision
from assentry.ports import Filter
from tests import forked


def seeded(number: int) -> list[str]:
    """Secrets of the shapes that are detected without being declared."""
    dice = random.Random(number)
    letters = string.ascii_letters + string.digits

    def some(length: int) -> str:
        return "".join(dice.choice(letters) for _ in range(length))

    return [
        f"ghp_{some(36)}",
        f"AKIA{''.join(dice.choice(string.ascii_uppercase + string.digits) for _ in range(16))}",
        f"sk_live_{some(24)}",
        f"xoxb-{some(24)}",
        f"postgres://app:{some(16)}@db/app",
        f"-----BEGIN PRIVATE KEY-----\n{some(64)}\n-----END PRIVATE KEY-----",
    ]


@pytest.mark.parametrize("round_", range(3))
async def test_no_secret_reaches_the_database_the_log_an_export_or_a_screen(house, tmp_path, round_):
    if not house.database.startswith("/"):
        pytest.skip("files are searched byte by byte; the other store keeps the same rows")
    declared = f"declared-{random.Random(round_).randrange(10**12)}"
    secrets = seeded(round_)

    @house.gate.guard(reversible=False)
    async def set_up(
        note: str, nested: dict[str, Any], password: str, key: Annotated[str, assentry.Secret]
    ) -> dict[str, str]:
        assert key == declared
        assert nested["list"][0] == secrets[1]
        return {"echo": f"{key} {note}", "found": secrets[2]}

    @house.gate.guard(reversible=False)
    async def set_up_badly(note: str, key: Annotated[str, assentry.Secret]) -> None:
        raise RuntimeError(f"could not use {key} nor {secrets[3]} in {note}")

    said = {"why": f"because {secrets[4]} and {declared}", "goal": secrets[5], "alternatives": [secrets[0]]}
    nested = {"list": [secrets[1], {"deep": secrets[5]}]}
    good = house.start(set_up.with_(**said)(f"use {secrets[0]} now", nested, secrets[4], declared))
    (request,) = await house.waiting()
    brief = await house.inbox.brief(request.id)
    await house.inbox.approve(house.me, request.id, confirm=brief.phrase)
    assert declared in (await good)["echo"]
    bad = house.start(set_up_badly.with_(**said)(f"use {secrets[0]} now", declared))
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id, confirm=(await house.inbox.brief(request.id)).phrase)
    with pytest.raises(RuntimeError):
        await bad
    denied = house.start(set_up_badly(secrets[2], declared))
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "no")
    with pytest.raises(assentry.Denied):
        await denied

    await house.desk.notary.seal()
    export = tmp_path / "export.jsonl"
    with export.open("w") as out:
        await house.desk.notary.export(out.write)
    ended = (await house.inbox.page(Filter(states=(State.DONE, State.FAILED, State.DENIED)))).requests
    assert len(ended) == 3
    shown = "".join(
        forked.assentry("--database", house.database, *words, cwd=tmp_path, env=os.environ).out
        for words in (
            ["log", "--json"],
            *(["show", r.code, "--json"] for r in ended),
            *(["show", r.code] for r in ended),
        )
    )
    assert ended[0].code in shown
    places = {"screen": shown, "export": export.read_text(), "briefing": repr(brief)}
    for file in Path(house.database).parent.glob("assentry.db*"):
        places[file.name] = file.read_bytes().decode("latin-1")
    needles = [
        declared,
        *(part for secret in secrets for part in [secret.split("\n")[1] if "\n" in secret else secret]),
    ]
    found = [(place, needle) for place, text in places.items() for needle in needles if needle in text]
    assert found == []


async def test_a_number_in_a_field_for_secrets_and_a_secret_in_a_name_are_sealed_too(house):
    token = "AKIA" + "ABCDEFGH12345678"
    ran = []

    @house.gate.guard(reversible=False, patience=0)
    async def charge(pin: int, headers: dict[str, str], cents: int) -> dict[str, int]:
        ran.append((pin, headers))
        return {"otp": 778812, "cents": cents}

    with pytest.raises(assentry.Parked) as parked:
        await charge(4711, {token: "yes"}, 5)
    request = await house.desk.store.request("default", parked.value.request_id)
    assert "4711" not in request.candidate.args_text
    assert token not in repr(request)
    # Changing something else leaves what stands for the secrets as it is.
    args = {**(await house.inbox.brief(request.id)).args, "cents": 6}
    await house.inbox.modify(house.me, request.id, args, confirm="charge 0.06")
    await house.gate.resume(request.id)
    assert ran == [(4711, {token: "yes"})]
    done = await house.desk.store.request("default", request.id)
    assert "778812" not in done.result_text
    assert '"cents":6' in done.result_text


async def test_a_secret_that_a_person_types_is_struck_out_or_refused(house):
    token = "AKIA" + "ABCDEFGH12345678"

    @house.gate.guard(reversible=False, patience=0)
    async def send_note(text: str) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await send_note("hello")
    with pytest.raises(InvalidDecision, match="looks like a secret"):
        await house.inbox.modify(house.me, parked.value.request_id, {"text": f"use {token}"})
    await house.inbox.deny(house.me, parked.value.request_id, f"use {token} instead")
    denied = await house.desk.store.request("default", parked.value.request_id)
    assert denied.reason == "use ⟨secret struck out, 20 characters⟩ instead"
    assert not any(token in each.text for each in await house.desk.store.entries("default"))
    with pytest.raises(assentry.Parked) as asked:
        await house.gate.ask("Which key?", patience=0)
    with pytest.raises(InvalidDecision, match="looks like a secret"):
        await house.inbox.answer(house.me, asked.value.request_id, token)
