"""Whether this process can write, without writing anything."""

from dataclasses import dataclass

from headway.core.command.command import Needs
from headway.core.world import World


@dataclass(frozen=True, slots=True)
class Probe:
    """The store begins a transaction that may write, and locks the counter of the stream."""

    def need(self, needs: Needs) -> None:
        """Nothing besides."""

    def decide(self, world: World) -> None:
        """That it was asked is the answer."""
