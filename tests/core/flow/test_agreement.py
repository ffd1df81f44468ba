"""R5.3, R5.4, R5.5: random flows end as a second, plainer interpreter says, crashes or not."""

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
from tests.core.flow.drawing import PARAMS, Feature, a_definition, signals, world_of
from tests.core.flow.driver import MS, START, Call, Crash, Driver, Reply
from tests.core.flow.reference import Reference
from tests.core.flow.reference_parts import Huge, Row, Tie

# `make torture` asks for many, new ones each time; here they are fewer, and always the same.
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
    """So that a flow that goes round for ever is over soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "ROW_COUNT_MAX", ROW_COUNT_MAX)
        yield


def both(chance: Random, feature: Feature, crash: Crash) -> tuple[Driver, Reference]:
    definition = a_definition(chance, feature)
    told = signals(chance, feature)
    world = world_of(chance.randrange(1_000))
    note(json.dumps({"definition": definition, "signals": told}))

    def answer(call: Call) -> Reply:
        if isinstance(call, CallService):
            return world("service", call.service, call.input, call.try_no, call.attempt)
        if isinstance(call, CallFunction):
            return world("function", call.function, call.input, call.try_no, 1)
        try_no = int(call.call_id.split(".")[2])
        return world("flow", call.flow, call.params.get("input"), try_no, 1)

    reference = Reference(
        definition, PARAMS, world, signals=told, row_count_max=ROW_COUNT_MAX, crash=crash
    )
    try:
        reference.run()
    except (Huge, Tie):
        reject()
    driver = Driver(parse_flow(definition).flow, PARAMS, answer, crash=crash)
    for after_ms, key, value in told:
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


def ends_alike(driver: Driver, reference: Reference) -> None:
    assert (driver.end or (None, "")) == (reference.status, reference.error)
    if driver.end is not None and driver.end[1] not in ("", walk.TOO_MANY_STEPS):
        assert driver.state.failed_path == reference.failed_path
    assert driver.shared == reference.root
    assert [run.seq for run in driver.rows] == list(range(1, len(driver.rows) + 1))


@pytest.mark.proves("R5.4")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 120)
@SETTINGS
@given(CHANCES)
def test_a_run_is_what_its_flow_means_in_every_row(chance: Random) -> None:
    driver, reference = both(chance, ALL, Crash.NEVER)
    assert [as_row(run) for run in driver.rows] == reference.rows
    ends_alike(driver, reference)


@pytest.mark.proves("R5.5")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 120)
@SETTINGS
@given(CHANCES)
def test_a_state_loaded_again_after_every_commit_makes_no_difference(chance: Random) -> None:
    """But to when a try began, and so to how long it may still take."""
    driver, reference = both(chance, UNEVEN, Crash.RELOAD)
    assert without_beginnings(driver) == [row._replace(started=0) for row in reference.rows]
    ends_alike(driver, reference)


@pytest.mark.proves("R5.5")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 120)
@SETTINGS
@given(CHANCES)
def test_a_process_that_dies_after_every_commit_repeats_only_what_had_not_ended(
    chance: Random,
) -> None:
    driver, reference = both(chance, UNEVEN, Crash.LOSE)
    assert without_beginnings(driver) == [row._replace(started=0) for row in reference.rows]
    ends_alike(driver, reference)


def without_beginnings(driver: Driver) -> list[Row]:
    return [as_row(run)._replace(started=0) for run in driver.rows]
