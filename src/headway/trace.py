"""Traces: the one that a run belongs to, and spans for whoever has OpenTelemetry at work.

Nothing is imported here. A program that wants spans has imported OpenTelemetry's SDK and set a
tracer provider; any other pays for one look. The trace of a run is kept and passed on in either
case: it comes with whoever submits, is stored with the run, and goes with every call to a worker.
"""

import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self

TRACEPARENT: Final = "traceparent"
"""The header, as W3C Trace Context has it."""
_TRACEPARENT_PATTERN: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})"
)
_TRACER_NAME: Final = "headway"

_adopted: Final[ContextVar[str | None]] = ContextVar("adopted", default=None)


def adopt_trace(traceparent: str | None) -> None:
    """What is done in this context from here on belongs there; words that are no trace to none."""
    found = None if traceparent is None else _TRACEPARENT_PATTERN.fullmatch(traceparent.strip())
    _adopted.set(None if found is None else f"00-{found[1]}")


def current_trace() -> str | None:
    """Where something that is begun here belongs: to the span at work, or to what was adopted."""
    api = _otel_api()
    if api is not None:
        within = api.get_current_span().get_span_context()
        if within.is_valid:
            return f"00-{within.trace_id:032x}-{within.span_id:016x}-{within.trace_flags:02x}"
    return _adopted.get()


def trace_headers() -> dict[str, str]:
    """For a request to somebody who works for us."""
    traceparent = current_trace()
    return {} if traceparent is None else {TRACEPARENT: traceparent}


class Span:
    """A stretch of work, from `with` to its end: nothing at all when nobody listens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """It ends."""

    def fail(self, reason: str) -> None:
        """It has not done what it was to do."""


def open_adopted_span(name: str, traceparent: str | None, about: Mapping[str, str | int]) -> Span:
    """Work for somebody else, who has said where it belongs; adopts that."""
    adopt_trace(traceparent)
    api = _otel_api()
    if api is None:
        return _NO_SPAN
    within = api.set_span_in_context(_remote_span(api, _adopted.get()))
    return _RecordedSpan(api, name, api.SpanKind.CONSUMER, within, about)


def open_client_span(name: str, about: Mapping[str, str | int]) -> Span:
    """A call to somebody else, within what goes on here."""
    api = _otel_api()
    return _NO_SPAN if api is None else _RecordedSpan(api, name, api.SpanKind.CLIENT, None, about)


class _RecordedSpan(Span):
    def __init__(
        self, api: Any, name: str, kind: Any, within: Any, about: Mapping[str, str | int]
    ) -> None:
        self._api = api
        named = {f"headway.{field}": value for field, value in about.items()}
        self._span = api.get_tracer(_TRACER_NAME).start_span(
            name, context=within, kind=kind, attributes=named
        )

    def __enter__(self) -> Self:
        used: AbstractContextManager[Any] = self._api.use_span(self._span, end_on_exit=True)
        self._active_span = used
        used.__enter__()
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
    """OpenTelemetry's, if somebody in this program listens to it."""
    if "opentelemetry.sdk.trace" not in sys.modules:  # Its API alone is many a library's.
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
