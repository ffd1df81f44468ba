"""The same random commands give the same answers and rows on every backend (I24)."""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import BatchMachine, OneCommandMachine, StoreMachine
from tests.property.sync_store import SyncStore

# `make torture` sets a large number and new examples each time. Here the few are fixed.
EXAMPLE_COUNT: Final = int(os.environ.get("HEADWAY_EXAMPLES", "0"))
STEP_COUNTS: Final[dict[type[StoreMachine], int]] = {OneCommandMachine: 30, BatchMachine: 12}
SETTINGS: Final = settings(
    max_examples=EXAMPLE_COUNT or 12,
    derandomize=not EXAMPLE_COUNT,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.mark.proves("I24")
@pytest.mark.timeout(0 if EXAMPLE_COUNT else 240)
@pytest.mark.parametrize("machine", STEP_COUNTS)
def test_store_behaves_as_the_reference_model(
    machine: type[StoreMachine], opened_store: SyncStore
) -> None:
    chosen = settings(SETTINGS, stateful_step_count=STEP_COUNTS[machine])
    run_state_machine_as_test(lambda: machine(opened_store), settings=chosen)  # type: ignore[no-untyped-call]
