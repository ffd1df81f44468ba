"""After any commands the doctor finds nothing, and every run can be explained."""

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
from tests.property.machine import BatchMachine, OneCommandMachine, StoreMachine
from tests.property.sync_store import SyncStore
from tests.property.test_machines import SETTINGS, STEP_COUNTS


@dataclass(frozen=True, slots=True)
class StoppedClock(SystemClock):
    """A clock on which nothing is ever late, because nothing sweeps here."""

    def now(self) -> Instant:
        return Instant(0)


class DoctorMachine(StoreMachine):
    def teardown(self) -> None:
        findings = self.sync_store.run(self._violations())
        # A command may retire an instance that holds runs. The engine releases them before.
        assert [finding for finding in findings if "which is unknown" not in finding.sentence] == []
        self.sync_store.run(self._explain_all())

    async def _violations(self) -> list[Finding]:
        reader = SqlDoctorReader(self.sync_store.store._database)
        findings = examine(reader, StoppedClock(), DoctorProgress(), lambda: None)
        return [finding async for finding in findings if finding.severity is Severity.VIOLATION]

    async def _explain_all(self) -> None:
        for run in self.oracle.runs:
            situation = await self.sync_store.store.runs.situation(run.id)
            assert situation is not None
            assert explain(situation, self.sync_store.clock()).status is run.status


class DoctorOneCommandMachine(DoctorMachine, OneCommandMachine):
    pass


class DoctorBatchMachine(DoctorMachine, BatchMachine):
    pass


MACHINES: dict[type[StoreMachine], type[StoreMachine]] = {
    DoctorOneCommandMachine: OneCommandMachine,
    DoctorBatchMachine: BatchMachine,
}


@pytest.mark.proves("I24")
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("machine", MACHINES)
def test_doctor_finds_nothing_after_any_commands(
    machine: type[StoreMachine], opened_store: SyncStore
) -> None:
    # Fewer examples than the machines themselves, because each ends with a full examination.
    step_count = STEP_COUNTS[MACHINES[machine]]
    chosen = settings(SETTINGS, max_examples=5, stateful_step_count=step_count)
    run_state_machine_as_test(lambda: machine(opened_store), settings=chosen)  # type: ignore[no-untyped-call]
