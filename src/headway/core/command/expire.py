"""Time out a run whose queue or execution time is over."""

from dataclasses import dataclass

from headway.core.command.command import Needs
from headway.core.command.tell import tell_parent
from headway.core.ids import RunId
from headway.core.run.deadlines import is_overdue
from headway.core.run.status import RunStatus
from headway.core.run.transitions import Trigger
from headway.core.world import World


@dataclass(frozen=True, slots=True)
class Expire:
    run_id: RunId

    def need(self, needs: Needs) -> None:
        needs.ending(self.run_id)

    def decide(self, world: World) -> bool:
        """Whether it was overdue and is timed out now; its executor's claim is void then."""
        run = world.run(self.run_id)
        if run is None or not is_overdue(run, world.now):
            return False
        clock = "queue" if run.status is RunStatus.QUEUED else "execution"
        moved = world.move(run, Trigger.EXPIRE, details=f',"clock":"{clock}"')
        tell_parent(world, self.run_id)
        return moved is not None
