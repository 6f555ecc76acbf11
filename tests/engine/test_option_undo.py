"""An option that names another action brings that action's way back, not the one of what was asked for."""

import assentry
from assentry.core.request import State


async def test_what_was_chosen_instead_can_be_undone_by_its_own_undo(house):
    undone = []

    @house.gate.guard(reversible=True, reach="local", undo=lambda done: undone.append(done.args["files"]))
    async def move_files(files: list[str]) -> int:
        return len(files)

    @house.gate.guard(
        reversible=False,
        reach="local",
        options=lambda args: [assentry.option("Move", "comes back", {"files": args["files"]}, instead=move_files)],
    )
    async def delete_files(files: list[str]) -> int:
        return 0

    call = house.start(delete_files(["a", "b"]))
    [request] = await house.waiting()
    await house.inbox.choose(house.me, request.id, 0)
    assert await call == 2
    done = await house.in_state(request.id, State.DONE)
    assert done.undo_until is not None
    async with house.gate.worker():
        await house.inbox.undo(house.me, request.id)
        await house.in_state(request.id, State.UNDONE)
    assert undone == [["a", "b"]]


async def test_what_was_chosen_instead_does_not_inherit_a_way_back_or_a_second_run(house):
    @house.gate.guard(reversible=False, reach="local")
    async def delete_files(files: list[str]) -> int:
        return len(files)

    @house.gate.guard(
        reversible=True,
        reach="organisation",
        undo=lambda done: None,
        idempotent=True,
        options=lambda args: [assentry.option("Delete", "gone", {"files": args["files"]}, instead=delete_files)],
    )
    async def move_files(files: list[str]) -> int:
        return 0

    call = house.start(move_files(["a"]))
    [request] = await house.waiting()
    assert request.can_undo
    assert request.is_idempotent
    await house.inbox.choose(house.me, request.id, 0)
    assert await call == 1
    done = await house.in_state(request.id, State.DONE)
    assert done.undo_until is None
    assert not done.is_idempotent
