"""The services of flows that exist only while Headway is open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import FLOW_LANE
from headway.services.flow.driver import FlowServices
from headway.services.flow.task_view import TaskViewBuilder
from headway.services.flow.worker_watch import WorkerWatch
from headway.services.submit.job import Job
from headway.services.submit.parameters import Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFlows:
    """The services of flows, and the job that drives their tasks."""

    services: FlowServices
    views: TaskViewBuilder
    worker_watch: WorkerWatch
    jobs: dict[str, Job]

    async def refresh(self) -> None:
        """Check for flows and workers of other processes. The engine calls this regularly."""
        if FLOW_JOB not in self.jobs and await self.services.flow_reader.has_flows():
            self.register_job()
        if FLOW_JOB in self.jobs:
            await self.worker_watch.poll()

    def register_job(self) -> None:
        """Register the job of flow tasks, so that the engine of this process executes them."""
        if FLOW_JOB not in self.jobs:
            drive = self.services.drive_task
            self.jobs[FLOW_JOB] = Job(
                name=FLOW_JOB,
                function=drive,
                lane=FLOW_LANE,
                parameters=Parameters(drive, job=FLOW_JOB),
            )


@asynccontextmanager
async def open_flows(services: FlowServices, jobs: dict[str, Job]) -> AsyncIterator[OpenFlows]:
    """Open the services of flows. This process executes tasks as soon as a flow exists."""
    flows = OpenFlows(
        services=services,
        views=TaskViewBuilder(services.flow_reader, services.definitions),
        worker_watch=WorkerWatch(services.store, services.flow_reader, services.workers),
        jobs=jobs,
    )
    try:
        # Sync first: this clock decides whether a worker counts as alive.
        services.clock.sync(await services.run_reader.now())
        if services.functions.names or await services.flow_reader.has_flows():
            flows.register_job()
        yield flows
    finally:
        jobs.pop(FLOW_JOB, None)
        await services.workers.close()
