"""Traces reach from the request through the run to the worker, with and without the SDK."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.core.flow.engine.records import FLOW_JOB
from headway.trace import adopt_trace, current_trace, trace_headers
from tests.api.program import ROOT
from tests.api.traced_program import TRACEPARENT

pytestmark = pytest.mark.backend("sqlite")

TRACE_ID, CALLER_ID = TRACEPARENT.split("-")[1:3]
ALONE = """
import asyncio, sys
from headway import Headway

hw = Headway(sys.argv[1])

@hw.job
async def work(ctx): ...

async def main():
    async with hw:
        await (await hw.start("work")).result(10)

asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def run_program(*arguments: str) -> str:
    """Run a program in its own process, because a tracer provider cannot be replaced."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True
    ).stdout


def run_traced_program(url: str, *more: str) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(run_program("-m", "tests.api.traced_program", url, *more))
    return output


def test_runs_and_worker_calls_are_spans_in_the_trace_of_their_request(url: str) -> None:
    output = run_traced_program(url, "sdk")
    spans = [span for span in output["spans"] if "headway.run_id" in span["attributes"]]
    assert {span["trace_id"] for span in spans} == {TRACE_ID}
    by_name = {span["name"]: span for span in spans}
    run, child, flow = by_name["run fail"], by_name["run child"], by_name[f"run {FLOW_JOB}"]
    assert (run["kind"], run["status"]) == ("CONSUMER", "ERROR")
    assert (child["parent_id"], child["status"]) == (run["span_id"], "UNSET")
    assert run["attributes"]["headway.job"] == "fail"
    call, served = by_name["call greet"], by_name["serve greet"]
    assert (call["kind"], call["parent_id"]) == ("CLIENT", flow["span_id"])
    assert served["parent_id"] == call["span_id"]
    assert call["attributes"]["headway.run_id"] == flow["attributes"]["headway.run_id"]
    # Calls of the worker belong to the span of its service, not to the span of the caller.
    assert output["sent"] == [f"00-{TRACE_ID}-{served['span_id']}-01"]
    # An instrumented server would add a span between; here there is none.
    assert {traceparent.split("-")[1] for traceparent in output["stored"]} == {TRACE_ID}


def test_trace_is_stored_and_passed_on_even_without_the_opentelemetry_sdk(url: str) -> None:
    output = run_traced_program(url)
    assert output == {"sent": [TRACEPARENT], "stored": [TRACEPARENT] * 2, "spans": []}


def test_opentelemetry_is_not_imported_unless_the_program_uses_it(url: str, tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(ALONE)
    run_program(str(tmp_path / "alone.py"), url)


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("sent", "adopted"),
    [
        (TRACEPARENT, TRACEPARENT),
        (f"01{TRACEPARENT[2:]}", TRACEPARENT),
        (f"ff{TRACEPARENT[2:]}", None),
        (TRACEPARENT.upper(), None),
        (f"00-{'0' * 32}-{CALLER_ID}-01", None),
        (f"00-{TRACE_ID}-{'0' * 16}-01", None),
        (f"{TRACEPARENT}-more", None),
        ("00", None),
        ("", None),
        (None, None),
    ],
)
def test_invalid_traceparent_is_ignored(sent: str | None, adopted: str | None) -> None:
    adopt_trace(TRACEPARENT)
    adopt_trace(sent)
    assert current_trace() == adopted
    assert trace_headers() == ({} if adopted is None else {"traceparent": adopted})
    adopt_trace(None)
