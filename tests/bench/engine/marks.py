"""The job of a process that is killed: it leaves a mark, and runs until then.

Nothing but the standard library.
"""

import asyncio
from pathlib import Path
from typing import Final

from tests.bench.engine.order import Order

FOR_EVER_S: Final = 3_600.0


async def hold(order: Order, number: int) -> None:
    leave_mark(order, number)
    await asyncio.sleep(FOR_EVER_S)


def leave_mark(order: Order, number: int) -> None:
    (Path(order.marks_folder) / f"{order.role}-{number}").touch()


def mark_count(marks_folder: Path, role: str) -> int:
    return sum(1 for _ in marks_folder.glob(f"{role}-*"))
