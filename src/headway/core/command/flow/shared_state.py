"""Signals: what is set in the shared state of a flow task from outside, and wakes it (R5.11)."""

import json
from dataclasses import dataclass

from headway.core.batch_state import World
from headway.core.command.protocol import Needs
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
class Answered:
    """Somebody else has said so before; nothing was changed."""


@dataclass(frozen=True, slots=True)
class NoSharedRoom:
    """The shared state would be larger than it may be; nothing was changed."""

    size: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What a signal has to find room beside: the shared state, and the signals that wait."""

    size: int
    """In bytes, the signal itself included."""
    seq: int
    """When that was so: what came later is counted when the signal is posted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSignal:
    run_id: RunId
    key: str
    value: Document
    beside: Beside
    by: str = ""
    asked_by: int | None = None
    """The generation that asks for it: an answer is wanted from one person alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", check_signal_key(self.key))
        check_text(self.by, place="by")

    def need(self, needs: Needs) -> None:
        needs.run(self.run_id, may_wake=True)
        needs.inbox(self.run_id, SIGNAL)
        needs.consumed(self.run_id, after_seq=self.beside.seq)

    def decide(self, world: World) -> Posted | InboxFull | NotActive | Answered | NoSharedRoom:
        run = world.run(self.run_id)
        if (
            run is None
            or run.job != FLOW_JOB
            or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING)
        ):
            return NotActive()
        if self.asked_by is not None and (run.generation != self.asked_by or self._is_there(world)):
            return Answered()
        size = self.beside.size + self._later_size(world)
        if size > BYTE_COUNT_MAX:
            return NoSharedRoom(size)
        key = encode_document(self.key, place="key")
        payload = Document(f'{{"key":{key},"value":{self.value}}}')
        return post(world, run, kind=SIGNAL, payload=payload, by=self.by)

    def _later_size(self, world: World) -> int:
        """Of the signals that came after the look, whether they were taken in meanwhile or not."""
        items = (*world.inbox[self.run_id], *world.consumed.get(self.run_id, ()))
        later = [item for item in items if item.seq > self.beside.seq]
        return sum(byte_count(item.payload) for item in later if item.kind == SIGNAL)

    def _is_there(self, world: World) -> bool:
        return any(
            item.kind == SIGNAL and json.loads(item.payload)["key"] == self.key
            for item in world.inbox[self.run_id]
        )
