"""Trace context propagation, and spans for programs that use OpenTelemetry.

OpenTelemetry is not imported here. Spans are recorded only if the program itself has imported its
SDK and set a tracer provider; without one, each span costs a lookup in `sys.modules`. The trace
context is propagated in either case: it is taken from the submitter, stored with the run, and sent
with every call to a worker.
"""

import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self

TRACEPARENT: Final = "traceparent"
"""The name of the header that W3C Trace Context defines."""
_TRACEPARENT_PATTERN: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})"
)
_TRACER_NAME: Final = "headway"

_adopted: Final[ContextVar[str | None]] = ContextVar("adopted", default=None)


def adopt_trace(traceparent: str | None) -> None:
    """Use `traceparent` as the trace of this context. An invalid value removes the trace."""
    match = None if traceparent is None else _TRACEPARENT_PATTERN.fullmatch(traceparent.strip())
    _adopted.set(None if match is None else f"00-{match[1]}")


def current_trace() -> str | None:
    """Return the `traceparent` for new work: that of the current span, or the adopted one.

    Return None if there is no trace.
    """
    api = _otel_api()
    if api is not None:
        span = api.get_current_span().get_span_context()
        if span.is_valid:
            return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return _adopted.get()


def trace_headers() -> dict[str, str]:
    """Return the trace header for a request to a worker, or no header if there is no trace."""
    traceparent = current_trace()
    return {} if traceparent is None else {TRACEPARENT: traceparent}


class Span:
    """A context manager around one piece of work. This base class records nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span."""

    def fail(self, reason: str) -> None:
        """Mark the span as failed."""


def open_adopted_span(name: str, traceparent: str | None, fields: Mapping[str, str | int]) -> Span:
    """Adopt `traceparent`, and return a span for work that another program has requested."""
    adopt_trace(traceparent)
    api = _otel_api()
    if api is None:
        return _NO_SPAN
    parent = api.set_span_in_context(_remote_span(api, _adopted.get()))
    return _RecordedSpan(api, name, api.SpanKind.CONSUMER, parent, fields)


def open_client_span(name: str, fields: Mapping[str, str | int]) -> Span:
    """Return a span for a call to another program, as a child of the current span."""
    api = _otel_api()
    return _NO_SPAN if api is None else _RecordedSpan(api, name, api.SpanKind.CLIENT, None, fields)


class _RecordedSpan(Span):
    def __init__(
        self, api: Any, name: str, kind: Any, parent: Any, fields: Mapping[str, str | int]
    ) -> None:
        self._api = api
        attributes = {f"headway.{field}": value for field, value in fields.items()}
        self._span = api.get_tracer(_TRACER_NAME).start_span(
            name, context=parent, kind=kind, attributes=attributes
        )

    def __enter__(self) -> Self:
        active: AbstractContextManager[Any] = self._api.use_span(self._span, end_on_exit=True)
        self._active_span = active
        active.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._active_span.__exit__(kind, error, traceback)

    def fail(self, reason: str) -> None:
        self._span.set_status(self._api.StatusCode.ERROR, reason)


def _otel_api() -> Any:
    """Return OpenTelemetry's trace API, or None if the program records no spans."""
    # The API alone proves nothing, because many libraries import it. The SDK is needed to record.
    if "opentelemetry.sdk.trace" not in sys.modules:
        return None
    api: Any = sys.modules["opentelemetry.trace"]
    return None if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider) else api


def _remote_span(api: Any, traceparent: str | None) -> Any:
    if traceparent is None:
        return api.INVALID_SPAN
    _, trace_id, span_id, flags = traceparent.split("-")
    context = api.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=api.TraceFlags(int(flags, 16)),
    )
    return api.NonRecordingSpan(context)


_NO_SPAN: Final = Span()
