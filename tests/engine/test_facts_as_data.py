"""What the product knows it keeps as data: no sentence, whoever wrote it, is read back as a fact."""

from decimal import Decimal

import pytest

import assentry
from assentry.core import facts
from assentry.core.argument_look import Look
from assentry.telling.run_words import gate_words

SAID = "no: silence by silence 3 s ago"


async def test_a_reason_that_reads_like_silence_is_not_taken_for_it(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None:
        raise AssertionError("ran although denied")

    call = house.start(delete_files(["a"]))
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, SAID)
    with pytest.raises(assentry.Denied):
        await call
    card = await house.inbox.brief(request.id)
    assert not card.on_silence
    assert card.outcome.startswith("denied: deny by ")
    assert card.outcome.endswith(SAID)


async def test_what_nobody_objected_to_is_known_to_have_gone_ahead_on_silence(house):
    await house.policy("limits: {window: 1s}\nrules: [{name: softly, actions: [move_file], gate: soft}]\n")

    @house.gate.guard(reversible=True, reach="local")
    async def move_file(path: str) -> str:
        return path

    call = house.start(move_file("a"))
    (request,) = await house.waiting()
    await house.inbox.seen(house.me, request.id)
    assert await call == "a"
    card = await house.inbox.brief(request.id)
    assert card.on_silence
    assert "WENT AHEAD ON SILENCE" in card.outcome


async def test_a_rule_whose_name_begins_with_default_is_no_default(house):
    await house.policy("rules: [{name: default disks, actions: [wipe], gate: hard, because: disks are shared}]\n")

    @house.gate.guard(reversible=False)
    async def wipe(disk: str) -> None: ...

    house.start(wipe.with_(confidence=0.1)("a"))
    (request,) = await house.waiting()
    assert request.candidate.verdict.triggers
    assert "disks are shared" in gate_words(request)


async def test_a_looked_up_count_uses_up_what_the_arguments_say_it_counts(house):
    """The lookup's own sentence is `count: 40`; what is counted stays files."""

    @house.gate.guard(reversible=True, reach="local", facts=lambda args: {"count": 40})
    async def tidy(files: list[str]) -> int:
        return len(files)

    async with house.gate.run("Tidy up", agent="bot", scope={"files": 50}):
        await tidy(["a", "b"])
        assert (await house.run()).used["files"] == Decimal(40)
        house.start(tidy(["c", "d"]))
        (request,) = await house.waiting()
        assert "scope" in {trigger.name for trigger in request.candidate.verdict.triggers}
        await house.inbox.deny(house.me, request.id, "enough")


@pytest.mark.parametrize("kept", sorted(Look(is_read=False).__dict__.keys() - {"is_read", "sends", "found", "waiting"}))
async def test_no_alarm_depends_on_how_many_attributes_a_look_keeps(house, monkeypatch, kept):
    start = Look(is_read=False).__dict__[kept]

    class Leaner(Look):
        def __init__(self, **more: bool) -> None:
            super().__init__(**more)
            setattr(type(self), kept, type(start)())
            delattr(self, kept)

    monkeypatch.setattr(facts, "Look", Leaner)
    call = await house.gate.propose("update_widget", {"ids": "all"}, agent="bot")
    assert {"unbounded"} <= {fact.name for fact in call.request.candidate.assessment.facts}
    assert str(call.request.candidate.assessment.risk) == "dangerous"
