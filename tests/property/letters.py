"""What is sent to runs, and read by them, said once more in the plainest way."""

import json

from headway.core.command.inbox import (
    ConsumeInbox,
    InboxFull,
    NotActive,
    NotTaken,
    Posted,
    PostToInbox,
)
from headway.core.run.window import Refusal
from headway.core.world import InboxItem
from tests.property.family import Family
from tests.property.model import QUEUED, RUNNING, Told


class Letters(Family):
    def post_to_inbox(self, wanted: PostToInbox) -> Posted | InboxFull | NotActive | NotTaken:
        run = self.run(wanted.run_id)
        if run is None or run.status not in (QUEUED, RUNNING):
            return NotActive()
        if wanted.kind == "message":
            if run.is_interactive == 2:
                return NotTaken(Refusal.COMPACTING)
            if run.is_interactive == 3 or (wanted.is_steering and run.is_interactive == 0):
                return NotTaken(Refusal.NOT_STREAMING)
        return self.post(run, wanted)

    def post(self, run: Told, wanted: PostToInbox) -> Posted | InboxFull:
        if run.unread_count >= 1_000:
            return InboxFull(1_000)
        run.unread_count += 1
        seq = self.emit(run, "run_message_posted", {"kind": wanted.kind})
        self.inbox.append(
            InboxItem(
                *(run.id, seq, wanted.kind, wanted.call_id),
                *(wanted.payload, wanted.by, self.now, None),
            )
        )
        if run.is_parked:
            self.make_ready(run, "run_woken", {})
        return Posted(seq)

    def consume(self, wanted: ConsumeInbox) -> tuple[InboxItem, ...] | None:
        run = self.held(wanted.claim)
        if run is None:
            return None
        taken = []
        for place, item in enumerate(self.inbox):
            is_unread = item.run_id == run.id and item.consumed_by is None
            if is_unread and item.kind == wanted.kind:
                self.inbox[place] = item._replace(consumed_by=run.generation)
                taken.append(self.inbox[place])
        run.unread_count -= len(taken)
        if taken:
            self.emit(run, "run_messages_consumed", {"count": len(taken)})
        for item in taken:
            if item.kind == "message":
                told = {"seq": item.seq, "by": item.by, "message": json.loads(item.payload)}
                self.emit(run, "queued_message", told)
        return tuple(taken)
