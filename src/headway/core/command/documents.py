"""How much a command carries, so that a batch can be bounded in size and not only in number."""

from typing import Any

from headway.core.command.admin.fire_schedule import FireSchedule
from headway.core.command.admin.save_key import SaveKey
from headway.core.command.flow.advance import AdvanceFlow, EndTask
from headway.core.command.flow.publish import FlowStart, PublishFlow, StartFlow, StartFlowChild
from headway.core.command.flow.shared_state import PostSignal
from headway.core.command.protocol import Command
from headway.core.command.run.child import StartChild
from headway.core.command.run.inbox import PostToInbox
from headway.core.command.run.interrupt import CloseInterrupt, OpenInterrupt
from headway.core.command.run.report import AppendEvents, SaveCheckpoint, SaveProgress
from headway.core.command.run.settle import Complete, Fail
from headway.core.command.run.submit import Submit
from headway.core.command.run.wait import Retry
from headway.core.schedule import Schedule


def document_length(command: Command[Any]) -> int:
    """The length of the documents that `command` brings along, or 0."""
    if isinstance(command, AdvanceFlow):  # Most commands, where there are flows.
        return _length_of_step(command)
    return _length_of_command(command)


def _length_of_command(command: Command[Any]) -> int:
    match command:
        case (
            Submit(params=document)
            | StartChild(submission=Submit(params=document))
            | FireSchedule(schedule=Schedule(params=document))
            | SaveKey(params=document)
            | Complete(result=document)
            | PostToInbox(payload=document)
            | PostSignal(value=document)
            | PublishFlow(definition=str(document))
            | SaveProgress(progress=document)
            | SaveCheckpoint(checkpoint=document)
            | OpenInterrupt(question=document)
            | CloseInterrupt(fallback_answer=document)
        ):
            return len(document)
        case Fail(error=document, traceback=traceback) | Retry(error=document, traceback=traceback):
            return len(document) + len(traceback or "")
        case AppendEvents(events=events):
            return sum([len(one.payload) for one in events])
        case StartFlow(submission=submission, start=start):
            return len(submission.params) + _length_of_start(start)
        case StartFlowChild(child=child, start=start):
            return len(child.submission.params) + _length_of_start(start)
        case _:
            return 0


def _length_of_start(start: FlowStart) -> int:
    return sum([len(value) for _, value in start.shared])


def _length_of_step(step: AdvanceFlow) -> int:
    """What is shared alone can be as large as a task may be."""
    length = sum([len(row.output) + len(row.input) for row in step.node_run_rows])
    for one in (*step.shared_added, *step.shared_changed):
        length += len(one.value)
    return (
        length + len(step.next_action.result) if isinstance(step.next_action, EndTask) else length
    )
