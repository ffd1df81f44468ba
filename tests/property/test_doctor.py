"""Whatever commands there were, the doctor finds nothing, and every run can be explained."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.bootstrap import SystemClock
from headway.core.doctor.finding import Finding, Severity
from headway.core.ids import Instant
from headway.core.run.explain import explain
from headway.services.upkeep.examination import DoctorProgress, examine
from tests.property.machine import InBatches, OneByOne, StoreMachine
from tests.property.opened import Opened
from tests.property.test_machines import SETTINGS, STEP_COUNTS


@dataclass(frozen=True, slots=True)
class Stopped(SystemClock):
    """A clock on which nothing is ever late: nobody sweeps here."""

    def now(self) -> Instant:
        return Instant(0)


class Examined(StoreMachine):
    def teardown(self) -> None:
        found = self.opened.run(self._violations())
        # A command may retire an instance that holds runs; the engine releases them before.
        assert [one for one in found if "which is unknown" not in one.sentence] == []
        self.opened.run(self._explain_all())

    async def _violations(self) -> list[Finding]:
        reader = SqlDoctorReader(self.opened.store._database)
        found = examine(reader, Stopped(), DoctorProgress(), lambda: None)
        return [one async for one in found if one.severity is Severity.VIOLATION]

    async def _explain_all(self) -> None:
        for run in self.oracle.runs:
            situation = await self.opened.store.runs.situation(run.id)
            assert situation is not None
            assert explain(situation, self.opened.clock()).status is run.status


class ExaminedOneByOne(Examined, OneByOne):
    pass


class ExaminedInBatches(Examined, InBatches):
    pass


MACHINES: dict[type[StoreMachine], type[StoreMachine]] = {
    ExaminedOneByOne: OneByOne,
    ExaminedInBatches: InBatches,
}


@pytest.mark.proves("I24")
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_doctor_finds_nothing_after_any_commands(
    machine: type[StoreMachine], opened_store: Opened
) -> None:
    # Fewer than the machines themselves: each step is followed by a whole examination.
    step_count = STEP_COUNTS[MACHINES[machine]]
    chosen = settings(SETTINGS, max_examples=5, stateful_step_count=step_count)
    run_state_machine_as_test(lambda: machine(opened_store), settings=chosen)  # type: ignore[no-untyped-call]
