"""How much a command carries, so that a batch can be bounded in size and not only in number."""

from typing import Any

from headway.core.command.advance import AdvanceFlow
from headway.core.command.child import StartChild
from headway.core.command.command import Command
from headway.core.command.fire import FireSchedule
from headway.core.command.inbox import PostToInbox
from headway.core.command.key_row import SaveKey
from headway.core.command.question import AskQuestion, CloseQuestion
from headway.core.command.report import AppendEvents, SaveCheckpoint, SaveProgress
from headway.core.command.settle import Complete, Fail
from headway.core.command.submit import Submit
from headway.core.schedule import Schedule


def document_length(command: Command[Any]) -> int:
    """The length of the documents that `command` brings along, or 0."""
    if isinstance(command, AdvanceFlow):  # Most commands, where there are flows.
        return sum([len(row.output) + len(row.input) for row in command.rows])
    return _length_of_one(command)


def _length_of_one(command: Command[Any]) -> int:
    match command:
        case Submit(params=document) | SaveKey(params=document):
            return len(document)
        case StartChild(submission=Submit(params=document)):
            return len(document)
        case FireSchedule(schedule=Schedule(params=document)):
            return len(document)
        case Complete(result=document) | Fail(error=document) | PostToInbox(payload=document):
            return len(document)
        case SaveProgress(progress=document) | SaveCheckpoint(checkpoint=document):
            return len(document)
        case AppendEvents(said=said):
            return sum([len(one.payload) for one in said])
        case AskQuestion(question=document) | CloseQuestion(otherwise=document):
            return len(document)
        case _:
            return 0
