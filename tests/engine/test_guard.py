"""What a guarded call does: runs, is watched, waits, parks, is refused; and what runs is what was decided."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest

import assentry
from assentry.core.request import Review, State
from assentry.errors import GuardError, InvalidDecision
from assentry.ports import Filter
from tests.stage import PATIENCE

pytestmark = pytest.mark.both_databases

CAREFUL = """
rules:
  - {name: deletions, actions: ["delete_*"], gate: hard}
  - {name: never, actions: ["wipe_*"], gate: forbid, because: wiping is never right}
  - {name: looked at later, actions: ["tag_*"], gate: watch, review: after}
"""


async def test_a_read_runs_at_once_and_leaves_a_line_in_the_log(house):
    @house.gate.guard
    async def read_notes(topic: str) -> str:
        return topic.upper()

    assert await read_notes("cats") == "CATS"
    await house.gate._store.flush()
    assert await house.kinds() == ["call.ran"]
    assert (await house.inbox.page(Filter())).requests == ()


async def test_a_risky_call_runs_is_on_record_and_can_be_undone_by_a_person(house):
    files = {"a": "old"}

    def put_back(done: assentry.Done) -> None:
        files[done.args["path"]] = done.result

    @house.gate.guard(reversible=True, reach="local", undo=put_back)
    async def write_file(path: str, text: str) -> str:
        before, files[path] = files[path], text
        return before

    assert await write_file("a", "new") == "old"
    (request,) = (await house.inbox.page(Filter(states=(State.DONE,)))).requests
    assert await house.kinds(request.id) == ["request.asked", "execution.began", "execution.finished"]
    async with house.gate.worker():
        await house.inbox.undo(house.me, request.id)
        await house.in_state(request.id, State.UNDONE)
    assert files == {"a": "old"}


async def test_a_dangerous_call_waits_and_runs_once_with_the_approved_bytes(house):
    ran = []

    @house.gate.guard(reversible=False, says="Delete {files.count} files")
    async def delete_files(files: list[str]) -> int:
        ran.append(files)
        assert assentry.idempotency_key()
        return len(files)

    call = house.start(delete_files(["a", "b"]))
    (request,) = await house.waiting()
    assert request.candidate.says == "Delete 2 files"
    assert ran == []
    await house.inbox.approve(house.me, request.id, seen_digest=request.candidate.permit_digest)
    assert await call == 2
    assert ran == [["a", "b"]]
    expected = ["request.asked", "request.decided", "execution.began", "execution.finished"]
    assert await house.kinds(request.id) == expected


async def test_a_denial_carries_the_reason_and_what_to_do_next(house):
    @house.gate.guard(reversible=False, if_denied="Leave the files and report them.")
    async def delete_files(files: list[str]) -> None:
        raise AssertionError("ran although denied")

    call = house.start(delete_files(["a"]))
    (request,) = await house.waiting()
    await house.inbox.deny(house.me, request.id, "we still need these")
    with pytest.raises(assentry.Denied, match="we still need these") as denied:
        await call
    assert denied.value.next_step == "Leave the files and report them."


async def test_a_modified_call_runs_with_the_modified_arguments(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> list[str]:
        return files

    call = house.start(delete_files(["a", "b", "c"]))
    (request,) = await house.waiting()
    await house.inbox.modify(house.me, request.id, {"files": ["a"]})
    assert await call == ["a"]


async def test_a_modification_that_breaks_the_schema_is_refused_and_nothing_changes(house):
    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> None: ...

    house.start(delete_files(["a"]))
    (request,) = await house.waiting()
    for broken in ({"files": "a"}, {"files": ["a"], "force": True}, {}):
        with pytest.raises(InvalidDecision, match="schema"):
            await house.inbox.modify(house.me, request.id, broken)
    assert (await house.waiting())[0].version == request.version


async def test_options_show_their_exact_bytes_and_choosing_runs_those(house):
    moved = []

    @house.gate.guard(reversible=True, reach="local")
    async def move_files(files: list[str], target: str) -> int:
        moved.extend(files)
        return len(files)

    @house.gate.guard(
        reversible=False,
        options=lambda args: [
            assentry.option("All", "gone", {}),
            assentry.option("Only the first", "the rest stays", {"files": args["files"][:1]}),
            assentry.option("Move", "comes back", {"files": args["files"], "target": "staging"}, instead=move_files),
            assentry.option("Cancel", "nothing changes"),
        ],
    )
    async def delete_files(files: list[str]) -> list[str]:
        return files

    call = house.start(delete_files(["a", "b"]))
    (request,) = await house.waiting()
    brief = await house.inbox.brief(request.id)
    assert [(line.label, line.runs, line.reversible) for line in brief.options] == [
        ("All", True, False), ("Only the first", True, False), ("Move", True, True), ("Cancel", False, True),
    ]  # fmt: skip
    with pytest.raises(InvalidDecision, match="no option 9"):
        await house.inbox.choose(house.me, request.id, 8)
    await house.inbox.choose(house.me, request.id, 2)
    assert await call == 2
    assert moved == ["a", "b"]

    call = house.start(delete_files(["a", "b"]))
    (request,) = await house.waiting()
    await house.inbox.choose(house.me, request.id, 3)
    with pytest.raises(assentry.Denied, match="Cancel"):
        await call


async def test_what_policy_forbids_is_refused_without_asking(house):
    await house.policy(CAREFUL)

    @house.gate.guard
    async def wipe_disk(disk: str) -> None:
        raise AssertionError("ran although forbidden")

    with pytest.raises(assentry.Refused, match="never right"):
        await wipe_disk("sda")
    assert (await house.inbox.page(Filter(states=(State.REFUSED,)))).requests


async def test_a_call_can_park_and_be_found_again_by_its_key(house):
    ran = []

    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> int:
        ran.append(files)
        return len(files)

    call = delete_files.with_(run="41", key="step-3")
    with pytest.raises(assentry.Parked) as parked:
        await call(["a"])
    with pytest.raises(assentry.Parked) as again:
        await call(["a"])
    assert again.value.request_id == parked.value.request_id
    await house.inbox.approve(house.me, parked.value.request_id)
    assert await call(["a"]) == 1
    assert await call(["a"]) == 1
    assert ran == [["a"]]
    with pytest.raises(assentry.Conflict, match="key of its own"):
        await call(["b"])


async def test_a_pause_is_not_swallowed_by_except_exception(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> None: ...

    async def careless_loop() -> None:
        try:
            await delete_files(["a"])
        except Exception:  # the kind of handler that agent loops have
            pytest.fail("the pause was swallowed")

    with pytest.raises(assentry.Parked):
        await careless_loop()


async def test_a_parked_call_is_resumed_in_another_process_that_has_the_function(house):
    @house.gate.guard(reversible=False, patience=0)
    async def delete_files(files: list[str]) -> str:
        return "first process"

    with pytest.raises(assentry.Parked) as parked:
        await delete_files(["a"])
    await house.inbox.approve(house.me, parked.value.request_id)
    other = house.another_gate()

    @other.guard(reversible=False, name="delete_files")
    async def delete_files_there(files: list[str]) -> str:
        return "second process"

    assert await other.resume(parked.value.request_id) == "second process"
    with pytest.raises(assentry.Conflict):
        await house.gate._execution.begin(await house.in_state(parked.value.request_id, State.DONE))


async def test_a_detached_call_is_run_by_a_worker_elsewhere(house):
    @house.gate.guard(reversible=False, detached=True)
    async def delete_files(files: list[str]) -> str:
        return "caller"

    other = house.another_gate()

    @other.guard(reversible=False, detached=True, name="delete_files")
    async def delete_files_there(files: list[str]) -> str:
        return f"worker: {files}"

    call = house.start(delete_files(["a"]))
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    async with other.worker():
        assert await call == "worker: ['a']"


async def test_a_detached_call_with_its_worker_in_the_same_process_runs_once(house):
    ran = []

    @house.gate.guard(reversible=False, detached=True)
    async def delete_files(files: list[str]) -> int:
        ran.append(files)
        await asyncio.sleep(0.05)
        return len(ran)

    async with house.gate.worker():
        call = house.start(delete_files(["a"]))
        (request,) = await house.waiting()
        await house.inbox.approve(house.me, request.id)
        assert await call == 1
    assert ran == [["a"]]


async def test_two_calls_of_one_step_at_once_run_once_and_share_the_result(house):
    ran = []

    @house.gate.guard(reversible=False)
    async def delete_files(files: list[str]) -> int:
        ran.append(files)
        await asyncio.sleep(0.05)
        return len(ran)

    step = delete_files.with_(run="r", key="1")
    calls = [house.start(step(["a"])) for _ in range(5)]
    (request,) = await house.waiting()
    await house.inbox.approve(house.me, request.id)
    assert await asyncio.gather(*calls) == [1] * 5
    assert ran == [["a"]]


async def test_an_error_of_the_function_reaches_the_caller_and_the_record(house):
    @house.gate.guard(reversible=True, reach="local")
    async def write_file(path: str) -> None:
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        await write_file("a")
    (request,) = (await house.inbox.page(Filter(states=(State.FAILED,)))).requests
    assert request.error == "OSError: disk on fire"


async def test_review_afterwards_appears_without_having_blocked_anything(house):
    await house.policy(CAREFUL)

    @house.gate.guard(reversible=True, reach="service")
    async def tag_record(record: str) -> str:
        return record

    assert await tag_record("r1") == "r1"
    (request,) = (await house.inbox.page(Filter(review_open=True))).requests
    await house.inbox.review(house.me, request.id, assentry.core.decision.Opinion.FLAGGED, "odd tag")
    assert (await house.desk.store.request("default", request.id)).review is Review.FLAGGED


def test_a_synchronous_function_waits_without_asyncio(database, tmp_path):
    import threading

    from assentry.assemble import desk
    from assentry.settings import load

    gate = assentry.open(database)

    @gate.guard(reversible=False)
    def delete_files(files: list[str]) -> int:
        return threading.get_ident()

    async def decide() -> None:
        table = await desk(load({"database": database}))
        async with asyncio.timeout(PATIENCE):
            while not (found := (await table.inbox.page()).requests):
                await asyncio.sleep(0.01)
        await table.inbox.approve(table.person(), found[0].id)
        await table.store.close()

    decider = threading.Thread(target=lambda: asyncio.run(decide()))
    decider.start()
    assert delete_files(["a"]) == threading.get_ident()
    decider.join()
    asyncio.run(gate.close())


async def test_a_synchronous_function_does_not_block_an_event_loop(house):
    @house.gate.guard(reversible=False, patience=0)
    def delete_files(files: list[str]) -> None: ...

    with pytest.raises(GuardError, match="acall"):
        delete_files(["a"])
    with pytest.raises(assentry.Parked):
        await delete_files.acall(["a"])


async def test_injected_parameters_are_no_arguments(house):
    @house.gate.guard(reversible=False)
    async def delete_rows(table: str, db: Annotated[Any, assentry.Injected]) -> str:
        return f"{table} via {db}"

    connection = object()
    call = house.start(delete_rows("users", connection))
    (request,) = await house.waiting()
    assert "db" not in request.candidate.args_text
    await house.inbox.approve(house.me, request.id)
    assert await call == f"users via {connection}"


async def test_a_lookup_adds_facts_that_rules_and_people_see(house):
    await house.policy("rules: [{name: many users, actions: ['*'], when: 'facts.users > 1000', gate: hard}]")

    @house.gate.guard(reversible=True, reach="service", facts=lambda args: {"users": 12000, "rollback": "30 minutes"})
    async def set_flag(flag: str) -> None: ...

    house.start(set_flag("dark-mode"))
    (request,) = await house.waiting()
    brief = await house.inbox.brief(request.id)
    assert [(fact.name, fact.value, fact.looked_up) for fact in brief.facts if fact.looked_up] == [
        ("users", 12000, True), ("rollback", "30 minutes", True),
    ]  # fmt: skip


async def test_a_lookup_that_fails_is_a_reason_to_ask(house):
    def broken(args: Any) -> dict[str, Any]:
        raise RuntimeError("database down")

    @house.gate.guard(reversible=True, reach="service", facts=broken)
    async def set_flag(flag: str) -> None: ...

    house.start(set_flag("dark-mode"))
    (request,) = await house.waiting()
    assert any("lookup" in sentence for sentence in (await house.inbox.brief(request.id)).why)


async def test_secrets_are_sealed_shown_as_fingerprints_and_come_back_when_it_runs(house):
    @house.gate.guard(reversible=False)
    async def rotate_key(service: str, key: Annotated[str, assentry.Secret], note: str) -> str:
        return f"{key} {note}"

    token = "ghp_" + "a1B2" * 9
    call = house.start(rotate_key("mail", "correct horse", f"old token was {token} ok"))
    (request,) = await house.waiting()
    brief = await house.inbox.brief(request.id)
    shown = repr(request) + repr(brief)
    assert "correct horse" not in shown
    assert token not in shown
    assert brief.args["note"].startswith("old token was ⟨secret")
    await house.inbox.approve(house.me, request.id, confirm=brief.phrase)
    assert await call == f"correct horse old token was {token} ok"
    ended = await house.in_state(request.id, State.DONE)
    assert ended.sealed == {}
    assert "correct horse" not in repr(ended)


async def test_types_survive_the_way_through_json(house):
    @house.gate.guard(reversible=False)
    async def refund(amount: Decimal, number: int, when: timedelta) -> list[Any]:
        return [amount, number, when]

    call = house.start(refund(Decimal("12.30"), 10**20, timedelta(hours=2)))
    (request,) = await house.waiting()
    phrase = (await house.inbox.brief(request.id)).phrase
    await house.inbox.approve(house.me, request.id, confirm=phrase)
    assert await call == [Decimal("12.30"), 10**20, timedelta(hours=2)]


@pytest.mark.parametrize("value", [float("nan"), {"deep": None}, "x" * (2 << 20)], ids=["nan", "deep", "huge"])
async def test_arguments_that_cannot_be_carried_are_refused_in_one_line(house, value):
    @house.gate.guard(reversible=False)
    async def delete_things(what: Any) -> None:
        raise AssertionError("ran")

    if isinstance(value, dict):
        for _ in range(5000):
            value = {"deep": value}
    with pytest.raises(assentry.InvalidArguments) as refused:
        await delete_things(value)
    assert "\n" not in str(refused.value)
    assert (await house.inbox.page(Filter())).requests == ()


def test_what_cannot_be_guarded_says_why(tmp_path):
    gate = assentry.open(tmp_path / "a.db")

    def everything(*args: Any) -> None: ...

    class Client: ...

    def with_client(client: Client) -> None: ...

    def plain(path: str) -> None: ...

    with pytest.raises(GuardError, match="name the parameters"):
        gate.guard(everything)
    with pytest.raises(GuardError, match="Injected"):
        gate.guard(with_client)
    with pytest.raises(GuardError, match="refers to 'nothing', which is not a parameter; available: facts, path"):
        gate.guard(says="{nothing}")(plain)
    with pytest.raises(GuardError, match="reach must be one of nothing, local, service, organisation"):
        gate.guard(reach="far")(plain)
    gate.guard(plain)
    with pytest.raises(GuardError, match="guarded already"):
        gate.guard(plain)
    asyncio.run(gate.close())


WRONG = [
    ({"reversible": "no"}, 'guard(reversible="no"): reversible must be True or False; leave it out'),
    ({"reversible": 0}, "guard(reversible=0): reversible must be True or False"),
    ({"outside": "false"}, 'guard(outside="false"): outside must be True or False'),
    ({"money": 1}, "guard(money=1): money must be True or False"),
    ({"reach": "galaxy"}, 'guard(reach="galaxy"): reach must be one of nothing, local, service, organisation'),
    ({"risk": "high"}, 'guard(risk="high"): risk must be one of safe, risky, dangerous, critical'),
    ({"name": 3}, "guard(name=3): name must be text"),
    ({"says": None}, "guard(says=None): says must be text"),
    ({"if_denied": 3}, "guard(if_denied=3): if_denied must be text"),
    ({"options": "stop"}, 'guard(options="stop"): options must be a list of assentry.option(...)'),
    ({"options": ["stop"]}, "guard(options=['stop']): options must be a list of assentry.option(...)"),
    ({"options": assentry.option("stop")}, "options must be a list of assentry.option(...)"),
    ({"needed_by": "2h"}, 'guard(needed_by="2h"): needed_by must be a datetime with a time zone, or a timedelta'),
    ({"needed_by": timedelta(0)}, "needed_by must be a timedelta that is longer than 0"),
    ({"facts": "count"}, 'guard(facts="count"): facts must be a function'),
    ({"refresh": "yes"}, 'guard(refresh="yes"): refresh must be True, or a function that looks again'),
    ({"undo": "restore"}, 'guard(undo="restore"): undo must be a function'),
    ({"verify": 3}, "guard(verify=3): verify must be a function"),
    ({"idempotent": "yes"}, 'guard(idempotent="yes"): idempotent must be True or False'),
    ({"detached": "no"}, 'guard(detached="no"): detached must be True or False'),
    ({"inject": ["db"]}, "guard(inject=['db']): inject must be a mapping from parameter names"),
    ({"patience": "long"}, 'guard(patience="long"): patience must be a number of seconds from 0, or None'),
    ({"patience": -1}, "guard(patience=-1): patience must be a number of seconds from 0"),
    ({"cost": "free"}, "guard() has no argument 'cost': the cost belongs to a call; pass it as in delete_files.with_("),
    (
        {"reviewers": "role:dba"},
        "guard() has no argument 'reviewers': who is asked is set by a rule in the policy file",
    ),
    ({"reversable": False}, "guard() has no argument 'reversable'; did you mean reversible=?"),
    ({"zzz": 1}, "guard() has no argument 'zzz'; there are detached, facts, idempotent"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
def test_what_guard_cannot_use_is_refused_where_it_is_written(tmp_path, given, says):
    def plain(path: str) -> None: ...

    gate = assentry.open(tmp_path / "a.db")
    with pytest.raises(GuardError) as caught:
        gate.guard(**given)(plain)
    assert says in str(caught.value)
    gate.guard(plain)
    asyncio.run(gate.close())


@pytest.mark.parametrize(
    ("given", "says"),
    [("delete", "for a name write guard(name=...)"), (3, "expects a function, not 3"), (int, "not the class int")],
)
def test_what_is_no_function_cannot_be_guarded(tmp_path, given, says):
    gate = assentry.open(tmp_path / "a.db")
    with pytest.raises(GuardError) as caught:
        gate.guard(given)
    assert says in str(caught.value)
    asyncio.run(gate.close())


async def test_arguments_of_the_wrong_kind_are_named_without_their_value(house):
    @house.gate.guard(reversible=True)
    async def tidy(path: str, number: int = 3) -> None: ...

    for args, kwargs, says in (
        ((1,), {}, "invalid arguments: `path` must be text, got an integer"),
        (("a", "hunter2"), {}, "invalid arguments: `number` must be an integer, got text"),
        (("a",), {"number": None}, "invalid arguments: `number` must be an integer, got null"),
        (("a",), {"zzz": 1}, "invalid arguments: `zzz` is not a parameter"),
    ):
        with pytest.raises(assentry.InvalidArguments) as caught:
            await tidy(*args, **kwargs)
        assert str(caught.value) == says


async def test_one_text_in_the_place_of_a_list_is_refused(house):
    for given in ({"reviewers": "role:dba"}, {"choices": "yes"}):
        with pytest.raises(assentry.InvalidArguments, match=f"{next(iter(given))} must be a list of texts"):
            await house.gate.ask("Which one?", patience=0, **given)
    with pytest.raises(assentry.InvalidArguments, match="alternatives must be a list of texts"):
        house.gate.guard(reversible=True)(lambda: None).with_(alternatives="wait")
    with (
        pytest.raises(assentry.InvalidArguments, match="alternatives must be a list of texts"),
        house.gate.context(alternatives="wait"),
    ):
        pass
    assert (await house.inbox.page(Filter())).requests == ()


def test_a_gate_has_no_method_that_decides():
    words = ("approve", "deny", "decide", "modify", "choose", "answer", "reconcile", "grant", "revoke")
    assert not [name for name in dir(assentry.Gate) if any(word in name.lower() for word in words)]


async def test_a_method_can_be_guarded(house):
    gate = house.gate

    class Files:
        @gate.guard(reversible=False)
        async def delete_files(self, files: list[str]) -> str:
            return f"{type(self).__name__}: {files}"

    call = house.start(Files().delete_files(["a"]))
    (request,) = await house.waiting()
    assert request.candidate.args_text == '{"files":["a"]}'
    await house.inbox.approve(house.me, request.id)
    assert await call == "Files: ['a']"
