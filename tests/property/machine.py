"""State machines that send random commands to the oracle and to a store, and compare them."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.claim import ClaimedRun, ClaimRuns
from headway.core.command.run.report import SaveProgress
from headway.core.errors import StoreFailed
from headway.core.event_payloads import Waiting
from headway.core.ids import RunId
from headway.core.run.run import Claim
from headway.services.engine.claimer import CLAIM_TRIGGERS
from tests.property.random_commands import UNKNOWN_RUN, CommandDrawer
from tests.property.sync_store import SyncStore, difference, expected

BATCH_COUNT_MAX = 8


class StoreMachine(RuleBasedStateMachine):
    """Advances the clock, and compares all rows with the oracle after each step."""

    def __init__(self, sync_store: SyncStore) -> None:
        super().__init__()
        self.sync_store = sync_store
        self.oracle = sync_store.start_over()
        self.drawing = CommandDrawer(self.oracle)
        self.revisions: dict[RunId, tuple[int, dict[str, Any]]] = {}

    @initialize(data=st.data())
    def register_two_instances(self, data: st.DataObject) -> None:
        for _ in range(2):
            self.check_one(data.draw(self.drawing.of_kind(CommandDrawer.register)))

    def pass_time(self, data: st.DataObject) -> None:
        seconds = data.draw(st.sampled_from([*[0.0] * 16, 0.5, 1.0, 5.0, 20.0, 70.0]))
        self.oracle.now = self.sync_store.clock.advance(seconds)

    @invariant()
    def store_equals_the_oracle(self) -> None:
        stored = self.sync_store.run(self.sync_store.read_all())
        wrong = difference(expected(self.oracle), stored)
        assert not wrong, "\n".join(wrong)
        for row in stored["runs"]:
            self.check_revision_grows(row)

    def check_revision_grows(self, row: dict[str, Any]) -> None:
        revision = row.pop("revision")
        before = self.revisions.get(row["id"])
        if before is not None:
            assert revision > before[0] or (revision, row) == before
        self.revisions[row["id"]] = (revision, row)

    def check_one(self, command: Any) -> None:
        required = self.ask_oracle(command)
        answer = self.sync_store.run(self.sync_store.store.apply(command))
        assert answer == required, f"{command}\nreturned {answer}\n     not {required}"

    def ask_oracle(self, command: Any) -> Any:
        event_count = len(self.oracle.events)
        answer = self.oracle.apply(command)
        # A claim starts runs, but needs no further claim in its batch.
        if not command.may_free_capacity and not isinstance(command, ClaimRuns):
            types = {event["type"] for event in self.oracle.events[event_count:]}
            assert not types & CLAIM_TRIGGERS, f"an engine would not claim along with {command}"
        if isinstance(answer, tuple):
            claimed = [run for run in answer if isinstance(run, ClaimedRun)]
            self.drawing.claims += [Claim(run.run_id, run.token) for run in claimed]
        return answer


class OneCommandMachine(StoreMachine):
    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        self.pass_time(data)
        self.check_one(data.draw(self.drawing.command()))


class BatchMachine(StoreMachine):
    """Commands of one batch share a transaction, and end as if each had come alone."""

    @rule(data=st.data(), count=st.integers(2, BATCH_COUNT_MAX))
    def apply_together(self, data: st.DataObject, count: int) -> None:
        self.pass_time(data)
        expected_answers: list[tuple[Any, Any]] = []
        batch_from_seq = self.oracle.seq
        earlier_count = len(self.drawing.claims)
        while len(expected_answers) < count:
            command = data.draw(self.drawing.command())
            if not self.is_merged(command, batch_from_seq):
                expected_answers.append((command, self.ask_oracle(command)))
                self.drawing.secret_tokens |= {
                    claim.token for claim in self.drawing.claims[earlier_count:]
                }
        if data.draw(st.sampled_from([False, False, True])):
            broken = Broken(self.oracle.runs[-1].id if self.oracle.runs else UNKNOWN_RUN)
            expected_answers.insert(
                data.draw(st.integers(0, len(expected_answers))), (broken, StoreFailed)
            )
        self.drawing.secret_tokens.clear()
        answers = self.sync_store.run(
            self.apply_at_once([command for command, _ in expected_answers])
        )
        for (command, expected_answer), answer in zip(expected_answers, answers, strict=True):
            actual = type(answer) if isinstance(answer, Exception) else answer
            assert actual == expected_answer, (
                f"{command}\nreturned {answer!r}\n     not {expected_answer}"
            )

    def is_merged(self, command: Any, batch_from_seq: int) -> bool:
        """Return whether this is progress right after progress, which becomes one event."""
        if not isinstance(command, SaveProgress) or self.oracle.seq == batch_from_seq:
            return False
        last = self.oracle.events[-1]
        return (last["type"], last["run_id"]) == ("run_progress", command.claim.run_id)

    async def apply_at_once(self, commands: list[Any]) -> list[Any]:
        """Apply the commands while the writer is busy, so that they form one batch."""
        store, gate = self.sync_store.store, Gate()
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(store.apply(gate))
            await asyncio.to_thread(gate.is_entered.wait, 10)
            try:
                batch = asyncio.gather(*map(store.apply, commands), return_exceptions=True)
                await asyncio.sleep(0)
            finally:
                gate.may_go.set()
            answers = await batch
            await holding
        return list(answers)


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that blocks the writer inside its transaction."""

    is_entered: threading.Event = field(default_factory=threading.Event)
    may_go: threading.Event = field(default_factory=threading.Event)

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        pass

    def decide(self, batch: BatchState) -> None:  # noqa: ARG002
        self.is_entered.set()
        assert self.may_go.wait(10)


@dataclass(frozen=True, slots=True)
class Broken:
    """A command that raises after it has changed something."""

    run_id: RunId

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id)

    def decide(self, batch: BatchState) -> None:
        run = batch.run(self.run_id)
        if run is not None:
            batch.emit(run, Waiting())
        raise RuntimeError("broken on purpose")
