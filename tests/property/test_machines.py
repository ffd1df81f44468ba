"""I24: the same random operations give the same answers, and leave the same behind, everywhere."""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import InBatches, OneByOne, StoreMachine
from tests.property.opened import Opened

# `make torture` asks for many more, and for new ones each time.
EXAMPLE_COUNT: Final = int(os.environ.get("HEADWAY_EXAMPLES", "0"))
SETTINGS: Final = settings(
    max_examples=EXAMPLE_COUNT or 20,
    derandomize=not EXAMPLE_COUNT,
    stateful_step_count=int(os.environ.get("STEPS", "40")),
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)


@pytest.mark.timeout(0 if EXAMPLE_COUNT else 300)
@pytest.mark.parametrize("machine", [OneByOne, InBatches])
def test_i24_the_store_does_what_the_oracle_says(
    machine: type[StoreMachine], opened_store: Opened
) -> None:
    run_state_machine_as_test(lambda: machine(opened_store), settings=SETTINGS)  # type: ignore[no-untyped-call]
