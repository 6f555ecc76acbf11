"""What an agent's database role can do about runs and switches, and what it cannot."""

import secrets
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from assentry.core.change import Change
from assentry.core.request import State
from assentry.core.run import RunState, Scope
from assentry.core.run_life import Continue, Park, Pause, Progress, Stop, Stopped
from assentry.core.switch import Setting, Switch
from assentry.core.switching import turned
from assentry.errors import NotAllowed
from assentry.ports import View
from assentry.stores.postgres import PostgresStore
from assentry.testing.store_contract_runs import a_run, begins, enters, moves
from assentry.testing.store_values import WORKSPACE, asked, inserted, moved, pending
from tests.postgres import beside
from tests.stores.logins import login


async def test_an_agent_works_on_a_run_and_does_not_go_on_with_what_was_paused(
    agent: PostgresStore, owner: PostgresStore
) -> None:
    run = a_run(1, host="loop")
    await agent.transact(WORKSPACE, None, begins(run))
    await agent.transact(WORKSPACE, None, inserted(pending(asked(5))))
    wait = (asked(5).id,)
    await agent.transact(WORKSPACE, None, moves(lambda now: Park(now.fence, wait), "{}"), run=run.id, awaiting=wait)
    # Whoever decides needs no right of its own to wake it.
    await owner.transact(WORKSPACE, asked(5).id, moved(state=State.DENIED))
    assert [each.id for each in await agent.resumable(WORKSPACE, ["loop"])] == [run.id]
    await agent.transact(WORKSPACE, None, enters("w2"), run=run.id)
    await owner.transact(WORKSPACE, None, moves(lambda _: Pause("ann")), run=run.id)
    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, None, moves(lambda _: Continue("ann")), run=run.id)

    def silently(view: View) -> Change:
        assert view.run is not None
        return Change(run=replace(view.run, state=RunState.RUNNING, version=view.run.version + 1))

    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, None, silently, run=run.id)
    await owner.transact(WORKSPACE, None, moves(lambda _: Continue("ann")), run=run.id)
    await agent.transact(WORKSPACE, None, moves(lambda _: Stop("a person")), run=run.id)
    await agent.transact(WORKSPACE, None, moves(lambda now: Stopped(now.fence)), run=run.id)
    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, None, silently, run=run.id)


async def test_an_agent_does_not_say_what_a_run_is_or_may_do(
    agent: PostgresStore, owner: PostgresStore, postgres_database: str
) -> None:
    run = a_run(1, scope=Scope(limits={"files": Decimal(20)}))
    await agent.transact(WORKSPACE, None, begins(run))

    def wider(view: View) -> Change:
        assert view.run is not None
        scope = Scope(limits={"files": Decimal(2000)})
        return Change(run=replace(view.run, scope=scope, version=view.run.version + 1))

    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, None, wider, run=run.id)
    url = login(postgres_database, f"x_{secrets.token_hex(4)}", "assentry_agent")
    forged = (
        """body = jsonb_set(body::jsonb, '{state}', '"finished"')::text""",
        """body = (body::jsonb - 'scope')::text""",
        """state = 'parked'""",
    )
    with beside(url) as connection:
        for change in forged:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(f"UPDATE runs SET version = version + 1, {change}")
            assert caught.value.sqlstate == "42501", change
    before = await owner.run(WORKSPACE, run.id)
    assert before is not None
    assert (before.state, before.scope) == (RunState.RUNNING, run.scope)
    await agent.transact(WORKSPACE, None, moves(lambda now: Progress(now.fence, steps=1)), run=run.id)
    await owner.transact(WORKSPACE, None, wider, run=run.id)


async def test_an_agent_turns_no_switch_and_is_held_by_one(agent: PostgresStore, reviewer: PostgresStore) -> None:
    switch = Switch(WORKSPACE, "cleanup", Setting.GO, "", await agent.now())
    with pytest.raises(NotAllowed):
        await agent.transact(WORKSPACE, None, lambda view: turned(switch, Setting.PAUSE, "agent", "", view.now))
    await reviewer.transact(WORKSPACE, None, lambda view: turned(switch, Setting.PAUSE, "bob", "", view.now))
    seen: list[Any] = []

    def step(view: View) -> Change | None:
        seen[:] = view.switches
        return None if view.switches else inserted(pending(asked(1)))(view)

    assert await agent.transact(WORKSPACE, None, step, agent="cleanup") is None
    assert [each.setting for each in seen] == [Setting.PAUSE]
