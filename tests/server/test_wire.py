"""What surrounds every answer: names, headers, limits, numbers, traces, and a log without payloads."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from assentry.assemble import keys_for, store_for
from assentry.server.app import create_app
from assentry.server.premises import Premises
from assentry.server.wire import LARGEST_BODY
from assentry.settings import Settings

HOST = "127.0.0.1:8750"


@asynccontextmanager
async def served(database: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, on a real store."""
    settings = Settings(database=database)
    premises = Premises(settings, store_for(settings), keys_for(settings))
    app = create_app(premises, hosts={HOST})
    await premises.open()
    try:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            yield client
    finally:
        await premises.close()
        await premises.store.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with served(str(tmp_path / "assentry.db")) as client:
        yield client


async def test_every_answer_forbids_what_a_page_does_not_need(client):
    for path in ("/login", "/static/assentry.css", "/api/v1/requests", "/nowhere", "/healthz"):
        headers = (await client.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


async def test_pages_hold_no_inline_script_or_style(client):
    for path in ("/login", "/enter?link=x"):
        text = (await client.get(path)).text.lower()
        assert "<script>" not in text
        assert "style=" not in text
        assert " onclick=" not in text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9999", "", "127.0.0.1.evil.example:8750"])
async def test_another_name_is_turned_away(client, host):
    answer = await client.get("/login", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"


async def test_what_is_too_large_is_not_read(client):
    big = await client.post("/login", content=b"x" * (LARGEST_BODY + 1))
    assert big.status_code == 413
    odd = await client.post("/login", content=b"", headers={"content-length": "-1"})
    assert odd.status_code == 413


async def test_problems_have_one_shape(client):
    for path, status in (("/api/v1/requests", 401), ("/api/v1/nothing", 404)):
        answer = await client.get(path)
        problem = answer.json()
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail"} <= set(problem)
        assert problem["status"] == status
    assert (await client.get("/api/v1/requests")).headers["www-authenticate"] == "Bearer"


async def test_alive_ready_and_numbers(client):
    assert (await client.get("/healthz")).json() == {"status": "alive"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    numbers = (await client.get("/metrics")).text
    assert 'assentry_http_answers_total{method="GET",route="/healthz",status="200"} 1.0' in numbers


async def test_not_ready_while_the_database_cannot_be_read(client):
    premises = client._transport.app.state.premises
    await premises.store.close()
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/readyz")).status_code == 503


async def test_the_log_has_a_line_for_each_call_and_no_payload(client, caplog):
    with caplog.at_level(logging.INFO, "assentry.access"):
        await client.get("/r/s3cretcode?text=words", headers={"authorization": "Bearer aat_hidden.default"})
    (line,) = [json.loads(record.message) for record in caplog.records if record.name == "assentry.access"]
    assert (line["route"], line["method"], line["status"]) == ("/r/{code}", "GET", 303)
    assert not any(word in json.dumps(line) for word in ("s3cret", "words", "hidden"))


async def test_a_call_joins_the_trace_it_came_with(client):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    parent = "4bf92f3577b34da6a3ce929d0e0e4736"
    await client.get("/login?next=words", headers={"traceparent": f"00-{parent}-00f067aa0ba902b7-01"})
    spans = exporter.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in spans} == {parent}
    assert "GET /login" in [span.name for span in spans]
    assert not any("words" in json.dumps(dict(span.attributes or {}), default=str) for span in spans)
