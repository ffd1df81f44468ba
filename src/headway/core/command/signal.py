"""Signals: what is set in the shared state of a flow task from outside, and wakes it (R5.11)."""

import json
from dataclasses import dataclass

from headway.core.command.command import Needs
from headway.core.command.inbox import InboxFull, NotActive, Posted, post
from headway.core.document import Document, check_text, encode_document
from headway.core.flow.happened import check_signal_key
from headway.core.flow.kept import FLOW_JOB, SIGNAL
from headway.core.ids import RunId
from headway.core.run.status import RunStatus
from headway.core.world import World


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody else has said so before; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostSignal:
    run_id: RunId
    key: str
    value: Document
    by: str = ""
    asked_by: int | None = None
    """The generation that asks for it: an answer is wanted from one person alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", check_signal_key(self.key))
        check_text(self.by, place="by")

    def need(self, needs: Needs) -> None:
        needs.run(self.run_id, may_wake=True)
        if self.asked_by is not None:
            needs.inbox_run_ids[self.run_id] = None

    def decide(self, world: World) -> Posted | InboxFull | NotActive | Answered:
        run = world.run(self.run_id)
        if (
            run is None
            or run.job != FLOW_JOB
            or run.status not in (RunStatus.QUEUED, RunStatus.RUNNING)
        ):
            return NotActive()
        if self.asked_by is not None and (run.generation != self.asked_by or self._is_there(world)):
            return Answered()
        key = encode_document(self.key, place="key")
        payload = Document(f'{{"key":{key},"value":{self.value}}}')
        return post(world, run, kind=SIGNAL, payload=payload, by=self.by)

    def _is_there(self, world: World) -> bool:
        return any(
            item.kind == SIGNAL and json.loads(item.payload)["key"] == self.key
            for item in world.inbox[self.run_id]
        )
