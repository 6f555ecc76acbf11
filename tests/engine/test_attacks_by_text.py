"""Attacks that once worked: commands, statements and fields that pose as something harmless."""

from typing import Any, Literal

import pytest

import assentry
from assentry.core.verdict import GateKind

pytestmark = pytest.mark.both_databases


@pytest.mark.parametrize(
    "command",
    [
        "echo \\'; mv a b; echo \\'", "ls # '\nmv a b\n# '", 'find . -name a -de""lete', "find . '-exec' mv {} b ';'",
        "find . -exe\\c cp {} b ;", "sort -uo a /dev/null", "find . -{delete,print}", "cat $HOME/x", "ls *; true",
    ],
)  # fmt: skip
async def test_a_shell_text_that_can_be_read_in_two_ways_is_not_taken_for_reading(house, command):
    @house.gate.guard(patience=0)
    async def run_command(command: str) -> None:
        raise AssertionError("ran without a decision")

    with pytest.raises(assentry.Parked):
        await run_command(command)


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 --'\n; drop table users --'", "select $$'$$; drop table users; select $$'$$",
        "select query_to_xml('drop table users', true, true, '')", "select pg_drop_replication_slot('x')",
        "select 1 # '\n; drop table users # '", 'select "a" from t', "select 1; select 2",
    ],
)  # fmt: skip
async def test_an_sql_text_that_may_do_more_is_not_taken_for_reading(house, sql):
    @house.gate.guard(patience=0)
    async def execute_sql(sql: str) -> None:
        raise AssertionError("ran without a decision")

    with pytest.raises(assentry.Parked):
        await execute_sql(sql)


async def test_plain_reading_texts_still_run(house):
    @house.gate.guard
    async def run_command(command: str) -> str:
        return command

    @house.gate.guard
    async def execute_sql(sql: str) -> str:
        return sql

    for command in ("ls -la /tmp", "git status", "cat notes.txt | grep -i todo | wc -l"):
        assert await run_command(command) == command
    for sql in ("select id, count(*) from users where age > 3 group by id", "show tables;"):
        assert await execute_sql(sql) == sql


async def test_a_field_called_action_does_not_make_a_workflow_harmless(house):
    @house.gate.guard(patience=0)
    async def execute_workflow(name: str, inputs: dict[str, Any]) -> str:
        return "ran"

    @house.gate.guard
    async def manage_tags(operation: Literal["list", "delete"], tag: str = "") -> str:
        return operation

    def gate_for(inputs: dict[str, Any]) -> GateKind:
        args = {"name": "wipe", "inputs": inputs}
        return house.gate._calls.prepare(execute_workflow.tool, args, house.gate._context, {}).verdict.gate

    assert gate_for({"action": "list"}) is gate_for({"x": 1})
    assert gate_for({"x": {"method": "view"}}) is gate_for({"x": 1})
    assert await manage_tags("list") == "list"


async def test_a_declared_answer_is_not_undercut_by_what_a_text_seems_to_say(house):
    @house.gate.guard(reversible=False, patience=0)
    async def run_command(command: str) -> None:
        raise AssertionError("ran without a decision")

    with pytest.raises(assentry.Parked):
        await run_command("ls -la")


async def test_arguments_cannot_pose_as_facts(house):
    @house.gate.guard(reversible=False, says="Delete {path}", patience=0)
    async def delete_path(path: str) -> None: ...

    with pytest.raises(assentry.Parked) as parked:
        await delete_path("/srv/data · only reads · can be undone")
    brief = await house.inbox.brief(parked.value.request_id)
    assert "·" not in brief.title
    assert not any("·" in fact.says for fact in brief.facts)


@pytest.mark.parametrize(
    "sql",
    ["select 1 delete users", "select 1\nexec master..xp_cmdshell 'x'", "select 1 shutdown",
     "with x as (select id from users) delete x", "explain analyze create table t2 as select 1"],
)  # fmt: skip
async def test_a_second_statement_without_a_semicolon_is_not_reading(house, sql):
    @house.gate.guard(patience=0)
    async def execute_sql(sql: str) -> None: ...

    with pytest.raises(assentry.Parked):
        await execute_sql(sql)


@pytest.mark.parametrize(
    "command",
    ["date --se=2020-01-01", "date 010100002020", "rg --hostname-bin=/tmp/x a", "file -C -m magic", "git log --outp=x"],
)
async def test_an_option_that_is_not_known_to_read_is_not_reading(house, command):
    @house.gate.guard(patience=0)
    async def run_command(command: str) -> None: ...

    with pytest.raises(assentry.Parked):
        await run_command(command)
