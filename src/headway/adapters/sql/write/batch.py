"""The commands of a batch with their waiting callers, and a batch whose commit is in doubt.

See docs/internals/writer.md.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from headway.adapters.sql.write.instance_lease import Lease
from headway.core.command.protocol import Command
from headway.core.run.events import Event

Answer = tuple["asyncio.Future[Any] | Lease", Any, BaseException | None]


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A command in the queue, with the future or the lease that receives its answer."""

    command: Command[Any]
    answer: "asyncio.Future[Any] | Lease"


@dataclass(frozen=True, slots=True)
class InDoubtBatch:
    """A batch whose COMMIT was sent but not confirmed, with its commands' answers and events."""

    batch_number: int
    answers: list[Any]
    events: list[Event]
