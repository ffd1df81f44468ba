"""The kind `wait_event`: wait until there is a value at the path in `params.signal_key`."""

from typing import Any

from headway.core.flow.definition.definition import AWAITED_PATH_PARAMS, Kind
from headway.core.flow.engine.signal_waits import WaitHandler


class WaitEventHandler(WaitHandler):
    state_prefix = "we"
    key_param = AWAITED_PATH_PARAMS[Kind.WAIT_EVENT]

    def has_arrived(self, value: Any) -> bool:
        return value is not None and value is not False and value != ""
