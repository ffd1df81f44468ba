"""What is sent to runs, and read by them, said once more in the plainest way."""

import json

from headway.core.batch_state import InboxItem
from headway.core.command.run.inbox import (
    ConsumeInbox,
    InboxFull,
    MessageNotAccepted,
    NotActive,
    Posted,
    PostToInbox,
    UnknownRun,
)
from headway.core.ids import RunId
from headway.core.run.window import Delivery, Refusal
from tests.property.family import Family
from tests.property.model import QUEUED, RUNNING, Told


class Letters(Family):
    def post_to_inbox(
        self, wanted: PostToInbox
    ) -> Posted | InboxFull | NotActive | MessageNotAccepted | UnknownRun:
        run = self.run(wanted.run_id)
        if run is None:
            return UnknownRun()
        if run.status not in (QUEUED, RUNNING):
            return NotActive()
        if wanted.kind == "message":
            if run.window == 3:
                return MessageNotAccepted(Refusal.NOT_STREAMING)
            if wanted.delivery is Delivery.NOW:
                if run.status is QUEUED:
                    return MessageNotAccepted(Refusal.NOT_STARTED, can_wait=True)
                if run.window == 2:
                    return MessageNotAccepted(Refusal.COMPACTING, can_wait=True)
                if run.window == 0:
                    return MessageNotAccepted(Refusal.NOT_STREAMING, can_wait=True)
        return self.post(run, wanted)

    def post(self, run: Told, wanted: PostToInbox, **details: str) -> Posted | InboxFull:
        if run.unread_count >= 1_000:
            return InboxFull(1_000)
        run.unread_count += 1
        seq = self.emit(run, "run_message_posted", {"kind": wanted.kind, **details})
        self.inbox.append(
            InboxItem(
                *(run.id, seq, wanted.kind, wanted.call_id),
                *(wanted.payload, wanted.by, self.now, None),
            )
        )
        if run.is_parked:
            self.make_ready(run, "run_woken", {})
        return Posted(seq)

    def carry_over(self, from_run: Told, to_run_id: RunId) -> list[InboxItem]:
        """Mark the unread messages of a run that is replaced as carried to another."""
        carried = self.unread_messages(from_run)
        if carried:
            for item in carried:
                self.inbox[self.inbox.index(item)] = item._replace(consumed_generation=0)
            from_run.unread_count -= len(carried)
            self.emit(
                from_run, "run_messages_carried", {"count": len(carried), "to": str(to_run_id)}
            )
        return carried

    def consume(self, wanted: ConsumeInbox) -> tuple[InboxItem, ...] | None:
        run = self.held(wanted.claim)
        if run is None:
            return None
        if wanted.open_window and run.window == 0 and run.status is RUNNING:
            run.window = 1
        taken = []
        for place, item in enumerate(self.inbox):
            is_unread = item.run_id == run.id and item.consumed_generation is None
            if is_unread and item.kind == wanted.kind:
                self.inbox[place] = item._replace(consumed_generation=run.generation)
                taken.append(self.inbox[place])
        run.unread_count -= len(taken)
        if taken:
            self.emit(run, "run_messages_consumed", {"count": len(taken)})
        for item in taken:
            if item.kind == "message":
                told = {"seq": item.seq, "by": item.by, "message": json.loads(item.payload)}
                self.emit(run, "queued_message", told)
        return tuple(taken)
