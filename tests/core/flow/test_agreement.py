"""Random flows end as a second, plainer interpreter predicts, with and without crashes.

Proves R5.3, R5.4 and R5.5.
"""

import json
import os
from random import Random
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, note, reject, settings
from hypothesis import strategies as st

from headway.core.flow.engine import step_context as walk
from headway.core.flow.engine.effects import CallFunction, CallService
from headway.core.flow.engine.state import NodeRun
from headway.core.flow.parse import parse_flow
from tests.core.flow.driver import MS, START, Call, Crash, Driver, Reply
from tests.core.flow.random_flows import PARAMS, Feature, a_definition, make_callees, signals
from tests.core.flow.reference import Reference
from tests.core.flow.reference_parts import AmbiguousOrder, OutputTooLarge, Row

# `make torture` sets a large number and tests new flows each time. Here the few are fixed.
EXAMPLE_COUNT: Final = int(os.environ.get("HEADWAY_EXAMPLES", "0"))
ROW_COUNT_MAX: Final = 40
ALL: Final = Feature()
UNEVEN: Final = Feature(is_uneven=True)
SETTINGS: Final = settings(
    max_examples=EXAMPLE_COUNT or 500,
    derandomize=not EXAMPLE_COUNT,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
CHANCES: Final = st.randoms(use_true_random=False)


@pytest.fixture(autouse=True, scope="module")
def few_rows() -> Any:
    """Lower the limit of node runs, so that an endless loop ends soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "ROW_COUNT_MAX", ROW_COUNT_MAX)
        yield


def run_both(chance: Random, feature: Feature, crash: Crash) -> tuple[Driver, Reference]:
    definition = a_definition(chance, feature)
    signals_sent = signals(chance, feature)
    callees = make_callees(chance.randrange(1_000))
    note(json.dumps({"definition": definition, "signals": signals_sent}))

    def answer(call: Call) -> Reply:
        if isinstance(call, CallService):
            return callees("service", call.service, call.input, call.try_no, call.attempt)
        if isinstance(call, CallFunction):
            return callees("function", call.function, call.input, call.try_no, 1)
        try_no = int(call.call_id.split(".")[2])
        return callees("flow", call.flow, call.params.get("input"), try_no, 1)

    reference = Reference(
        definition, PARAMS, callees, signals=signals_sent, row_count_max=ROW_COUNT_MAX, crash=crash
    )
    try:
        reference.run()
    except (OutputTooLarge, AmbiguousOrder):
        reject()
    driver = Driver(parse_flow(definition).flow, PARAMS, answer, crash=crash)
    for after_ms, key, value in signals_sent:
        driver.signal_after(after_ms, key, value)
    return driver.run(), reference


def as_row(run: NodeRun) -> Row:
    return Row(
        run.path,
        run.branch,
        run.attempt,
        run.status.value,
        run.input,
        run.output,
        run.error,
        run.action,
        (run.started_at - START) // MS,
        (run.finished_at - START) // MS,
        None if run.worker is None else run.worker.id,
        run.is_settled,
    )


def without_times(row: Row) -> Row:
    return row._replace(started=0, finished=0)


def assert_same_end(driver: Driver, reference: Reference) -> None:
    assert (driver.end or (None, "")) == (reference.status, reference.error)
    if driver.end is not None and driver.end[1] not in ("", walk.TOO_MANY_STEPS):
        assert driver.state.failed_path == reference.failed_path
    assert driver.shared == reference.root
    assert [run.seq for run in driver.rows] == list(range(1, len(driver.rows) + 1))


@pytest.mark.proves("R5.4")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 120)
@SETTINGS
@given(CHANCES)
def test_every_node_run_equals_that_of_the_reference(chance: Random) -> None:
    driver, reference = run_both(chance, ALL, Crash.NEVER)
    assert [as_row(run) for run in driver.rows] == reference.rows
    assert_same_end(driver, reference)


@pytest.mark.proves("R5.5")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 120)
@SETTINGS
@given(CHANCES)
def test_loading_the_state_after_every_commit_makes_no_difference(chance: Random) -> None:
    """Only the start of a try differs, and with it the time left for the try."""
    driver, reference = run_both(chance, UNEVEN, Crash.RELOAD)
    assert without_start_times(driver) == [row._replace(started=0) for row in reference.rows]
    assert_same_end(driver, reference)


@pytest.mark.proves("R5.5")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 120)
@SETTINGS
@given(CHANCES)
def test_process_lost_after_every_commit_repeats_only_calls_that_had_not_ended(
    chance: Random,
) -> None:
    driver, reference = run_both(chance, UNEVEN, Crash.LOSE)
    assert without_start_times(driver) == [row._replace(started=0) for row in reference.rows]
    assert_same_end(driver, reference)


def without_start_times(driver: Driver) -> list[Row]:
    return [as_row(run)._replace(started=0) for run in driver.rows]
