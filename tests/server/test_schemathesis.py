"""Schemathesis over the OpenAPI document: whatever fits it, or nearly fits it, gets an answer that it tells of.

`ASSENTRY_EXAMPLES=300` makes as many calls of each operation; the sample here takes a few, always the same ones.
"""

import asyncio
import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.server.reception import Reception, reception

AUTH = ("authorization", "cookie", "host")
EXAMPLES = int(os.environ.get("ASSENTRY_EXAMPLES", "2"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LAST = ("/api/v1/policy", "/api/v1/sessions/end")
"""What would spoil it for the others."""


class House:
    """A reception on a loop of its own, since schemathesis waits for its answers."""

    def __init__(self, database: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._opening = reception(database)
        self.desk: Reception = self.run(self._opening.__aenter__())
        self.desk.premises.events.close()  # streams end at once
        self.known = self.run(self._something())

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def close(self) -> None:
        self.run(self._opening.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)

    async def _something(self) -> dict[str, str]:
        """Something of each kind, so that not every call is about nothing."""
        desk = self.desk
        request = await desk.asked(shelf=1)
        await desk.asked("launch_rocket", to="moon")
        await desk.carried_out("note_visit", text="hello")
        grant = await desk.post("/grants", {"actions": ["x_*"], "life": "1h"}, "operator", 201)
        return {"request_id": request.code, "grant_id": grant["grant"]["id"], "what": "requests"}


@pytest.fixture(params=["sqlite", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    name = str(tmp_path / "assentry.db")
    made = House(name if request.param == "sqlite" else request.getfixturevalue("postgres_database"))
    yield made
    made.close()


@pytest.mark.proof
@pytest.mark.timeout(600 + EXAMPLES * 60)
def test_no_call_is_answered_with_an_error_of_ours_or_in_a_shape_that_is_not_told(house: House) -> None:
    schema = schemathesis.openapi.from_dict(house.desk.app.openapi())
    found = [result.ok() for result in schema.get_all_operations()]
    wrong: list[str] = []
    answered: Counter[int] = Counter()
    for operation in sorted(found, key=lambda each: (each.path in LAST, each.path, each.method)):
        for strategy in strategies(operation, house.known):
            try:
                calls(house, strategy, answered)
            except (AssertionError, FailureGroup) as problem:
                wrong.append(f"{operation.label}: {problem}")
    assert not wrong, f"{len(wrong)} wrong\n\n" + "\n\n".join(wrong)
    assert answered[200] > len(found) // 4, f"too few calls reached anything: {answered}"


def strategies(operation: Any, known: dict[str, str]) -> Iterator[Any]:
    """What fits, about anything and about something that is there; and what does not fit."""
    yield operation.as_strategy()
    names = {each.name for each in operation.path_parameters}
    if names and names <= known.keys():
        yield operation.as_strategy(path_parameters={name: known[name] for name in names})
    if names or len(operation.query) or len(operation.body):
        yield operation.as_strategy(GenerationMode.NEGATIVE)


def calls(house: House, strategy: Any, answered: Counter[int]) -> None:
    turns = itertools.cycle(("operator", "operator", "reviewer", "agent", "none"))

    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def one(case: Any) -> None:
        try:
            answer = house.run(sent(house.desk, case, next(turns)))
        except httpx.InvalidURL:
            reject()  # too long for any client
        answered[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)

    one()


async def sent(desk: Reception, case: Any, who: str) -> httpx.Response:
    """The case as it would go over the wire, from this principal."""
    described = case.as_transport_kwargs(base_url="http://assentry.test")
    described.pop("cookies", None)
    headers = {name: value for name, value in dict(described.pop("headers")).items() if name.lower() not in AUTH}
    made = requests.Request(**described, headers=headers).prepare()
    if who in desk.secrets:
        made.headers["Authorization"] = f"Bearer {desk.secrets[who]}"
    body = made.body.encode() if isinstance(made.body, str) else made.body
    raw = [(name.encode(), value if isinstance(value, bytes) else value.encode("latin-1")) for name, value in
           made.headers.items() if name.lower() != "content-length"]  # fmt: skip
    return await desk.client.send(httpx.Request(made.method or "", made.url or "", headers=raw, content=body))
