"""Lanes: named queues within one process, for work that need not survive the process.

Work in one session runs one piece at a time, in the order of arrival. All sessions together share a
global lane, which runs a few pieces at a time:

    lanes = Lanes({"main": 4})

    async def answer(session: str, message: str) -> str:
        return await lanes.run_in_session(session, lambda: ask_the_model(message))

Before the program exits:

    lanes.refuse_new_work()
    has_drained = await lanes.wait_for_active(timeout_s=30)

`ActiveRunRegistry` records the active run of each session, so that other code can reach that run.
The lanes need nothing but the standard library.
"""

from headway.lanes.entry import ActiveTask, LaneView, OnWait, Priority, TaskId
from headway.lanes.errors import (
    InvalidLimits,
    InvalidWork,
    LaneCleared,
    LaneError,
    LanesDraining,
    TaskTimedOut,
)
from headway.lanes.lanes import Lanes
from headway.lanes.limits import DEFAULT_LIMITS
from headway.lanes.names import global_lane, is_probe_lane, session_lane
from headway.lanes.registry import (
    ActiveRun,
    ActiveRunRegistry,
    QueueMessageRefusal,
    QueueMessageResult,
)

__all__ = [
    "DEFAULT_LIMITS",
    "ActiveRun",
    "ActiveRunRegistry",
    "ActiveTask",
    "InvalidLimits",
    "InvalidWork",
    "LaneCleared",
    "LaneError",
    "LaneView",
    "Lanes",
    "LanesDraining",
    "OnWait",
    "Priority",
    "QueueMessageRefusal",
    "QueueMessageResult",
    "TaskId",
    "TaskTimedOut",
    "global_lane",
    "is_probe_lane",
    "session_lane",
]
