"""Traces that join the caller's: where OpenTelemetry is installed, each call becomes a span of the trace it came with.

What the spans are sent to, and whether at all, is set up by whoever runs the server, in OpenTelemetry's own way.
FastAPI's own spans are left off: they hold addresses, and an address may hold a one-time link.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

_TRACES = find_spec("opentelemetry") is not None
"""It is an extra."""


@contextmanager
def spanned(method: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """A span around the call, below the one that the caller named in `traceparent`; nothing without OpenTelemetry."""
    if not _TRACES:
        yield None
        return
    from opentelemetry import propagate, trace

    tracer = trace.get_tracer("assentry")
    context = propagate.extract(dict(headers))
    with tracer.start_as_current_span(method, context=context, kind=trace.SpanKind.SERVER) as span:
        yield span


def named(span: Any, method: str, route: str, status: int) -> None:
    """The span is named after the route; never after what is in it."""
    if span is None:
        return
    span.update_name(f"{method} {route}")
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)
