"""Sources of unique ids."""

from typing import Protocol

from headway.core.ids import InstanceId, RunId


class IdSource(Protocol):
    def run_id(self) -> RunId:
        """Return a new id. Newer ids sort last, so that the index of runs grows at its end."""
        ...

    def instance_id(self) -> InstanceId: ...

    def nonce(self) -> str:
        """Return a random, unguessable text, from which claims are made."""
        ...
