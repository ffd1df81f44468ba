"""The machines: random commands go to the oracle and to a store, and both must say the same."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.claim import ClaimedRun, ClaimRuns
from headway.core.command.run.report import SaveProgress
from headway.core.errors import StoreFailed
from headway.core.ids import RunId
from headway.core.run.run import Claim
from headway.services.engine.claimer import CLAIM_TRIGGERS, NON_TRIGGER_COMMANDS
from tests.property.drawing import NOBODY, Drawing
from tests.property.opened import Opened, difference, expected

BATCH_COUNT_MAX = 8


class StoreMachine(RuleBasedStateMachine):
    """Both modes have a clock that moves, and compare all there is after each step."""

    def __init__(self, opened: Opened) -> None:
        super().__init__()
        self.opened = opened
        self.oracle = opened.start_over()
        self.drawing = Drawing(self.oracle)
        self.revisions: dict[RunId, tuple[int, dict[str, Any]]] = {}

    @initialize(data=st.data())
    def begin_with_two_instances(self, data: st.DataObject) -> None:
        for _ in range(2):
            self.check_one(data.draw(self.drawing.of_kind(Drawing.register)))

    def pass_time(self, data: st.DataObject) -> None:
        seconds = data.draw(st.sampled_from([*[0.0] * 16, 0.5, 1.0, 5.0, 20.0, 70.0]))
        self.oracle.now = self.opened.clock.advance(seconds)

    @invariant()
    def the_store_holds_what_the_oracle_says(self) -> None:
        found = self.opened.run(self.opened.read_all())
        wrong = difference(expected(self.oracle), found)
        assert not wrong, "\n".join(wrong)
        for row in found["runs"]:
            self.revision_grows_with_each_change(row)

    def revision_grows_with_each_change(self, row: dict[str, Any]) -> None:
        revision = row.pop("revision")
        before = self.revisions.get(row["id"])
        if before is not None:
            assert revision > before[0] or (revision, row) == before
        self.revisions[row["id"]] = (revision, row)

    def check_one(self, command: Any) -> None:
        told = self.told(command)
        answer = self.opened.run(self.opened.store.apply(command))
        assert answer == told, f"{command}\nanswers {answer}\n    not {told}"

    def told(self, command: Any) -> Any:
        event_count = len(self.oracle.events)
        answer = self.oracle.apply(command)
        if type(command) in NON_TRIGGER_COMMANDS - {ClaimRuns}:  # A claim has no need of another.
            types = {event["type"] for event in self.oracle.events[event_count:]}
            assert not types & CLAIM_TRIGGERS, f"an engine would not claim beside {command}"
        if isinstance(answer, tuple):
            claimed = [one for one in answer if isinstance(one, ClaimedRun)]
            self.drawing.claims += [Claim(one.run_id, one.token) for one in claimed]
        return answer


class OneByOne(StoreMachine):
    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        self.pass_time(data)
        self.check_one(data.draw(self.drawing.command()))


class InBatches(StoreMachine):
    """Commands that wait together share a transaction, and end as if each had come alone."""

    @rule(data=st.data(), count=st.integers(2, BATCH_COUNT_MAX))
    def apply_together(self, data: st.DataObject, count: int) -> None:
        self.pass_time(data)
        told: list[tuple[Any, Any]] = []
        batch_from_seq = self.oracle.seq
        known_count = len(self.drawing.claims)
        while len(told) < count:
            command = data.draw(self.drawing.command())
            if not self.is_merged(command, batch_from_seq):
                told.append((command, self.told(command)))
                self.drawing.secret_tokens |= {
                    claim.token for claim in self.drawing.claims[known_count:]
                }
        if data.draw(st.sampled_from([False, False, True])):
            broken = Broken(self.oracle.runs[-1].id if self.oracle.runs else NOBODY)
            told.insert(data.draw(st.integers(0, len(told))), (broken, StoreFailed))
        self.drawing.secret_tokens.clear()
        answers = self.opened.run(self.apply_at_once([command for command, _ in told]))
        for (command, should), answer in zip(told, answers, strict=True):
            found = type(answer) if isinstance(answer, Exception) else answer
            assert found == should, f"{command}\nanswers {answer!r}\n    not {should}"

    def is_merged(self, command: Any, batch_from_seq: int) -> bool:
        """Whether it is progress right after progress, which becomes one event when it can."""
        if not isinstance(command, SaveProgress) or self.oracle.seq == batch_from_seq:
            return False
        last = self.oracle.events[-1]
        return (last["type"], last["run_id"]) == ("run_progress", command.claim.run_id)

    async def apply_at_once(self, commands: list[Any]) -> list[Any]:
        """Let them come while the writer is busy, so that they are one batch."""
        store, gate = self.opened.store, Gate()
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
    """A command that keeps the writer inside its transaction."""

    is_entered: threading.Event = field(default_factory=threading.Event)
    may_go: threading.Event = field(default_factory=threading.Event)

    def need(self, needs: RowsNeeded) -> None:
        pass

    def decide(self, world: BatchState) -> None:  # noqa: ARG002
        self.is_entered.set()
        assert self.may_go.wait(10)


@dataclass(frozen=True, slots=True)
class Broken:
    """A command that goes wrong after it has changed something."""

    run_id: RunId

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id)

    def decide(self, world: BatchState) -> None:
        run = world.run(self.run_id)
        if run is not None:
            world.emit(run, "broken", "{}")
        raise RuntimeError("broken on purpose")
