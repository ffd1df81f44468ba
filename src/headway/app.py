"""The entry point of the library: register jobs, start runs, wait for their results."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from headway.bootstrap import (
    Durability,
    SqlStore,
    SystemIds,
    call_on_hangup,
    check_database,
    wait_for_stop_signal,
)
from headway.core.duration import UNSET, TimeLimit
from headway.core.errors import InvalidInput, RunNotFound
from headway.core.ids import LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.explain import Explanation, explain
from headway.core.run.run import OnExistingOutput, Recovery, RunMode
from headway.core.schedule import MissedPolicy, Schedule
from headway.core.timeouts import Timeouts
from headway.open_headway import HeadwayConfig, OpenHeadway, open_headway, run_engine
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.services.engine.hint_relay import HintRelay
from headway.services.flow.flows import Flows
from headway.services.flow.workers import Workers
from headway.services.submit.active_runs import ActiveRuns
from headway.services.submit.job import (
    Backoff,
    Job,
    JobFunction,
    build_job,
    find_job,
    is_internal_job,
)
from headway.services.submit.lane_control import LaneSettings
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.saved_keys import Keys
from headway.services.upkeep.configuration import ReloadResult, configure_lanes, reload_on_signal
from headway.services.upkeep.examination import Examination, run_doctor
from headway.services.upkeep.pruner import Retention
from headway.services.upkeep.scheduler import add_schedule, find_schedule
from headway.settings import Settings, check_lane_limits, load_settings

F = TypeVar("F", bound=JobFunction)


class Headway:
    """Runs jobs, one at a time per key. Jobs are executed inside its `async with` block.

    `urls` are the addresses of the database. The default is the configured database
    (`HEADWAY_DATABASE_URL` or `headway.toml`), or else `headway.db` in the current folder.

    When the block ends, no more runs start. Runs that are still executing have `stop_wait_s` to
    end, or no time if the block ends with an error. A run that does not end in time is handed over
    to another instance, which may start later.

    `retention` limits how long ended runs and their events are stored; the default is 30 days.
    `data` is the folder for the files of runs; the default is `data` next to the SQLite file or in
    the current folder. `mirror` also writes each run's state there, to `runs/<run id>.json`. With
    `redis_url`, other instances are notified of changes at once instead of finding them by polling.
    `clock` replaces the database's clock in tests (`headway.testing`).

    The time limits default to the settings of the same names. `lane_limits` replaces the setting
    `lanes`: it maps the name of a lane to the number of runs that may run at once.
    """

    def __init__(
        self,
        *urls: str,
        durability: Durability | None = None,
        stop_wait_s: float = 10.0,
        execution_timeout_s: float | None = None,
        permission_timeout_s: float | None = None,
        lease_ttl_s: float | None = None,
        compaction_timeout_s: float | None = None,
        sse_ping_interval_s: float | None = None,
        lane_limits: Mapping[str, int] | None = None,
        retention: Retention | None = None,
        data: str | Path | None = None,
        mirror: bool | None = None,
        redis_url: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = self._settings = load_settings()
        timeouts = settings.merge_timeouts(
            execution_timeout_s=execution_timeout_s,
            permission_timeout_s=permission_timeout_s,
            lease_ttl_s=lease_ttl_s,
            compaction_timeout_s=compaction_timeout_s,
            sse_ping_interval_s=sse_ping_interval_s,
        )
        self._lane_limits = None if lane_limits is None else check_lane_limits(lane_limits)
        self._config = HeadwayConfig(
            urls=urls or settings.urls,
            durability=settings.durability if durability is None else durability,
            stop_wait_s=stop_wait_s,
            timeouts=timeouts,
            lease_ttl_s=timeouts.lease_ttl_s,
            lanes=self._configured_lanes(settings),
            retention=retention or Retention(),
            data_dir=settings.data if data is None else str(data),
            has_mirror=settings.mirror if mirror is None else mirror,
            redis_url=settings.redis_url if redis_url is None else redis_url,
            worker_networks=settings.worker_networks,
            worker_token=settings.worker_token,
            clock=clock,
        )
        self._ids = SystemIds()
        self._jobs: dict[str, Job] = {}
        self._schedules: dict[str, Schedule] = {}
        self._open: OpenHeadway | None = None
        self._is_in_use = False
        """True from when this Headway begins to open until it is completely closed."""
        self.flows = Flows(self._ids, lambda: self._opened.flows)
        """The flows: publish definitions, start tasks, and control the tasks."""

    @property
    def _opened(self) -> OpenHeadway:
        if self._open is None:
            raise RuntimeError("use `async with` on Headway before you start runs")
        return self._open

    @overload
    def job(self, function: F, /) -> F: ...

    @overload
    def job(
        self,
        *,
        name: str | None = None,
        lane: str | None = None,
        concurrency: int | None = None,
        timeout_s: TimeLimit = UNSET,
        queue_timeout_s: float | None = None,
        retries: int = 0,
        backoff: Backoff | None = None,
        recovery: Recovery | str = Recovery.RESUME,
    ) -> Callable[[F], F]: ...

    def job(  # type: ignore[misc]  # F occurs only in the return type and cannot be bound here.
        self, function: JobFunction | None = None, /, **options: Any
    ) -> Any:
        """Register a function as a job, under its own name unless `name` is given.

        An `async def` runs in the event loop, a plain `def` in its own thread. The function's first
        parameter is the context; the others are the job's parameters. Submissions are validated
        against the annotations of these parameters. A failed run is retried up to `retries` times;
        `backoff` sets the delay before each retry. With `recovery="fail"` the run fails if its
        process is lost, instead of continuing in another process from the last checkpoint.

        `timeout_s` limits how long a run may take. The default is the setting
        `execution_timeout_s` (1,800 s); None means no limit.

        `concurrency` limits how many runs of this job may run at once, over all processes. The job
        then has its own lane, `job:<name>`. A limit that a person sets for that lane overrides
        `concurrency`.
        """

        def register(function: F) -> F:
            default_s = self.timeouts.execution_timeout_s
            job = build_job(function, default_timeout_s=default_s, **options)
            if job.name in self._jobs:
                raise InvalidInput("job", f"{job.name!r} is registered twice")
            self._jobs[job.name] = job
            return function

        return register if function is None else register(function)

    def schedule(
        self,
        expression: str,
        *,
        job: str | JobFunction,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        time_zone: str = "UTC",
        missed: MissedPolicy | str = MissedPolicy.SKIP,
        name: str | None = None,
    ) -> None:
        """Run `job` at each fire time of a cron expression. Call this before `async with`.

        `name` is the name of the schedule; the default is the name of the job. `key` is the key of
        the schedule's runs; the default is `name`. If an earlier run of the key is active at a fire
        time, the new run is recorded as `rejected`.
        """
        if self._is_in_use:
            raise RuntimeError("register schedules before `async with`")
        add_schedule(
            self._schedules,
            find_job(self._jobs, job),
            expression,
            name=name,
            key=key,
            params=params,
            time_zone=time_zone,
            missed=missed,
        )

    def schema(self, job: str | JobFunction) -> dict[str, Any]:
        """Return a JSON Schema of the job's parameters."""
        return find_job(self._jobs, job).parameters.schema()

    @property
    def retention(self) -> Retention:
        """How long ended runs and other old rows are stored."""
        return self._config.retention

    @property
    def timeouts(self) -> Timeouts:
        """The time limits of this process, from its arguments or its settings."""
        return self._config.timeouts

    @property
    def store(self) -> SqlStore:
        """The store and its readers. Raise RuntimeError outside `async with`."""
        return self._opened.store

    @property
    def hint_relay(self) -> HintRelay | None:
        """The exchange of hints with other instances.

        None unless this Headway is open, has an engine and uses Redis.
        """
        return None if self._open is None else self._open.hint_relay

    @property
    def urls(self) -> Sequence[str]:
        """The addresses of the database. They may contain a password."""
        return self._config.urls

    @property
    def ids(self) -> IdSource:
        """The source of new unique ids."""
        return self._ids

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The registered jobs by name, without headway's internal ones."""
        return {name: job for name, job in self._jobs.items() if not is_internal_job(name)}

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The registered schedules by name."""
        return self._schedules

    @property
    def lanes(self) -> LaneSettings:
        """The lanes of this database: list them, set their limits, clear their queues."""
        return LaneSettings(self.store, self.store.runs, self._opened.wait_for_active)

    @property
    def active(self) -> ActiveRuns:
        """The active runs by key, on any instance: message them, stop them, wait for their end."""
        return ActiveRuns(self.store, self.store.runs, self.store.events, self._opened.watcher)

    @property
    def workers(self) -> Workers:
        """The registry of the workers that execute services for flows."""
        return self._opened.flows.services.workers

    @property
    def keys(self) -> Keys:
        """The saved keys: the job and the parameters of the next run of each key."""
        return Keys(self.store, self.store.runs, self._jobs)

    def run(self, run_id: str) -> RunHandle:
        """Return a handle to an existing run, even if another process has started the run."""
        return self._opened.open_handle(RunId(run_id))

    async def explain(self, run_id: str) -> Explanation:
        """Explain why a run is in its state, which run or instance is responsible, and what to do.

        Raise RunNotFound if there is no such run, or it was pruned.
        """
        reader = self.store.runs
        situation = await reader.situation(RunId(run_id))
        if situation is None:
            raise RunNotFound(RunId(run_id))
        explanation = explain(situation, await reader.now())
        return await self.flows.refine_explanation(situation.run, explanation)

    async def doctor(self) -> Examination:
        """Check all invariants of the database, which may be in use. Nothing is changed."""
        return await run_doctor(self.store.doctor, self._opened.clock)

    async def wait_for_signal(self) -> str:
        """Wait for Ctrl-C or SIGTERM, and return the signal's name.

        The caller should then leave `async with`. Call this in the main thread only. A second
        signal has its default effect. SIGHUP reloads the configuration.
        """
        _ = self._opened  # Raises outside `async with`.
        async with self.reload_on_hangup():
            name = (await wait_for_stop_signal()).name
            self.note_stop()
            return name

    def note_stop(self) -> None:
        """Record that the program is stopping. Call this if it leaves `async with` only later.

        A run that is executing, is not waiting, and has stored nothing new may have caused the
        stop. The stop therefore counts against that run.
        """
        if self._open is not None and self._open.engine is not None:
            self._open.engine.note_stop()

    async def reload(self) -> ReloadResult:
        """Read the configuration again, and apply the settings that need no restart.

        The limits of lanes are applied at once. A limit that a person has set stays until the
        configured limit changes. Other settings that have changed since the start are only listed
        in the result. Raise ConfigurationError if the configuration is invalid; nothing is changed
        then.
        """
        store, before, settings = self.store, self._settings, load_settings()
        lanes = await configure_lanes(store, self._configured_lanes(settings))
        others = (name for name in Settings.model_fields if name != "lanes")
        changed = [name for name in others if getattr(settings, name) != getattr(before, name)]
        return ReloadResult(lanes, tuple(changed))

    def reload_on_hangup(self) -> AbstractAsyncContextManager[None]:
        """Reload the configuration on each SIGHUP until the `async with` block ends.

        Call this in the main thread only. The outcome of each reload is logged.
        """
        return reload_on_signal(call_on_hangup, self.reload)

    def _configured_lanes(self, settings: Settings) -> Mapping[LaneName, int]:
        return settings.lanes if self._lane_limits is None else self._lane_limits

    async def submit(
        self,
        job: str | JobFunction,
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
    ) -> RunHandle:
        """Submit a run. The run is stored durably when this returns.

        `job` is the name of a registered job, or its function. Without `key`, the run's id is also
        its key. Without `params`, the run has the parameters that were saved for its key and job,
        or else the job's defaults. Lane and timeouts default to those of the job; `timeout_s=None`
        means no limit. Submissions with the same `idempotency_key` return the same run.

        Raise KeyBusy if the key has an active run and `on_conflict` is `reject`. Raise
        RevisionConflict if the saved parameters changed during the submission. Raise OutputExists
        if the key has files of earlier runs and `on_existing_output` is not set; it can be
        `replace`, `archive` or `delete`.
        """
        return await self._opened.submitter.submit_run(
            job,
            key=key,
            params=params,
            mode=mode,
            lane=lane,
            timeout_s=timeout_s,
            queue_timeout_s=queue_timeout_s,
            on_conflict=on_conflict,
            on_existing_output=on_existing_output,
            idempotency_key=idempotency_key,
            by=by,
        )

    async def start_schedule(
        self, name: str, *, idempotency_key: str | None = None, by: str = ""
    ) -> RunHandle:
        """Start a run of a registered schedule now. The next fire time does not change."""
        return await self._opened.submitter.submit_schedule(
            find_schedule(self._schedules, name), idempotency_key=idempotency_key, by=by
        )

    async def start(
        self,
        job: str | JobFunction,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        **more: Any,
    ) -> RunHandle:
        """Submit a run that starts from the beginning."""
        return await self.submit(job, key=key, params=params, mode=RunMode.START, **more)

    async def continue_(
        self,
        job: str | JobFunction,
        *,
        key: str,
        params: dict[str, Any] | None = None,
        **more: Any,
    ) -> RunHandle:
        """Submit a run that continues from the last checkpoint of its key."""
        return await self.submit(job, key=key, params=params, mode=RunMode.CONTINUE, **more)

    def without_engine(self) -> AbstractAsyncContextManager[Self]:
        """Open the database without an engine: read and submit, but execute nothing here.

        Raise SchemaMismatch if the database does not have the current schema. Neither a database
        nor its schema is created.
        """
        return self._keep_open(self._open_existing())

    async def __aenter__(self) -> Self:
        kept_open = self._keep_open(self._open_with_engine())
        await kept_open.__aenter__()
        self._kept_open = kept_open
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.note_stop()
        await self._kept_open.__aexit__(kind, error, traceback)

    @asynccontextmanager
    async def _keep_open(
        self, opening: AbstractAsyncContextManager[OpenHeadway]
    ) -> AsyncIterator[Self]:
        """Keep this Headway open until `opening` is closed, because ending jobs still use it."""
        if self._is_in_use:
            raise RuntimeError("this Headway is already open; create another one")
        self._is_in_use = True
        try:
            async with opening as self._open:
                yield self
        finally:
            self._open, self._is_in_use = None, False

    @asynccontextmanager
    async def _open_existing(self) -> AsyncIterator[OpenHeadway]:
        await check_database(self.urls)
        async with self._open_database() as database:
            yield database

    @asynccontextmanager
    async def _open_with_engine(self) -> AsyncIterator[OpenHeadway]:
        schedules = list(self._schedules.values())
        async with (
            self._open_database() as database,
            run_engine(
                self._config, database, ids=self._ids, jobs=self._jobs, schedules=schedules
            ) as running,
        ):
            yield running

    def _open_database(self) -> AbstractAsyncContextManager[OpenHeadway]:
        return open_headway(
            self._config, ids=self._ids, jobs=self._jobs, functions=self.flows.functions
        )
