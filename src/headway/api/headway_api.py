"""The members of `Headway` that the HTTP API uses."""

from collections.abc import Mapping
from typing import Any, Protocol

from headway.core.duration import UNSET, TimeLimit
from headway.core.run.admission import OnConflict
from headway.core.run.explain import Explanation
from headway.core.run.run import OnExistingOutput, RunMode
from headway.core.schedule import Schedule
from headway.core.timeouts import Timeouts
from headway.ports.board_reader import BoardReader
from headway.ports.event_reader import EventReader
from headway.ports.file_reader import FileReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.flow.flows import Flows
from headway.services.flow.workers import Workers
from headway.services.submit.active_runs import ActiveRuns
from headway.services.submit.job import Job
from headway.services.submit.lane_control import LaneSettings
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.saved_keys import Keys
from headway.services.upkeep.configuration import ReloadResult


class ReadableStore(Store, Protocol):
    """A store with the readers that the HTTP API queries."""

    @property
    def runs(self) -> RunReader: ...

    @property
    def board(self) -> BoardReader: ...

    @property
    def events(self) -> EventReader: ...

    @property
    def files(self) -> FileReader: ...

    @property
    def conflict_count(self) -> int:
        """The number of batches decided again because other writers changed the same rows."""
        ...

    @property
    def lost_lease_count(self) -> int:
        """The number of times that this process lost its lease and had to register again."""
        ...


class HeadwayApi(Protocol):
    """The operations of Headway that the HTTP API uses. `Headway` implements them."""

    def note_stop(self) -> None: ...

    @property
    def flows(self) -> Flows: ...

    @property
    def workers(self) -> Workers: ...

    @property
    def store(self) -> ReadableStore: ...

    @property
    def timeouts(self) -> Timeouts: ...

    @property
    def jobs(self) -> Mapping[str, Job]: ...

    @property
    def schedules(self) -> Mapping[str, Schedule]: ...

    @property
    def lanes(self) -> LaneSettings: ...

    @property
    def keys(self) -> Keys: ...

    @property
    def active(self) -> ActiveRuns: ...

    def run(self, run_id: str) -> RunHandle: ...

    async def start_schedule(
        self, name: str, *, idempotency_key: str | None = None, by: str = ""
    ) -> RunHandle: ...

    async def explain(self, run_id: str) -> Explanation: ...

    async def reload(self) -> ReloadResult: ...

    async def submit(
        self,
        job: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        mode: RunMode | str = RunMode.START,
        lane: str | None = None,
        timeout_s: TimeLimit = UNSET,
        queue_timeout_s: float | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
        on_existing_output: OnExistingOutput | str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> RunHandle: ...
