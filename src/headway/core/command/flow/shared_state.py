"""Signals: set a value in the shared state of a flow task from outside, and wake it (R5.11)."""

import json
from dataclasses import dataclass
from typing import ClassVar

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
    """The approval was already answered. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class SharedStateFull:
    """The shared state would be larger than its limit. Nothing was changed."""

    byte_count: int


@dataclass(frozen=True, slots=True)
class SharedStateUsage:
    """The size of a task's shared state and of its unread signals, at one instant."""

    byte_count: int
    """The size in bytes, including the new signal."""
    seq: int
    """The last `seq` of the stream when the size was read.

    Signals with a later `seq` are counted when the new signal is posted.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSignal:
    """Post a signal to the inbox of a flow task."""

    run_id: RunId
    key: str
    value: Document
    usage: SharedStateUsage
    by: str = ""
    asked_generation: int | None = None
    """The generation that asked for an approval, or None if the signal is no approval.

    Only the first answer to an approval is accepted.
    """

    may_free_capacity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", check_signal_key(self.key))
        check_text(self.by, field="by")

    def document_length(self) -> int:
        return len(self.value)

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.run_id, may_wake=True)
        rows.add_inbox(self.run_id, SIGNAL)
        rows.add_consumed(self.run_id, after_seq=self.usage.seq)

    def decide(
        self, batch: BatchState
    ) -> Posted | InboxFull | NotActive | AlreadyAnswered | SharedStateFull:
        run = batch.run(self.run_id)
        if (
            run is None
            or run.job != FLOW_JOB
            or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING)
        ):
            return NotActive()
        if self.asked_generation is not None and (
            run.generation != self.asked_generation or self._is_posted(batch)
        ):
            return AlreadyAnswered()
        size = self.usage.byte_count + self._later_byte_count(batch)
        if size > BYTE_COUNT_MAX:
            return SharedStateFull(size)
        key = encode_document(self.key, field="key")
        payload = Document(f'{{"key":{key},"value":{self.value}}}')
        return post(batch, run, kind=SIGNAL, payload=payload, by=self.by)

    def _later_byte_count(self, batch: BatchState) -> int:
        """Return the size of the signals posted after `usage` was read, consumed or not."""
        items = (*batch.inbox[self.run_id], *batch.consumed_items.get(self.run_id, ()))
        later = [item for item in items if item.seq > self.usage.seq]
        return sum(byte_count(item.payload) for item in later if item.kind == SIGNAL)

    def _is_posted(self, batch: BatchState) -> bool:
        return any(
            item.kind == SIGNAL and json.loads(item.payload)["key"] == self.key
            for item in batch.inbox[self.run_id]
        )
