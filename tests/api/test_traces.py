"""Traces: from the caller's request through the run to the worker, with the SDK and without."""

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


def program(*arguments: str) -> str:
    """What the program says; each in a process of its own, for a tracer provider is for ever."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True
    ).stdout


def traced(url: str, *more: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(program("-m", "tests.api.traced_program", url, *more))
    return told


def test_a_run_and_a_call_are_spans_of_the_trace_in_which_they_were_asked_for(url: str) -> None:
    told = traced(url, "sdk")
    spans = [span for span in told["spans"] if "headway.run_id" in span["attributes"]]
    assert {span["trace_id"] for span in spans} == {TRACE_ID}
    named = {span["name"]: span for span in spans}
    run, child, flow = named["run fail"], named["run child"], named[f"run {FLOW_JOB}"]
    assert (run["kind"], run["status"]) == ("CONSUMER", "ERROR")
    assert (child["parent_id"], child["status"]) == (run["span_id"], "UNSET")
    assert run["attributes"]["headway.job"] == "fail"
    call, served = named["call say"], named["serve say"]
    assert (call["kind"], call["parent_id"]) == ("CLIENT", flow["span_id"])
    assert served["parent_id"] == call["span_id"]
    assert call["attributes"]["headway.run_id"] == flow["attributes"]["headway.run_id"]
    # The worker's own words belong to what it does, not to what asked for it.
    assert told["sent"] == [f"00-{TRACE_ID}-{served['span_id']}-01"]
    # What a server of the SDK's own would put in between is kept; here there is none.
    assert {kept.split("-")[1] for kept in told["kept"]} == {TRACE_ID}


def test_without_anybody_who_listens_the_trace_is_kept_and_passed_on(url: str) -> None:
    told = traced(url)
    assert told == {"sent": [TRACEPARENT], "kept": [TRACEPARENT] * 2, "spans": []}


def test_nothing_of_opentelemetry_is_imported_for_a_program_that_does_not_use_it(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "alone.py").write_text(ALONE)
    program(str(tmp_path / "alone.py"), url)


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("given", "kept"),
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
def test_what_is_no_trace_is_as_if_it_was_not_there(given: str | None, kept: str | None) -> None:
    adopt_trace(TRACEPARENT)
    adopt_trace(given)
    assert current_trace() == kept
    assert trace_headers() == ({} if kept is None else {"traceparent": kept})
    adopt_trace(None)
