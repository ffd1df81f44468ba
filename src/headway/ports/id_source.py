"""Names that nobody has used before."""

from typing import Protocol

from headway.core.ids import InstanceId, RunId


class IdSource(Protocol):
    def run_id(self) -> RunId:
        """A new id; ids made later sort later, so that the index of runs grows at its end."""
        ...

    def instance_id(self) -> InstanceId: ...

    def nonce(self) -> str:
        """Random, and not to be guessed: claims are made from it."""
        ...
