"""A server and a worker in one program, for tests of traces: `DATABASE_URL [sdk]`.

Submits a job and a flow over HTTP within the trace of their caller. Prints the trace that the
worker received, the traces that the runs stored and, with the SDK, every span.
"""

import asyncio
import json
import sys
from typing import Any

import aiohttp

from headway import Headway, RunContext
from headway.trace import current_trace
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.api.conftest import served_in_this_loop

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FLOW = {
    "start": "ask",
    "nodes": {"ask": {"kind": "executor", "service": "greet", "post": {"output_key": "out"}}},
    "edges": [],
}


def record_spans() -> Any:
    """Install an exporter that records all spans of this program, and return it."""
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def encode_span(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": span.kind.name,
        "trace_id": f"{span.context.trace_id:032x}",
        "span_id": f"{span.context.span_id:016x}",
        "parent_id": None if span.parent is None else f"{span.parent.span_id:016x}",
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes),
    }


async def main(url: str, *, has_sdk: bool) -> None:
    exporter = record_spans() if has_sdk else None
    services = Services()
    sent: list[str | None] = []
    hw = Headway(url)

    @hw.job
    async def fail(ctx: RunContext) -> None:
        await ctx.call("child")
        raise ValueError("no")

    @hw.job
    async def child(ctx: RunContext) -> None:
        """Do nothing."""

    @services
    async def greet(text: Any) -> str:
        sent.append(current_trace())
        return "hello"

    async with hw, served_in_this_loop(hw) as address, aiohttp.ClientSession(address) as session:
        await hw.flows.publish("ask", FLOW)
        async with Worker(services, registry_url=address) as worker:
            await worker.wait_until_registered()
            headers = {"traceparent": TRACEPARENT}
            stored = []
            for path, body in (("/api/runs", {"job": "fail"}), ("/api/flows/ask/tasks", {})):
                async with session.post(path, json=body, headers=headers) as answer:
                    created = await answer.json()
                    assert answer.status == 201, created
                run = hw.run(created["id"])
                await run.wait_for_end()
                stored.append((await run.record()).run.traceparent)
    spans = (
        [] if exporter is None else [encode_span(span) for span in exporter.get_finished_spans()]
    )
    print(json.dumps({"sent": sent, "stored": stored, "spans": spans}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], has_sdk="sdk" in sys.argv[2:]))
