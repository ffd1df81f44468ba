"""What the writer remembers of a batch: who waits for it, and what to tell them."""

import asyncio
from dataclasses import dataclass
from typing import Any

from headway.adapters.sql.write.instance_lease import Lease
from headway.core.command.protocol import Command
from headway.core.run.events import Event

Answer = tuple["asyncio.Future[Any] | Lease", Any, BaseException | None]


@dataclass(frozen=True, slots=True)
class PendingCommand:
    command: Command[Any]
    answer: "asyncio.Future[Any] | Lease"


@dataclass(frozen=True, slots=True)
class InDoubtBatch:
    """A batch whose commit was sent and not yet answered."""

    batch_number: int
    answers: list[Any]
    events: list[Event]
