"""Code without asyncio: the same gate, waited for in plain threads."""

import asyncio
import threading
import time

import pytest

import assentry
from assentry.assemble import desk
from assentry.core.run import RunState
from assentry.settings import load
from tests.stage import PATIENCE


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
        async with asyncio.timeout(PATIENCE):
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
    gate = assentry.BlockingGate(assentry.open(tmp_path / "a.db"))
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
    with pytest.raises(assentry.Denied), proposal.execution():
        pytest.fail("ran although denied")


def test_a_question_is_asked_and_answered(gate, tmp_path):
    Decider(str(tmp_path / "a.db"), "answer")
    assert gate.ask("Which colour?", choices=["red", "blue"]) == "blue"


def test_a_run_without_asyncio(gate, tmp_path):
    @gate.guard(reversible=True, reach="local")
    def move(path: str) -> str:
        return path.upper()

    @gate.guard(reversible=False)
    def drop(path: str) -> str:
        return path

    decider = Decider(str(tmp_path / "a.db"), "approve")
    with gate.run("Tidy up", scope={"steps": 10}) as run:
        run.plan(["move", "drop"])
        run.spent(0.5)
        run.observed("disk", "quiet", trusted=True)
        with run.phase("move") as phase:
            phase.result = move("a")
        run.outcome = [phase.result, run.attempt(drop, path="b")]
    decider.join()
    assert (run.record.state, run.record.outcome) == (RunState.FINISHED, ["A", "b"])
    assert (run.record.steps, [step.done for step in run.record.plan]) == (2, [True, False])
    assert run.record.goal == "Tidy up"


def test_what_stops_a_run_without_asyncio_cannot_be_swallowed(gate, tmp_path):
    @gate.guard(reversible=False)
    def drop(path: str) -> str:
        raise AssertionError("nobody decided")

    def work() -> None:
        with gate.run("Tidy up", patience=0):
            try:
                drop("b")
            except BaseException:
                return

    with pytest.raises(assentry.Parked):
        work()


def test_a_question_and_a_draft_without_asyncio(gate, tmp_path):
    Decider(str(tmp_path / "a.db"), "answer")
    with gate.run("Paint") as run:
        assert run.ask("Which colour?", choices=["blue", "red"]) == "blue"
    decider = Decider(str(tmp_path / "a.db"), "approve")
    with gate.run("Write") as run:
        assert run.revise("note", lambda draft: "hello") == "hello"
    decider.join()


def test_a_plain_function_goes_on_with_a_parked_run(gate, tmp_path):
    did = []

    @gate.guard(reversible=False)
    def drop(path: str) -> str:
        did.append(path)
        return path

    @gate.host("loop")
    def resume(state, resumption):
        return [drop(path) for path in state]

    with pytest.raises(assentry.Parked), gate.run("Tidy up", host="loop") as run:  # noqa: PT012
        run.snapshot(["a"])
        drop("a")
    with gate.worker():
        Decider(str(tmp_path / "a.db"), "approve").join()
        deadline = time.monotonic() + 60
        while (record := gate._gate.portal.run(gate._gate._store.run("default", run.record.id))).state.is_open:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert (record.state, record.outcome, did) == (RunState.FINISHED, ["a"], ["a"])
