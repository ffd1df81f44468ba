"""I24: the same random operations give the same answers, and leave the same behind, everywhere."""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import InBatches, OneByOne, StoreMachine
from tests.property.opened import Opened

# `make torture` asks for many, new ones each time; here they are few, and always the same.
EXAMPLE_COUNT: Final = int(os.environ.get("HEADWAY_EXAMPLES", "0"))
STEP_COUNTS: Final[dict[type[StoreMachine], int]] = {OneByOne: 30, InBatches: 12}
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
def test_the_store_does_what_the_oracle_says(
    machine: type[StoreMachine], opened_store: Opened
) -> None:
    chosen = settings(SETTINGS, stateful_step_count=STEP_COUNTS[machine])
    run_state_machine_as_test(lambda: machine(opened_store), settings=chosen)  # type: ignore[no-untyped-call]
