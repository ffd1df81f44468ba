"""`/metrics`, for Prometheus. Keys and runs are not labels: their number is unlimited.

Counters of runs count the events of the whole database since this server started. Every server on
the database counts all events: use the maximum over the servers, not the sum. Requests, open
streams, lost leases, conflicts and process metrics count for each server separately.
"""

import json
from collections import OrderedDict
from typing import Final

from fastapi import APIRouter, Response
from fastapi.routing import APIRoute
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from starlette.types import Scope

from headway.api.headway_api import HeadwayApi
from headway.api.http.responses import problem_responses
from headway.core.ids import SECOND_US, Instant, LaneName, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LANE_COUNT_MAX: Final = 200
OTHER_LABEL: Final = "(other)"
"""Label of requests without a route, and of lanes beyond `LANE_COUNT_MAX`."""
TIMED_RUN_COUNT_MAX: Final = 20_000
BUCKETS_S: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200, 28_800, 86_400)
RESPONSE_BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 20)
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
PATH_TEMPLATE_KEY: Final = "headway.template"
"""Key in the ASGI scope for the path template of a request that bypasses the router."""


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._lanes: set[str] = set()
        # The times when runs were accepted and started. At the limit, the oldest are dropped.
        self._queued_at: OrderedDict[RunId, Instant] = OrderedDict()
        self._started_at: OrderedDict[RunId, Instant] = OrderedDict()
        self._runs = self._counter("headway_runs", "Runs that have ended", "lane", "outcome")
        self._retries = self._counter(
            "headway_run_retries", "Failed attempts that were retried", "lane"
        )
        self._takeovers = self._counter(
            "headway_runs_taken_over", "Runs whose executor was lost", "lane"
        )
        self._unread_messages = self._counter(
            "headway_messages_unread", "Messages that runs had not read when they ended", "lane"
        )
        self._requests = self._counter("headway_http_requests", "Requests answered", "status")
        self._response_times = Histogram(
            "headway_http_request_duration_seconds",
            "From the headers of a request to the start of its response",
            ["method", "path"],
            registry=self.registry,
            buckets=RESPONSE_BUCKETS_S,
        )
        self._conflicts = self._counter(
            "headway_cas_conflicts",
            "Writes decided again because other writers changed the same rows",
        )
        self._lost_leases = self._counter(
            "headway_lease_lost", "Leases of this server that were lost"
        )
        self._last_totals: dict[Counter, int] = {}
        self._waits = self._histogram("headway_queue_wait_seconds", "From accepted to started")
        self._durations = self._histogram("headway_run_duration_seconds", "From started to ended")
        self._running = self._gauge("headway_lane_running", "Slots that runs hold", "lane")
        self._capacity = self._gauge("headway_lane_capacity", "Slots of the lane", "lane")
        self._queued = self._gauge("headway_lane_queued", "Runs that wait to start", "lane")
        self._waiting = self._gauge(
            "headway_lane_waiting", "Running runs that wait without a slot", "lane"
        )
        self._interrupts = self._gauge("headway_interrupts", "Open interrupts")
        self._instances = self._gauge("headway_instances", "Instances on this database")
        self._last_seq = self._gauge("headway_events_seq", "The number of the last event")
        self._streams = self._gauge("headway_event_streams", "Event streams that are open")

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(name, description, labels, registry=self.registry)

    def _gauge(self, name: str, description: str, *labels: str) -> Gauge:
        return Gauge(name, description, labels, registry=self.registry)

    def _histogram(self, name: str, description: str) -> Histogram:
        return Histogram(name, description, ["lane"], registry=self.registry, buckets=BUCKETS_S)

    def lane_label(self, name: LaneName | None) -> str:
        """Return the label of a lane: its name, or OTHER_LABEL beyond `LANE_COUNT_MAX` lanes."""
        if name in self._lanes or (name and len(self._lanes) < LANE_COUNT_MAX):
            self._lanes.add(name)
            return name
        return OTHER_LABEL

    def record_response(self, scope: Scope, status: int, took_s: float) -> None:
        self._requests.labels(str(status)).inc()
        method = scope["method"] if scope["method"] in METHODS else OTHER_LABEL
        self._response_times.labels(method, _path_template(scope)).observe(took_s)

    def add_open_streams(self, difference: int) -> None:
        self._streams.inc(difference)

    def record_event(self, event: Event) -> None:
        """Count an event. The event feed calls this method once per event, in order."""
        if event.run_id is None:
            return
        if event.type == EventType.STATE_CHANGED:
            to = RunStatus(json.loads(event.payload)["to"])
            self._record_transition(event, event.run_id, to)
        elif event.type == EventType.RETRIED:
            self._retries.labels(self.lane_label(event.lane)).inc()
        elif event.type == EventType.TAKEN_OVER:
            self._takeovers.labels(self.lane_label(event.lane)).inc()
        elif event.type == EventType.MESSAGES_UNREAD:
            self._unread_messages.labels(self.lane_label(event.lane)).inc(
                json.loads(event.payload)["count"]
            )

    def _record_transition(self, event: Event, run_id: RunId, to: RunStatus) -> None:
        lane = self.lane_label(event.lane)
        if to is RunStatus.QUEUED:
            _remember(self._queued_at, run_id, event.at)
        elif to is RunStatus.RUNNING:
            if (queued_at := self._queued_at.pop(run_id, None)) is not None:
                self._waits.labels(lane).observe((event.at - queued_at) / SECOND_US)
            _remember(self._started_at, run_id, event.at)
        elif to in TERMINAL:
            self._queued_at.pop(run_id, None)
            self._runs.labels(lane, to.value).inc()
            if (started_at := self._started_at.pop(run_id, None)) is not None:
                self._durations.labels(lane).observe((event.at - started_at) / SECOND_US)

    async def render(self, api: HeadwayApi) -> bytes:
        snapshot = await api.store.board.metrics()
        for gauge in (self._running, self._capacity, self._queued, self._waiting):
            gauge.clear()  # Lanes may share a label, so each lane adds its value.
        for view in snapshot.lanes:
            lane = self.lane_label(view.lane.name)
            self._running.labels(lane).inc(view.held_count)
            self._capacity.labels(lane).inc(view.lane.capacity)
            self._queued.labels(lane).inc(view.queued_count)
            self._waiting.labels(lane).inc(view.waiting_count)
        self._interrupts.set(snapshot.interrupt_count)
        self._instances.set(snapshot.instance_count)
        self._last_seq.set(snapshot.last_seq)
        self._raise_to(self._conflicts, api.store.conflict_count)
        self._raise_to(self._lost_leases, api.store.lost_lease_count)
        return generate_latest(self.registry)

    def _raise_to(self, counter: Counter, total: int) -> None:
        """Increase a counter to a total that is counted elsewhere."""
        counter.inc(total - self._last_totals.get(counter, 0))
        self._last_totals[counter] = total


def _path_template(scope: Scope) -> str:
    """Return the path template of a request, without the values of its parameters."""
    route = scope.get("route")
    if isinstance(route, APIRoute):
        return route.path_format
    template: str = scope.get(PATH_TEMPLATE_KEY, OTHER_LABEL)
    return template


def _remember(instants: OrderedDict[RunId, Instant], run_id: RunId, at: Instant) -> None:
    instants[run_id] = at
    if len(instants) > TIMED_RUN_COUNT_MAX:
        instants.popitem(last=False)


def metrics_router(api: HeadwayApi, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
            **problem_responses(),
        },
    )
    async def show_metrics() -> Response:
        """Return the metrics in the Prometheus text format."""
        return Response(await metrics.render(api), media_type=CONTENT_TYPE)

    return router
