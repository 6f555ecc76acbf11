"""Code without asyncio: the same gate, waited for in plain threads."""

import asyncio
import threading

import pytest

import assent
from assent.assemble import desk
from assent.settings import load


class Decider(threading.Thread):
    """Somebody at another desk who treats every request alike."""

    def __init__(self, database: str, word: str) -> None:
        super().__init__(daemon=True)
        self.database, self.word = database, word
        self.start()

    def run(self) -> None:
        asyncio.run(self.decide())

    async def decide(self) -> None:
        table = await desk(load({"database": self.database}))
        async with asyncio.timeout(10):
            while not (found := (await table.inbox.page()).requests):
                await asyncio.sleep(0.01)
        (request,) = found
        phrase = (await table.inbox.brief(request.id)).phrase
        if self.word == "approve":
            await table.inbox.approve(table.person(), request.id, confirm=phrase)
        elif self.word == "answer":
            await table.inbox.answer(table.person(), request.id, "blue")
        else:
            await table.inbox.deny(table.person(), request.id, "no")
        await table.store.close()


@pytest.fixture
def gate(tmp_path):
    gate = assent.BlockingGate(assent.open(tmp_path / "a.db"))
    yield gate
    gate.close()


def test_a_proposal_is_waited_for_and_carried_out(gate, tmp_path):
    proposal = gate.propose("transfer_money", {"amount": 5.0})
    decider = Decider(str(tmp_path / "a.db"), "approve")
    with proposal.execution() as running:
        running.result = running.args["amount"]
    decider.join()
    assert gate.outcome(proposal.request.id).result_text == "5"


def test_an_error_inside_the_block_is_recorded_and_raised(gate, tmp_path):
    proposal = gate.propose("transfer_money", {"amount": 5.0})
    Decider(str(tmp_path / "a.db"), "approve")
    with pytest.raises(OSError, match="line down"), proposal.execution():
        raise OSError("line down")
    assert gate.outcome(proposal.request.id).error == "OSError: line down"


def test_a_denied_proposal_never_enters_its_block(gate, tmp_path):
    proposal = gate.propose("transfer_money", {"amount": 5.0})
    Decider(str(tmp_path / "a.db"), "deny")
    with pytest.raises(assent.Denied), proposal.execution():
        pytest.fail("ran although denied")


def test_a_question_is_asked_and_answered(gate, tmp_path):
    Decider(str(tmp_path / "a.db"), "answer")
    assert gate.ask("Which colour?", choices=["red", "blue"]) == "blue"
