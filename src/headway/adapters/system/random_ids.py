"""Unique ids from the operating system's random numbers."""

import secrets

from uuid_utils.compat import uuid7

from headway.core.ids import InstanceId, RunId


class SystemIds:
    def run_id(self) -> RunId:
        return RunId(str(uuid7()))

    def instance_id(self) -> InstanceId:
        return InstanceId(str(uuid7()))

    def nonce(self) -> str:
        return secrets.token_hex(12)
