"""Signals: what is set in the shared state of a flow task from outside, and wakes it (R5.11)."""

import json
from dataclasses import dataclass

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.inbox import InboxFull, NotActive, Posted, post
from headway.core.document import (
    BYTE_COUNT_MAX,
    Document,
    byte_count,
    check_text,
    encode_document,
)
from headway.core.flow.engine.inputs import check_signal_key
from headway.core.flow.engine.records import FLOW_JOB, SIGNAL
from headway.core.ids import RunId
from headway.core.run.status import RunStatus


@dataclass(frozen=True, slots=True)
class AlreadyAnswered:
    """Somebody else has said so before; nothing was changed."""


@dataclass(frozen=True, slots=True)
class SharedStateFull:
    """The shared state would be larger than it may be; nothing was changed."""

    byte_count: int


@dataclass(frozen=True, slots=True)
class SharedStateUsage:
    """What a signal has to find room beside: the shared state, and the signals that wait."""

    byte_count: int
    """In bytes, the signal itself included."""
    seq: int
    """When that was so: what came later is counted when the signal is posted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSignal:
    run_id: RunId
    key: str
    value: Document
    usage: SharedStateUsage
    by: str = ""
    asked_generation: int | None = None
    """The generation that asks for it: an answer is wanted from one person alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", check_signal_key(self.key))
        check_text(self.by, field="by")

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.run_id, may_wake=True)
        needs.add_inbox(self.run_id, SIGNAL)
        needs.add_consumed(self.run_id, after_seq=self.usage.seq)

    def decide(
        self, world: BatchState
    ) -> Posted | InboxFull | NotActive | AlreadyAnswered | SharedStateFull:
        run = world.run(self.run_id)
        if (
            run is None
            or run.job != FLOW_JOB
            or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING)
        ):
            return NotActive()
        if self.asked_generation is not None and (
            run.generation != self.asked_generation or self._is_posted(world)
        ):
            return AlreadyAnswered()
        size = self.usage.byte_count + self._later_byte_count(world)
        if size > BYTE_COUNT_MAX:
            return SharedStateFull(size)
        key = encode_document(self.key, field="key")
        payload = Document(f'{{"key":{key},"value":{self.value}}}')
        return post(world, run, kind=SIGNAL, payload=payload, by=self.by)

    def _later_byte_count(self, world: BatchState) -> int:
        """Of the signals that came after the look, whether they were taken in meanwhile or not."""
        items = (*world.inbox[self.run_id], *world.consumed_items.get(self.run_id, ()))
        later = [item for item in items if item.seq > self.usage.seq]
        return sum(byte_count(item.payload) for item in later if item.kind == SIGNAL)

    def _is_posted(self, world: BatchState) -> bool:
        return any(
            item.kind == SIGNAL and json.loads(item.payload)["key"] == self.key
            for item in world.inbox[self.run_id]
        )
