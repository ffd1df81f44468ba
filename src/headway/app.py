"""The library face: register jobs, start runs, wait for what they give."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast, overload

from headway.bootstrap import Durability, SqlStore, SystemClock, SystemIds, open_store
from headway.core.command.instance import LEASE_TTL_S
from headway.core.command.submit import Submit
from headway.core.document import Document, check_name, check_word
from headway.core.duration import check_seconds
from headway.core.errors import InvalidInput
from headway.core.ids import MAIN_LANE, Key, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.explain import Explanation
from headway.core.run.run import Mode, Recovery
from headway.core.schedule import Missed, Schedule
from headway.services.admit import admit
from headway.services.engine import Engine
from headway.services.explain import explain_run
from headway.services.handle import RunHandle
from headway.services.job import Backoff, Job, JobFunction, job_of
from headway.services.key_rows import Keys
from headway.services.lane_settings import Lanes
from headway.services.retention import Keeper, Retention
from headway.services.schedule import SCHEDULE_COUNT_MAX, Timetable
from headway.settings import load_settings

F = TypeVar("F", bound=JobFunction)

LEASE_TTL_S_MIN: Final = 0.5


class Headway:
    """Runs jobs, one at a time per key. An async context manager: inside it, work goes on.

    Without URLs it uses what is configured (`HEADWAY_DATABASE_URL` or `headway.toml`), or else
    `headway.db` in this folder.

    When it is left, no more runs start, and those at hand have `stop_wait_s` to end (none when it
    is left by an error). What is not done by then is ready for whoever opens the database next.
    What is over is kept as long as `retention` says: 30 days, unless told.
    """

    def __init__(
        self,
        *urls: str,
        durability: Durability | None = None,
        stop_wait_s: float = 10.0,
        lease_ttl_s: float = LEASE_TTL_S,
        retention: Retention | None = None,
    ) -> None:
        settings = load_settings()
        self._urls = urls or settings.urls
        if durability not in (None, "process", "power"):
            raise InvalidInput("durability", "must be one of: process, power")
        self._durability: Durability = durability or settings.durability
        for place, seconds in (("stop_wait_s", stop_wait_s), ("lease_ttl_s", lease_ttl_s)):
            check_seconds(seconds, place=place)
        if lease_ttl_s < LEASE_TTL_S_MIN:
            raise InvalidInput("lease_ttl_s", f"must be at least {LEASE_TTL_S_MIN:g}")
        self._stop_wait_s = stop_wait_s
        self._lease_ttl_s = lease_ttl_s
        self._retention = retention or Retention()
        self._ids = SystemIds()
        self._jobs: dict[str, Job] = {}
        self._schedules: dict[str, Schedule] = {}
        self._store: SqlStore | None = None

    @overload
    def job(self, function: F, /) -> F: ...

    @overload
    def job(
        self,
        *,
        name: str | None = None,
        lane: str = MAIN_LANE,
        timeout_s: float | None = None,
        queue_timeout_s: float | None = None,
        retries: int = 0,
        backoff: Backoff | None = None,
        recovery: Recovery | str = Recovery.RESUME,
    ) -> Callable[[F], F]: ...

    def job(  # type: ignore[misc]  # F, which only the answer has, cannot be bound here.
        self,
        function: JobFunction | None = None,
        /,
        *,
        name: str | None = None,
        lane: str = MAIN_LANE,
        timeout_s: float | None = None,
        queue_timeout_s: float | None = None,
        retries: int = 0,
        backoff: Backoff | None = None,
        recovery: Recovery | str = Recovery.RESUME,
    ) -> Any:
        """Register a function as a job, under its own name unless `name` is given.

        An `async def` runs in the event loop, a plain `def` in a thread of its own. Its first
        parameter is the context; the others are the job's parameters, and their annotations are
        what submissions are checked against. After a failure it is tried again up to `retries`
        times, with `backoff` in between. `recovery="fail"`: when its process dies, the run fails
        instead of going on elsewhere from the last checkpoint.
        """

        def register(function: F) -> F:
            job = job_of(
                function,
                name=name,
                lane=lane,
                timeout_s=timeout_s,
                queue_timeout_s=queue_timeout_s,
                retries=retries,
                backoff=backoff or Backoff(),
                recovery=check_word(Recovery, recovery, place="recovery"),
            )
            if job.name in self._jobs:
                raise InvalidInput("job", f"{job.name!r} is registered twice")
            self._jobs[job.name] = job
            return function

        return register if function is None else register(function)

    def schedule(
        self,
        expression: str,
        *,
        job: str,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        time_zone: str = "UTC",
        missed: Missed | str = Missed.SKIP,
        name: str | None = None,
    ) -> None:
        """Run `job` at each slot of a cron expression; register it before `async with`.

        The schedule is called after its job, and its runs have its name as their key, unless told:
        a slot that comes while an earlier run is active is recorded as `rejected`.
        """
        if self._store is not None:
            raise RuntimeError("register schedules before `async with`")
        schedule_name = job if name is None else name
        registered = self._job(job)
        schedule = Schedule(
            name=schedule_name,
            expression=expression,
            job=job,
            key=Key(schedule_name if key is None else key),
            params=_encoded(registered, params),
            time_zone=time_zone,
            missed=cast("Missed", missed),  # Checked there, with the rest.
            timeout_s=registered.timeout_s,
            queue_timeout_s=registered.queue_timeout_s,
            recovery=registered.recovery,
        )
        if schedule.name in self._schedules:
            raise InvalidInput("name", f"{schedule.name!r} is the name of two schedules")
        if len(self._schedules) >= SCHEDULE_COUNT_MAX:
            raise InvalidInput("name", f"there are {SCHEDULE_COUNT_MAX:,} schedules already")
        self._schedules[schedule.name] = schedule

    def schema(self, job: str) -> dict[str, Any]:
        """A JSON Schema of the job's parameters."""
        return self._job(job).parameters.schema()

    @property
    def store(self) -> SqlStore:
        """What is underneath: every command and every reader."""
        if self._store is None:
            raise RuntimeError("use `async with` on Headway before you start runs")
        return self._store

    @property
    def jobs(self) -> Mapping[str, Job]:
        """What is registered, by name."""
        return self._jobs

    @property
    def lanes(self) -> Lanes:
        """The lanes of this database: see and set their limits."""
        return Lanes(self.store, self.store.runs)

    @property
    def keys(self) -> Keys:
        """What people have saved for the next run of a key."""
        return Keys(self.store, self.store.runs)

    def run(self, run_id: str) -> RunHandle:
        """A handle to a run that was started before, by whomever."""
        return RunHandle(
            RunId(run_id), store=self.store, runs=self.store.runs, events=self.store.events
        )

    async def explain(self, run_id: str) -> Explanation:
        """Why the run does not move, who holds it, and what would free it."""
        return await explain_run(self.store.runs, SystemClock(), RunId(run_id))

    async def submit(
        self,
        job: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        mode: Mode | str = Mode.START,
        lane: str | None = None,
        timeout_s: float | None = None,
        queue_timeout_s: float | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> RunHandle:
        """Accept a run, durably; when this returns, it will not be lost.

        A run without a key is its own key. KeyBusy: the key has an active run, and the policy is
        `reject`. With the same `idempotency_key` the same run is answered, however often it is
        submitted. `lane` and the timeouts are the job's own, unless told.
        """
        registered = self._job(job)
        run_id = self._ids.run_id()
        submission = Submit(
            run_id=run_id,
            key=Key(run_id if key is None else check_name(key, place="key")),
            job=job,
            lane=registered.lane if lane is None else LaneName(lane),
            params=_encoded(registered, params),
            timeout_s=registered.timeout_s if timeout_s is None else timeout_s,
            queue_timeout_s=(
                registered.queue_timeout_s if queue_timeout_s is None else queue_timeout_s
            ),
            recovery=registered.recovery,
            on_conflict=check_word(OnConflict, on_conflict, place="on_conflict"),
            mode=check_word(Mode, mode, place="mode"),
            idempotency_key=idempotency_key,
            by=by,
        )
        return self.run(await admit(self.store, submission))

    async def start(
        self, job: str, *, key: str | None = None, params: dict[str, Any] | None = None, **more: Any
    ) -> RunHandle:
        """`submit` a run that begins afresh."""
        return await self.submit(job, key=key, params=params, mode=Mode.START, **more)

    async def continue_(
        self, job: str, *, key: str, params: dict[str, Any] | None = None, **more: Any
    ) -> RunHandle:
        """`submit` a run that goes on from the last checkpoint of its key."""
        return await self.submit(job, key=key, params=params, mode=Mode.CONTINUE, **more)

    def _job(self, name: str) -> Job:
        if name not in self._jobs:
            known = ", ".join(sorted(self._jobs)) or "none"
            raise InvalidInput("job", f"{name!r} is not registered; registered are: {known}")
        return self._jobs[name]

    async def __aenter__(self) -> Self:
        if self._store is not None:
            raise RuntimeError("this Headway is open already; make another one")
        async with AsyncExitStack() as opened:
            self._store = await open_store(self._urls, durability=self._durability)
            opened.push_async_callback(self._close)
            store, clock = self._store, SystemClock()
            keeper = Keeper(store, store.runs, store.events, clock, self._retention)
            engine = Engine(
                store,
                store.runs,
                self._ids,
                clock,
                self._jobs,
                stop_wait_s=self._stop_wait_s,
                lease_ttl_s=self._lease_ttl_s,
                keep=keeper.prune,
            )
            await opened.enter_async_context(engine)
            schedules = list(self._schedules.values())
            # Left before the engine, so that nothing is fired for an engine that stops.
            await opened.enter_async_context(Timetable(self._store, self._ids, schedules))
            self._opened = opened.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)

    async def _close(self) -> None:
        store, self._store = self.store, None
        await store.close()


def _encoded(job: Job, params: dict[str, Any] | None) -> Document:
    if params is not None and not isinstance(params, dict):
        raise InvalidInput("params", "must be a dict: names and values")
    return job.parameters.encode(params or {})
