"""Stored things on their way to a terminal on another machine: as the database has them, without what is sealed."""

from collections.abc import Mapping
from typing import Any

from assentry.core.copies import replace
from assentry.core.grant import Grant
from assentry.core.request import Request
from assentry.core.run import Run
from assentry.core.switch import Switch
from assentry.stores import rows


def request_record(request: Request) -> dict[str, str]:
    """A request. Sealed secrets stay behind, encrypted as they are; that they exist does not."""
    bare = replace(request, sealed=dict.fromkeys(request.sealed, ""))
    return {"id": request.id, "ask": rows.ask_text(bare.ask), "body": rows.moving_text(bare)}


def read_request_record(record: Mapping[str, Any]) -> Request:
    """What `request_record` wrote."""
    return rows.read_request(rows.read_ask(str(record["ask"]), str(record["id"])), str(record["body"]))


def run_record(run: Run) -> dict[str, str]:
    """A run."""
    return {"id": run.id, "body": rows.run_columns(run, rows.micros)["body"]}


def read_run_record(record: Mapping[str, Any]) -> Run:
    """What `run_record` wrote."""
    return rows.read_run(str(record["body"]), str(record["id"]))


def grant_record(grant: Grant) -> dict[str, str]:
    """A grant."""
    return {"id": grant.id, "body": rows.grant_columns(grant, rows.micros)["body"]}


def read_grant_record(record: Mapping[str, Any]) -> Grant:
    """What `grant_record` wrote."""
    return rows.read_grant(str(record["body"]), str(record["id"]))


def switch_record(switch: Switch) -> dict[str, str]:
    """A stop switch."""
    return {"id": switch.agent, "body": rows.switch_columns(switch)["body"]}


def read_switch_record(record: Mapping[str, Any]) -> Switch:
    """What `switch_record` wrote."""
    return rows.read_switch(str(record["body"]), str(record["id"]))
