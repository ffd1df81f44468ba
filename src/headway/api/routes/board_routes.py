"""The board: `/api/state`, `/api/jobs`, `/api/instances`, `/api/lanes` and `/api/keys`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.cursor import Cursor, Limit, build_page, decode_cursor
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
from headway.api.http.request import Actor
from headway.api.http.responses import (
    ETAG_HEADER,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.routes.snapshot import StateView, encode_state
from headway.api.wire.api_models import (
    ClearView,
    InstanceList,
    JobList,
    KeyBody,
    KeyPage,
    KeyView,
    LaneBody,
    LaneList,
    LaneResponse,
    StopBody,
    StopView,
)
from headway.api.wire.flow_views import worker_view
from headway.api.wire.path_names import LANE_PATH, NamePath
from headway.api.wire.views import (
    encode_clear,
    encode_instance_list,
    encode_job,
    encode_job_list,
    encode_lane_list,
    encode_stop,
    encode_stopped_run,
    holder_view,
    key_view,
    lane_view,
)
from headway.core.errors import InvalidInput
from headway.core.ids import LaneName
from headway.ports.run_reader import LaneCounts

HELD_RUN_COUNT_MAX: Final = 100


def board_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _add_state_routes(router, api)
    _add_instance_routes(router, api)
    _add_lane_routes(router, api)
    _add_key_routes(router, api)
    return router


def _add_state_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/state",
        tags=["events"],
        response_class=Response,
        responses={200: {"model": StateView}, **problem_responses()},
    )
    async def state() -> Response:
        """Return the whole current state as of one instant. Follow the events after its `seq`."""
        snapshot = await api.store.runs.snapshot()
        snapshot = replace(snapshot, keys=api.keys.mark_secrets(snapshot.keys))
        # Read after the snapshot: an event reports a worker that registers in between, so that
        # clients never miss it.
        workers = await api.workers.list()
        views = [
            worker_view(worker, is_alive=True, calls=api.workers.calls_of(worker.id))
            for worker in workers
        ]
        return json_response(await encode_state(snapshot, views))

    @router.get(
        "/jobs",
        tags=["jobs"],
        response_class=Response,
        responses={200: {"model": JobList}, **problem_responses()},
    )
    async def jobs() -> Response:
        """List the jobs of this server, each with a JSON Schema of its parameters."""
        views = [
            encode_job(
                name=job.name,
                lane=job.lane,
                timeout_s=job.timeout_s,
                queue_timeout_s=job.queue_timeout_s,
                retries=job.retries,
                parameters=job.parameters.schema(),
            )
            for job in sorted(api.jobs.values(), key=lambda job: job.name)
        ]
        return json_response(encode_job_list(jobs=views))


def _add_instance_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/instances",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": InstanceList}, **problem_responses()},
    )
    async def list_instances() -> Response:
        """List the instances on this database, the oldest first, each with the runs it holds."""
        instances = await api.store.runs.instances()
        views = []
        for instance in sorted(instances, key=lambda instance: instance.started_at):
            runs = await api.store.runs.held_runs(instance.id, limit=HELD_RUN_COUNT_MAX)
            views.append(holder_view(instance, (run.id for run in runs)))
        return json_response(encode_instance_list(instances=views))


def _add_lane_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/lanes",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": LaneList}, **problem_responses()},
    )
    async def list_lanes() -> Response:
        """List the lanes, each with its limits and its numbers of held slots and queued runs."""
        lanes = [lane_view(lane) for lane in await api.lanes.list()]
        return json_response(encode_lane_list(lanes=lanes))

    async def read_lane(name: str) -> LaneCounts:
        lane = await api.store.board.lane(LaneName(name.strip()))
        if lane is None:
            raise Problem(404, "lane_not_found", f"there is no lane {name!r}")
        return lane

    @router.get(
        LANE_PATH,
        tags=["lanes"],
        response_class=Response,
        responses={**success_response(LaneResponse, ETAG_HEADER), **problem_responses(404)},
    )
    async def get_lane(name: NamePath) -> Response:
        """Return a lane. Its `ETag` is the revision for `If-Match`."""
        return _lane_response(await read_lane(name))

    _add_lane_control_routes(router, api, read_lane)


def _add_lane_control_routes(
    router: APIRouter, api: HeadwayApi, read_lane: Callable[[str], Awaitable[LaneCounts]]
) -> None:
    async def read_revision(name: str) -> int | None:
        lane = await api.store.board.lane(LaneName(name.strip()))
        return None if lane is None else lane.lane.revision

    @router.patch(
        LANE_PATH,
        tags=["lanes"],
        response_class=Response,
        responses={**success_response(LaneResponse, ETAG_HEADER), **problem_responses(412)},
    )
    async def set_lane(
        name: NamePath, body: LaneBody, by: Actor, if_match: IfMatch = None
    ) -> Response:
        """Change the given limits of a lane.

        A lowered limit stops no run. No new run starts until fewer runs than the limit hold a slot.
        """
        if not body.model_dump(exclude_none=True):
            problem = f"must have at least one of: {', '.join(LaneBody.model_fields)}"
            raise InvalidInput("body", problem)
        expected = await expected_revision(if_match, f"lane {name!r}", lambda: read_revision(name))
        await api.lanes.set(
            name,
            max_concurrent=body.max_concurrent,
            max_queued=body.max_queued,
            is_paused=body.paused,
            expected_revision=expected,
            by=by,
        )
        return _lane_response(await read_lane(name))

    @router.post(
        "/lanes/{name:name}/clear",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": ClearView}, **problem_responses(404)},
    )
    async def clear_lane(name: NamePath, by: Actor) -> Response:
        """Cancel all runs of the lane that have never started. Running ones continue."""
        await read_lane(name)
        canceled_count = await api.lanes.clear(name, by=by)
        return json_response(encode_clear(canceled_count=canceled_count))


def _lane_response(lane: LaneCounts) -> Response:
    return json_response(lane_view(lane), etag=f'"{lane.lane.revision}"')


def _add_key_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/keys",
        tags=["keys"],
        response_class=Response,
        responses={200: {"model": KeyPage}, **problem_responses()},
    )
    async def list_keys(
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """List the saved keys, ordered by key.

        A page has fewer than `limit` items if it would be too large. `cursor` leads to the rest.
        """
        (after,) = decode_cursor(cursor, str) or (None,)
        rows = api.keys.iterate(after=after, limit=limit + 1)
        items = (((row.key,), key_view(row)) async for row in rows)
        return await build_page(KeyPage, items, limit=limit)

    @router.get(
        "/keys/{key:name}",
        tags=["keys"],
        response_class=Response,
        responses={**success_response(KeyView, ETAG_HEADER), **problem_responses(404)},
    )
    async def get_key(key: NamePath) -> Response:
        """Return a saved key. Its `ETag` is the revision for `If-Match`."""
        row = await api.keys.get(key)
        if row is None:
            raise _key_not_found(key)
        return json_response(key_view(row), etag=f'"{row.revision}"')

    _add_key_control_routes(router, api)
    _add_stop_key_route(router, api)


def _add_stop_key_route(router: APIRouter, api: HeadwayApi) -> None:
    @router.post(
        "/stop-key",  # Not below /keys/, where every path is a key.
        tags=["keys"],
        status_code=202,
        response_class=Response,
        responses={202: {"model": StopView}, **problem_responses()},
    )
    async def stop_key(body: StopBody, by: Actor) -> Response:
        """Cancel all runs of the key, the queued ones first, so that none of them starts.

        The list is empty if the key has no active run.
        """
        stopped = await api.active.stop(body.key, files=body.files, reason=body.reason, by=by)
        runs = [encode_stopped_run(run_id=run.run_id, answer=run.result) for run in stopped]
        return json_response(encode_stop(runs=runs), status=202)


def _add_key_control_routes(router: APIRouter, api: HeadwayApi) -> None:
    async def read_revision(key: str) -> int | None:
        row = await api.keys.get(key)
        return None if row is None else row.revision

    @router.put(
        "/keys/{key:name}",
        tags=["keys"],
        response_class=Response,
        responses={**success_response(KeyView, ETAG_HEADER), **problem_responses(409, 412)},
    )
    async def save_key(
        key: NamePath, body: KeyBody, by: Actor, if_match: IfMatch = None
    ) -> Response:
        """Save the job and the parameters for the next run of a key.

        The response is 409 if the key has an active run.
        """
        expected = await expected_revision(if_match, f"key {key!r}", lambda: read_revision(key))
        saved = await api.keys.save(
            key, job=body.job, params=body.params, expected_revision=expected, by=by
        )
        return json_response(key_view(saved), etag=f'"{saved.revision}"')

    @router.delete(
        "/keys/{key:name}", tags=["keys"], status_code=204, responses=problem_responses(404, 409)
    )
    async def delete_key(key: NamePath, by: Actor) -> Response:
        """Delete a saved key. The response is 409 if the key has an active run."""
        if not await api.keys.delete(key, by=by):
            raise _key_not_found(key)
        return Response(status_code=204)


def _key_not_found(key: str) -> Problem:
    return Problem(404, "key_not_found", f"there is no saved key {key!r}")
