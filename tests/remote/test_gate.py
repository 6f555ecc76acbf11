"""A gate behind a real server: guarded functions run here, people decide there, and nothing is made twice."""

import asyncio
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

import pytest

import assentry
from assentry.core.authority import Principal
from assentry.core.request import State
from assentry.core.run import RunState
from assentry.core.switch import Setting
from assentry.engine.oversight import Oversight
from assentry.errors import GuardError, SettingsError
from assentry.ports import Filter, RunFilter
from tests.remote.place import Place
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def gate(place: Place):
    made = await asyncio.to_thread(assentry.connect, place.url, await place.token("cleanup"))
    yield made
    await made.close()


async def test_what_is_allowed_runs(place: Place, gate: assentry.Gate):
    seen = []

    @gate.guard
    async def list_files(path: str) -> list[str]:
        seen.append(path)
        return ["a", "b"]

    assert await list_files("/tmp") == ["a", "b"]
    assert seen == ["/tmp"]


async def test_what_is_watched_runs_and_is_on_record_with_its_result(place: Place, gate: assentry.Gate):
    await place.policy("rules: [{name: watched, actions: ['write_*'], gate: watch}]\n")

    @gate.guard
    async def write_note(text: str) -> dict[str, int]:
        return {"length": len(text)}

    assert await write_note("four") == {"length": 4}
    [request] = await place.until(bool, Filter(states=(State.DONE,)))
    assert request.result_text == '{"length":4}'


async def test_a_program_whose_call_waits_hears_how_to_decide_it_at_the_server(
    place: Place, gate: assentry.Gate, caplog
):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    with pytest.raises(assentry.Parked) as parked:
        await delete_files.with_(wait=0.05)(["a"])
    (told,) = [each.getMessage() for each in caplog.records if each.name == "assentry.gate"]
    assert f"`assentry --server {place.url} approve {parked.value.code}`" in told


async def test_a_held_call_runs_once_it_is_approved(place: Place, gate: assentry.Gate):
    keys = []

    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        keys.append(assentry.idempotency_key())
        return len(paths)

    call = place.start(delete_files.with_(why="they are old").acall(["/a", "/b"]))
    [request] = await place.waiting()
    assert request.ask.claims["why"] == "they are old"
    await place.approve(request)
    assert await asyncio.wait_for(call, PATIENCE) == 2
    assert keys == [(await place.in_state(request.id, State.DONE)).idempotency_key]


async def test_a_denied_call_raises_as_with_a_local_gate(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        pytest.fail("ran although denied")

    call = place.start(delete_files(["/a"]))
    [request] = await place.waiting()
    await place.deny(request, "they are in use")
    with pytest.raises(assentry.Denied, match="they are in use") as denied:
        await asyncio.wait_for(call, PATIENCE)
    assert denied.value.request_id == request.id
    assert "plan on without it" in denied.value.next_step


async def test_exactly_the_changed_bytes_run(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str], deep: bool = False) -> list[str]:
        return paths

    call = place.start(delete_files(["/a", "/b"]))
    [request] = await place.waiting()
    await place.inbox.modify(place.me, request.id, {"paths": ["/a"], "deep": False})
    assert await asyncio.wait_for(call, PATIENCE) == ["/a"]


async def test_a_plain_function_waits_in_its_thread(place: Place, gate: assentry.Gate):
    ran = []

    @gate.guard
    def delete_files(paths: list[str]) -> int:
        ran.append(threading.current_thread().name)
        return len(paths)

    call = place.start(asyncio.to_thread(delete_files, ["/a"]))
    [request] = await place.waiting()
    await place.approve(request)
    assert await asyncio.wait_for(call, PATIENCE) == 1


async def test_an_error_of_the_function_is_on_record_and_raised(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        raise OSError("disk is gone")

    call = place.start(delete_files(["/a"]))
    [request] = await place.waiting()
    await place.approve(request)
    with pytest.raises(OSError, match="disk is gone"):
        await asyncio.wait_for(call, PATIENCE)
    assert (await place.in_state(request.id, State.FAILED)).error == "OSError: disk is gone"


async def test_secrets_reach_the_function_and_no_record(place: Place, gate: assentry.Gate):
    secret, seen = "hunter2-hunter2-hunter2", []

    @gate.guard
    async def send_report(to: str, password: Annotated[str, assentry.Secret]) -> str:
        seen.append(password)
        return f"sent with {password}"

    call = place.start(send_report("a@example.com", secret))
    [request] = await place.waiting()
    assert secret not in request.candidate.args_text
    await place.approve(request)
    assert await asyncio.wait_for(call, PATIENCE) == f"sent with {secret}"
    assert seen == [secret]
    assert secret not in (await place.in_state(request.id, State.DONE)).result_text


async def test_a_call_parks_and_is_resumed(place: Place, gate: assentry.Gate):
    @gate.guard(patience=0)
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    with pytest.raises(assentry.Parked) as parked:
        await delete_files(["/a"])
    with pytest.raises(assentry.Parked):
        await gate.resume(parked.value.request_id)
    await place.approve(parked.value.request_id)
    assert await gate.resume(parked.value.request_id) == 1


async def test_a_call_with_a_key_finds_its_result_again(place: Place, gate: assentry.Gate):
    ran = []

    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        ran.append(paths)
        return len(paths)

    keyed = delete_files.with_(key="nightly")
    calls = [place.start(keyed.acall(["/a"])) for _ in range(3)]
    [request] = await place.waiting()
    await place.approve(request)
    assert await asyncio.wait_for(asyncio.gather(*calls), PATIENCE) == [1, 1, 1]
    assert await keyed.acall(["/a"]) == 1
    assert ran == [["/a"]]


async def test_a_cancelled_caller_leaves_nothing_in_the_inbox(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    call = place.start(delete_files(["/a"]))
    [request] = await place.waiting()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await place.in_state(request.id, State.CANCELLED)


async def test_a_proposal_that_is_no_function_is_carried_out(place: Place, gate: assentry.Gate):
    proposal = await gate.propose("delete_files", {"paths": ["/a"]}, why="old")
    assert proposal.request is not None
    await place.approve(proposal.request.id)
    async with proposal.execution() as running:
        running.result = running.args["paths"]
    assert (await place.in_state(proposal.request.id, State.DONE)).result_text == '["/a"]'


async def test_a_question_gets_its_answer(place: Place, gate: assentry.Gate):
    call = place.start(gate.ask("Which colour?", choices=["red", "blue"]))
    [request] = await place.waiting()
    await place.inbox.answer(place.me, request.id, "blue")
    assert await asyncio.wait_for(call, PATIENCE) == "blue"


async def test_code_without_asyncio_has_the_same_gate(place: Place):
    token = await place.token("cleanup")

    def work() -> Any:
        blocking = assentry.BlockingGate(assentry.connect(place.url, token))
        try:
            with blocking.run("Tidy up") as run:
                run.observed("disk", "full")
                return run.ask("Which colour?")
        finally:
            blocking.close()

    call = place.start(asyncio.to_thread(work))
    [request] = await place.waiting()
    await place.inbox.answer(place.me, request.id, "blue")
    assert await asyncio.wait_for(call, PATIENCE) == "blue"


async def test_a_run_has_steps_checkpoints_and_an_outcome(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    async def work() -> None:
        async with gate.run("Tidy up", original="please tidy up") as run:
            await run.plan(["look", "delete"])
            await run.ticked("look")
            shown = await run.checkpoint("before deleting", {"files": 2}, editable=True)
            run.outcome = {"shown": shown, "gone": await delete_files(["/a"])}

    call = place.start(work())
    [stop] = await place.waiting()
    assert stop.candidate.says == "Checkpoint, named by the agent “before deleting”"
    args = dict(stop.candidate.action.args)
    await place.inbox.modify(place.me, stop.id, {**args, "show": {"files": 1}})
    await place.in_state(stop.id, State.DONE)
    [request] = await place.waiting()
    await place.approve(request)
    await asyncio.wait_for(call, PATIENCE)
    [run] = await place.desk.store.runs("default", RunFilter())
    assert (run.state, run.outcome) == (RunState.FINISHED, {"shown": {"files": 1}, "gone": 1})
    assert [(step.says, step.done) for step in run.plan] == [("look", True), ("delete", False)]


async def test_a_run_is_left_parked_and_goes_on_with_its_key(place: Place, gate: assentry.Gate):
    ran: list[str] = []

    @gate.guard(reversible=True, reach="local")
    async def note_step(name: str) -> str:
        ran.append(name)
        return name

    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        ran.append("delete")
        return len(paths)

    async def work() -> None:
        async with gate.run("Tidy up", key="tidy", patience=0) as run:
            await note_step("first")
            run.outcome = await delete_files(["/a"])

    await place.policy("agents: {cleanup: {}}\nrules: [{name: notes, actions: ['note_*'], gate: watch}]\n")
    with pytest.raises(assentry.Parked):
        await work()
    [run] = await place.desk.store.runs("default", RunFilter())
    assert run.state is RunState.PARKED
    [request] = await place.waiting()
    await place.approve(request)
    await work()
    [run] = await place.desk.store.runs("default", RunFilter())
    assert (run.state, run.outcome) == (RunState.FINISHED, 1)
    assert ran == ["first", "delete"]


async def test_a_draft_goes_back_and_forth(place: Place, gate: assentry.Gate):
    @gate.guard
    async def send_mail(to: str, body: str) -> str:
        return body

    async def work() -> Any:
        async with gate.run("Write") as run:
            return await run.revise(
                send_mail,
                lambda draft: {"to": "a@example.com", "body": "hi" if draft is None else f"hi, {draft.instructions}"},
            )

    call = place.start(work())
    [first] = await place.waiting()
    await place.inbox.revise(place.me, first.id, "warmer")
    [second] = await place.until(lambda found: bool(found) and found[0].id != first.id, Filter(states=(State.PENDING,)))
    assert second.ask.draft_of == first.id
    await place.approve(second)
    assert await asyncio.wait_for(call, PATIENCE) == "hi, warmer"


async def test_a_stopped_run_ends_at_its_next_gate(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    entered, go = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with gate.run("Tidy up"):
            entered.set()
            await go.wait()
            await delete_files(["/a"])

    call = place.start(work())
    await asyncio.wait_for(entered.wait(), PATIENCE)
    [run] = await place.desk.store.runs("default", RunFilter())
    await Oversight(place.desk.store, "default").stop(place.me, run, "enough")
    go.set()
    with pytest.raises(assentry.RunStopped):
        await asyncio.wait_for(call, PATIENCE)
    [run] = await place.desk.store.runs("default", RunFilter())
    assert run.state is RunState.STOPPED


async def test_who_denies_a_checkpoint_and_the_whole_run_stops_it(place: Place, gate: assentry.Gate):
    async def work() -> None:
        async with gate.run("Tidy up") as run:
            await run.checkpoint("plan ready")

    call = place.start(work())
    [request] = await place.waiting()
    await place.inbox.deny(place.me, request.id, "no", stop=True)
    with pytest.raises(assentry.RunStopped):
        await asyncio.wait_for(call, PATIENCE)
    [run] = await place.desk.store.runs("default", RunFilter())
    assert run.state is RunState.STOPPED


async def test_a_paused_run_waits_and_goes_on(place: Place, gate: assentry.Gate):
    @gate.guard
    async def list_files(path: str) -> list[str]:
        return [path]

    entered, go = asyncio.Event(), asyncio.Event()

    async def work() -> list[str]:
        async with gate.run("Tidy up"):
            entered.set()
            await go.wait()
            return await list_files("/a")

    call = place.start(work())
    await asyncio.wait_for(entered.wait(), PATIENCE)
    over = Oversight(place.desk.store, "default")
    [run] = await place.desk.store.runs("default", RunFilter())
    await over.pause(place.me, run)
    go.set()
    async with asyncio.timeout(PATIENCE):
        while not place.server.premises.agents._waiting:  # it asks the server when the pause ends
            await asyncio.sleep(0.01)
    assert not call.done()
    await over.go(place.me, run)
    assert await asyncio.wait_for(call, PATIENCE) == ["/a"]


async def test_the_stop_switch_turns_the_agent_away_and_a_pause_lets_it_wait(place: Place, gate: assentry.Gate):
    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    over = Oversight(place.desk.store, "default")
    call = place.start(delete_files(["/a"]))
    [request] = await place.waiting()
    async for _ in over.hold(Principal("root"), "cleanup", Setting.PAUSE, "lunch"):
        pass
    await place.approve(request)
    assert not call.done()
    async for _ in over.release(Principal("root"), "cleanup"):
        pass
    assert await asyncio.wait_for(call, PATIENCE) == 1
    async for _ in over.hold(Principal("root"), "cleanup", Setting.STOP, "enough"):
        pass
    far = place.server.premises.gate
    assert far is not None
    async with asyncio.timeout(PATIENCE):
        while far._judgement.held_up("cleanup") is None:
            await asyncio.sleep(0.01)
    with pytest.raises(assentry.RunStopped, match="enough"):
        await asyncio.wait_for(delete_files(["/b"]), PATIENCE)


async def test_a_long_call_keeps_its_lease(place: Place):
    token = await place.token("cleanup")
    gate = await asyncio.to_thread(lambda: assentry.connect(place.url, token, lease=timedelta(seconds=1)))
    begun = time.monotonic()

    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        [request] = await place.until(bool, Filter(states=(State.RUNNING,)))
        while time.monotonic() - begun < 2.5:  # longer than two leases
            await asyncio.sleep(0.05)
            assert (await place.in_state(request.id, State.RUNNING, State.UNKNOWN)).state is State.RUNNING
        return 1

    call = place.start(delete_files(["/a"]))
    [request] = await place.waiting()
    await place.approve(request)
    assert await asyncio.wait_for(call, PATIENCE) == 1
    await gate.close()


@pytest.mark.parametrize("word", ["undo", "verify", "facts"])
async def test_what_a_gate_behind_a_server_cannot_do_is_said_at_once(place: Place, gate: assentry.Gate, word: str):
    with pytest.raises(assentry.AssentryError, match=word):
        gate.guard(lambda path: path, name="x", **{word: lambda done: None})


async def test_a_wrong_token_is_said_at_once(place: Place):
    with pytest.raises(assentry.AssentryError, match="nobody is known"):
        await asyncio.to_thread(assentry.connect, place.url, "aat_wrong.default")
    gate = await asyncio.to_thread(assentry.connect, place.url, await place.token("cleanup"))
    with pytest.raises(assentry.AssentryError, match="the token is for"), gate.context(agent="other"):
        pytest.fail("went on under another name")
    await gate.close()


async def test_a_run_inside_another_that_had_finished_is_not_taken_twice(place: Place, gate: assentry.Gate):
    await place.policy("agents: {cleanup: {}}\nrules: [{name: notes, actions: ['note_*'], gate: watch}]\n")
    ran: list[str] = []

    @gate.guard(reversible=True, reach="local")
    async def note_step(name: str) -> str:
        ran.append(name)
        return name

    @gate.guard
    async def delete_files(paths: list[str]) -> int:
        return len(paths)

    async def work() -> None:
        async with gate.run("Outer", key="outer", patience=0):
            async with gate.run("Inner", key="inner") as inner:
                inner.outcome = await note_step("inside")
            await delete_files(["/a"])

    with pytest.raises(assentry.Parked):
        await work()
    [request] = await place.waiting()
    await place.approve(request)
    await work()
    assert ran == ["inside"]
    assert {run.state for run in await place.desk.store.runs("default", RunFilter())} == {RunState.FINISHED}


@pytest.mark.parametrize("token", ["", "  \n", "aat_ä.default", "aat_a\nb.default", "aat_a b.default", "aat_\x00"])
def test_a_token_that_cannot_be_sent_is_an_error_at_once(token: str):
    with pytest.raises(SettingsError, match="token") as error:
        assentry.connect("http://127.0.0.1:9", token, retry_for=2)
    assert "aat_" not in str(error.value)


async def test_a_line_break_around_a_token_does_not_matter(place: Place):
    token = await place.token("cleanup")
    gate = await asyncio.to_thread(assentry.connect, place.url, f" {token}\n", retry_for=2)
    assert gate._context.agent == "cleanup"
    await gate.close()


async def test_what_cannot_be_sent_is_not_tried_again(place: Place):
    gate = await asyncio.to_thread(assentry.connect, place.url, await place.token("cleanup"), retry_for=2)
    with pytest.raises(SettingsError, match="cannot be sent"):
        await gate._line.post("/asks", {}, once="two\nlines")
    await gate.close()


async def test_whoever_insists_is_held_whatever_the_policy_of_the_server_says(place: Place, gate: assentry.Gate):
    await place.policy("rules: [{name: fine, actions: ['delete_*'], gate: run}]\n")
    fine = (await gate.propose("delete_files", {"paths": ["/a"]})).request
    assert fine is None or fine.state is State.APPROVED
    await gate.propose("delete_files", {"paths": ["/b"]}, insists="it is described otherwise than before")
    [request] = await place.waiting()
    assert request.ask.claims["why"] == "it is described otherwise than before"


async def test_a_run_that_does_not_fit_is_put_down_as_it_was(place: Place, gate: assentry.Gate):
    with suppress(asyncio.CancelledError):
        async with gate.run("Tidy up", key="k") as run:
            run.snapshot({"version": "1"})
            raise asyncio.CancelledError
    asked = []

    def unfit(found: Any, state: Any) -> None:
        asked.append((found.id, state))
        raise GuardError("other code")

    with pytest.raises(GuardError, match="other code"):
        async with gate.run("Tidy up", key="k", fits=unfit):
            pytest.fail("it was entered")
    [record] = await place.desk.store.runs("default", RunFilter())
    assert (record.id, record.state) == (run.id, RunState.PARKED)
    async with gate.run("Tidy up", key="k", fits=lambda found, state: asked.append((found.id, state))) as again:
        assert again.id == run.id
    assert asked == [(run.id, {"version": "1"})] * 2
