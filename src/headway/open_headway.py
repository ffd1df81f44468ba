"""Open and close the objects that exist only inside the `async with` block of a Headway.

`open_headway` opens the database, to read and submit. `run_engine` adds the engine. Each yields a
complete `OpenHeadway`, and closes the objects that it has opened in reverse order.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from pydantic import SecretStr

from headway.bootstrap import (
    Durability,
    MirrorFolder,
    SqlStore,
    SystemClock,
    build_flow_services,
    build_life_lock,
    data_folder,
    open_hint_relay,
    open_store,
    worker_client_factory,
)
from headway.core.duration import check_seconds
from headway.core.errors import InvalidInput
from headway.core.ids import LaneName, RunId
from headway.core.schedule import Schedule
from headway.core.timeouts import Timeouts
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.services.context.child_runs import Children
from headway.services.context.output_files import Output
from headway.services.engine.engine import Engine
from headway.services.engine.hint_relay import HintRelay
from headway.services.flow.functions import Functions
from headway.services.flow.open_flows import OpenFlows, open_flows
from headway.services.submit.job import Job
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.run_watcher import RunWatcher
from headway.services.submit.submitter import Submitter
from headway.services.upkeep.configuration import configure_lanes
from headway.services.upkeep.mirror import Mirror
from headway.services.upkeep.pruner import Pruner, Retention
from headway.services.upkeep.scheduler import open_scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadwayConfig:
    """The configuration of a Headway. Arguments of its constructor override the settings.

    Raise InvalidInput for an invalid argument that the settings do not check.
    """

    urls: Sequence[str]
    durability: Durability
    stop_wait_s: float
    timeouts: Timeouts
    lease_ttl_s: float
    """The lease time of the instance: the value in `timeouts`, unless a test replaces it."""
    lanes: Mapping[LaneName, int]
    """The configured limits of lanes."""
    retention: Retention
    data_dir: str | None
    has_mirror: bool
    redis_url: str | None
    worker_networks: Sequence[str]
    worker_token: SecretStr | None
    clock: Clock | None

    def __post_init__(self) -> None:
        if self.durability not in get_args(Durability):
            choices = ", ".join(get_args(Durability))
            raise InvalidInput("durability", f"must be one of: {choices}")
        check_seconds(self.stop_wait_s, field="stop_wait_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHeadway:
    """All objects that an open Headway uses. No field is set later."""

    store: SqlStore
    clock: Clock
    watcher: RunWatcher
    open_handle: Callable[[RunId], RunHandle]
    submitter: Submitter
    flows: OpenFlows
    output: Output
    engine: Engine | None
    """None if this Headway has no engine. It then executes no runs."""
    hint_relay: HintRelay | None
    """The exchange of hints with other instances. None without an engine or without Redis."""

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Wait for the runs that execute in this process. Return True if they end in time.

        Return True at once if there is no engine.
        """
        return self.engine is None or await self.engine.wait_for_active(timeout_s)


@asynccontextmanager
async def open_headway(
    config: HeadwayConfig, *, ids: IdSource, jobs: dict[str, Job], functions: Functions
) -> AsyncIterator[OpenHeadway]:
    """Open the database of a Headway to read and to submit, without an engine."""
    clock = config.clock or SystemClock()
    now = None if config.clock is None else config.clock.now
    async with AsyncExitStack() as opened:
        store = await open_store(config.urls, durability=config.durability, now=now)
        opened.push_async_callback(store.close)
        make_client = worker_client_factory(config.worker_networks, config.worker_token)
        watcher = RunWatcher(store, store.runs)
        open_handle = partial(
            RunHandle, store=store, runs=store.runs, events=store.events, watcher=watcher
        )
        submitter = Submitter(store, store.runs, ids, jobs, open_handle)
        flow_services = build_flow_services(store, clock, functions, make_client, submitter)
        flows = await opened.enter_async_context(open_flows(flow_services, jobs))
        folder = data_folder(config.urls, config.data_dir)
        yield OpenHeadway(
            store=store,
            clock=clock,
            watcher=watcher,
            open_handle=open_handle,
            submitter=submitter,
            flows=flows,
            output=Output(store, store.runs, store.files, folder),
            engine=None,
            hint_relay=None,
        )


@asynccontextmanager
async def run_engine(
    config: HeadwayConfig,
    headway: OpenHeadway,
    *,
    ids: IdSource,
    jobs: dict[str, Job],
    schedules: Sequence[Schedule],
) -> AsyncIterator[OpenHeadway]:
    """Execute runs and fire schedules inside the block. Yield `headway` with an engine."""
    store = headway.store
    # Apply the configured limits first: they override the limits that jobs propose.
    await configure_lanes(store, config.lanes)
    await headway.submitter.job_lanes.propose_limits(jobs.values())
    async with AsyncExitStack() as opened:
        life_lock = build_life_lock(config.urls, store)
        opened.callback(life_lock.release)
        if config.has_mirror:  # Closed after the engine, to mirror the final states.
            folder = MirrorFolder(data_folder(config.urls, config.data_dir).root)
            mirror = Mirror(store, store.runs, store.events, folder)
            await opened.enter_async_context(mirror.run())
        # Closed after the engine: a lease is released only when its run has ended here.
        hint_relay = await opened.enter_async_context(
            open_hint_relay(config.redis_url, store, lease_ttl_s=config.lease_ttl_s)
        )
        pruner = Pruner(store, store.runs, store.events, store.workers, config.retention)
        engine = Engine(
            store,
            store.runs,
            ids,
            headway.clock,
            jobs,
            make_children=lambda execution: Children(
                execution, headway.submitter, store.runs, headway.watcher
            ),
            stop_wait_s=config.stop_wait_s,
            lease_ttl_s=config.lease_ttl_s,
            life_lock=life_lock,
            prune=pruner.prune,
            discover_jobs=headway.flows.refresh,
            output=headway.output,
            on_start=None if hint_relay is None else hint_relay.note_started,
            timeouts=config.timeouts,
        )
        if hint_relay is not None:
            hint_relay.set_poll_runs(engine.poll_runs)
        # No call below suspends once the engine has started, so Headway is open before a job runs.
        await opened.enter_async_context(engine.run())
        # Closed before the engine, so that no schedule fires while the engine stops.
        await opened.enter_async_context(open_scheduler(store, ids, headway.clock, schedules))
        yield replace(headway, engine=engine, hint_relay=hint_relay)
