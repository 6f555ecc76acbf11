"""GET changes nothing: whatever is asked for, every table is afterwards as it was before."""

import asyncio
import sqlite3
from typing import Any

import psycopg
import pytest
from psycopg import sql

from assentry.core.authority import Principal
from assentry.server.api import router as api
from assentry.server.pages import router as pages
from assentry.server.routes import api_routes
from tests.server.reception import Reception
from tests.stage import until

GETS = sorted({route.path for router in (api, pages) for route in api_routes(router) if "GET" in (route.methods or ())})


def tables(database: str) -> dict[str, list[Any]]:
    """Every row of every table."""
    if "://" not in database:
        with sqlite3.connect(database) as connection:
            return {"all": list(connection.iterdump())}
    with psycopg.connect(database) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'assentry_data'").fetchall()
        select = sql.SQL("SELECT t::text, ctid FROM assentry_data.{} t ORDER BY 1")
        return {name: connection.execute(select.format(sql.Identifier(name))).fetchall() for (name,) in names}


@pytest.mark.both_databases
async def test_no_get_changes_anything(desk: Reception) -> None:
    """Not even the order of the log: what was just committed waits for its place until somebody else gives it."""
    premises = desk.premises
    premises.events.close()
    for chore in tuple(premises._chores):
        chore.cancel()
    await asyncio.gather(*premises._chores, return_exceptions=True)
    request = await desk.asked(n=1)
    run = await desk.post("/agent/runs", {"goal": "Tidy up"}, "agent", 201)
    step = await desk.post("/agent/proposals", {"action": "tidy_shelf", "args": {}}, "agent", 201)
    browser = {who: {**await desk.browsing(who), "accept": "text/html"} for who in ("operator", "other team")}
    link = await desk.identities.link(Principal("ann"), "bea")
    before = await asyncio.to_thread(tables, desk.database)
    answered: dict[str, set[int]] = {}
    for path in GETS:
        code = run["code"] if "runs" in path else request.code
        ours = step["id"] if "/agent/" in path else request.id
        where = path.replace("{code}", code).replace("{request_id}", ours).replace("{run_id}", run["id"])
        for headers in (*browser.values(), {"authorization": f"Bearer {desk.secrets['agent']}"}, {}):
            for query in ("?verify=true", f"?key=k&q={{}}&link={link}"):
                whats = ("requests", "size", "entries") if "{what}" in path else ("",)
                for what in whats:
                    got = await desk.client.get(where.replace("{what}", what) + query, headers=headers)
                    answered.setdefault(path, set()).add(got.status_code)
    assert await asyncio.to_thread(tables, desk.database) == before
    reached = {path for path, statuses in answered.items() if statuses & {200, 303}}
    assert set(GETS) - reached <= {"/api/v1/policy/proposals/{code}", "/readyz", "/sso/return"}, answered


@pytest.mark.both_databases
async def test_what_was_committed_appears_in_the_log_by_itself(desk: Reception) -> None:
    request = await desk.asked(n=1)

    async def look() -> bool:
        return bool((await desk.get(f"/log?request={request.code}"))["entries"])

    assert await until(look)
