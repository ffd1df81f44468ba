"""`wait_event`: waits until the value that `params.signal_key` points at is there."""

from typing import Any

from headway.core.flow.engine.signal_waits import Wait


class WaitEvent(Wait):
    short = "we"
    key_name = "signal_key"

    def has_come(self, value: Any) -> bool:
        return value is not None and value is not False and value != ""
