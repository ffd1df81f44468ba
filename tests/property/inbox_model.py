"""The model of messages to runs and of their inboxes, in the plainest way."""

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
from tests.property.child_model import ChildModel
from tests.property.model import QUEUED, RUNNING, ModelRun


class InboxModel(ChildModel):
    def post_to_inbox(
        self, command: PostToInbox
    ) -> Posted | InboxFull | NotActive | MessageNotAccepted | UnknownRun:
        run = self.run(command.run_id)
        if run is None:
            return UnknownRun()
        if run.status not in (QUEUED, RUNNING):
            return NotActive()
        if command.kind == "message":
            if run.window == 3:
                return MessageNotAccepted(Refusal.NOT_STREAMING)
            if command.delivery is Delivery.NOW:
                if run.status is QUEUED:
                    return MessageNotAccepted(Refusal.NOT_STARTED, can_wait=True)
                if run.window == 2:
                    return MessageNotAccepted(Refusal.COMPACTING, can_wait=True)
                if run.window == 0:
                    return MessageNotAccepted(Refusal.NOT_STREAMING, can_wait=True)
        return self.post(run, command)

    def post(self, run: ModelRun, command: PostToInbox, **details: str) -> Posted | InboxFull:
        if run.unread_count >= 1_000:
            return InboxFull(1_000)
        run.unread_count += 1
        seq = self.emit(run, "run_message_posted", {"kind": command.kind, **details})
        self.inbox.append(
            InboxItem(
                *(run.id, seq, command.kind, command.call_id),
                *(command.payload, command.by, self.now, None),
            )
        )
        if run.is_parked:
            self.make_ready(run, "run_woken", {})
        return Posted(seq)

    def carry_over(self, from_run: ModelRun, to_run_id: RunId) -> list[InboxItem]:
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

    def consume(self, command: ConsumeInbox) -> tuple[InboxItem, ...] | None:
        run = self.held(command.claim)
        if run is None:
            return None
        if command.open_window and run.window == 0 and run.status is RUNNING:
            run.window = 1
        taken = []
        for index, item in enumerate(self.inbox):
            is_unread = item.run_id == run.id and item.consumed_generation is None
            if is_unread and item.kind == command.kind:
                self.inbox[index] = item._replace(consumed_generation=run.generation)
                taken.append(self.inbox[index])
        run.unread_count -= len(taken)
        if taken:
            self.emit(run, "run_messages_consumed", {"count": len(taken)})
        for item in taken:
            if item.kind == "message":
                message = {"seq": item.seq, "by": item.by, "message": json.loads(item.payload)}
                self.emit(run, "queued_message", message)
        return tuple(taken)
