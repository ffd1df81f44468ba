"""`/api/lanes`, `/api/keys`, `/api/jobs`, `/api/instances` and `/api/state`: the board and its
controls.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import Actor
from headway.api.http.cursor import Cursor, Limit, build_page, decode_cursor
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
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
from headway.api.wire.flow_bodies import worker_view
from headway.api.wire.path_names import LANE_PATH, NamePath
from headway.api.wire.views import holder_view, key_view, lane_view, to_json_array
from headway.core.batch_state import SavedKey
from headway.core.ids import LaneName
from headway.ports.run_reader import LaneCounts as FoundLane

HELD_RUN_COUNT_MAX: Final = 100


def board_router(face: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _add_state_routes(router, face)
    _add_instance_routes(router, face)
    _add_lane_routes(router, face)
    _add_key_routes(router, face)
    return router


def _add_state_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/state",
        tags=["events"],
        response_class=Response,
        responses={200: {"model": StateView}, **problem_responses()},
    )
    async def state() -> Response:
        """Everything that is going on, as of one instant: subscribe to events after its `seq`."""
        found = await face.store.runs.snapshot()
        found = replace(found, keys=face.keys.mark_secrets(found.keys))
        # Afterwards: who comes in between is told once more by an event, and never left out.
        workers = await face.workers.list()
        views = [
            worker_view(one, is_alive=True, calls=face.workers.calls_of(one.id)) for one in workers
        ]
        return json_response(await encode_state(found, views))

    @router.get(
        "/jobs",
        tags=["jobs"],
        response_class=Response,
        responses={200: {"model": JobList}, **problem_responses()},
    )
    async def jobs() -> Response:
        """The jobs of this server, each with a JSON Schema of its parameters."""
        described = [
            {
                "name": job.name,
                "lane": job.lane,
                "timeout_s": job.timeout_s,
                "queue_timeout_s": job.queue_timeout_s,
                "retries": job.retries,
                "parameters": job.parameters.schema(),
            }
            for job in sorted(face.jobs.values(), key=lambda job: job.name)
        ]
        return json_response(json.dumps({"jobs": described}))


def _add_instance_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/instances",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": InstanceList}, **problem_responses()},
    )
    async def list_instances() -> Response:
        """The programs at work on this database, the oldest first, and which runs each holds."""
        found = sorted(await face.store.runs.instances(), key=lambda one: one.started_at)
        views = []
        for one in found:
            held = await face.store.runs.runs_held_by(one.id, limit=HELD_RUN_COUNT_MAX)
            views.append(holder_view(one, (run.id for run in held)))
        return json_response(f'{{"instances":{to_json_array(views)}}}')


def _add_lane_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/lanes",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": LaneList}, **problem_responses()},
    )
    async def list_lanes() -> Response:
        """Every lane with its limits, and how many runs hold a slot or wait in it."""
        return json_response(
            f'{{"lanes":{to_json_array(map(lane_view, await face.lanes.list()))}}}'
        )

    async def found_lane(name: str) -> FoundLane:
        view = await face.store.board.lane(LaneName(name.strip()))
        if view is None:
            raise Problem(404, "lane_not_found", f"there is no lane {name!r}")
        return view

    @router.get(
        LANE_PATH,
        tags=["lanes"],
        response_class=Response,
        responses={**success_response(LaneResponse, ETAG_HEADER), **problem_responses(404)},
    )
    async def get_lane(name: NamePath) -> Response:
        """One lane; its ETag is the revision that `If-Match` wants."""
        return _lane_response(await found_lane(name))

    _add_lane_control_routes(router, face, found_lane)


def _add_lane_control_routes(
    router: APIRouter, face: HeadwayApi, found_lane: Callable[[str], Awaitable[FoundLane]]
) -> None:
    async def revision(name: str) -> int | None:
        view = await face.store.board.lane(LaneName(name.strip()))
        return None if view is None else view.lane.revision

    @router.patch(
        LANE_PATH,
        tags=["lanes"],
        response_class=Response,
        responses={**success_response(LaneResponse, ETAG_HEADER), **problem_responses(412)},
    )
    async def set_lane(
        name: NamePath, body: LaneBody, by: Actor, if_match: IfMatch = None
    ) -> Response:
        """Change what is given. A lowered limit interrupts nobody: fewer start until it holds."""
        if not body.model_dump(exclude_none=True):
            problem = f"body: say at least one of {', '.join(LaneBody.model_fields)}"
            raise Problem(422, "invalid_input", problem, {"place": "body"})
        expected = await expected_revision(if_match, f"lane {name!r}", lambda: revision(name))
        await face.lanes.set(
            name,
            max_concurrent=body.max_concurrent,
            max_queued=body.max_queued,
            is_paused=body.paused,
            expected_revision=expected,
            by=by,
        )
        return _lane_response(await found_lane(name))

    @router.post(
        "/lanes/{name:name}/clear",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": ClearView}, **problem_responses(404)},
    )
    async def clear_lane(name: NamePath, by: Actor) -> Response:
        """Cancel all runs that wait in the lane and have never started. What is active goes on."""
        await found_lane(name)
        return json_response(f'{{"canceled_count":{await face.lanes.clear(name, by=by)}}}')


def _lane_response(view: FoundLane) -> Response:
    return json_response(lane_view(view), etag=f'"{view.lane.revision}"')


def _add_key_routes(router: APIRouter, face: HeadwayApi) -> None:
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
        """The saved rows, by key.

        A page has less than `limit` when more would be too large; `cursor` leads to the rest.
        """
        (after,) = decode_cursor(cursor, str) or (None,)
        found = face.keys.iterate(after=after, limit=limit + 1)
        texts = (((row.key,), key_view(row)) async for row in found)
        return await build_page("keys", texts, limit=limit)

    async def found_key(key: str) -> SavedKey | None:
        return await face.keys.get(key)

    @router.get(
        "/keys/{key:name}",
        tags=["keys"],
        response_class=Response,
        responses={**success_response(KeyView, ETAG_HEADER), **problem_responses(404)},
    )
    async def get_key(key: NamePath) -> Response:
        """One saved row; its ETag is the revision that `If-Match` wants."""
        row = await found_key(key)
        if row is None:
            raise _key_not_found(key)
        return json_response(key_view(row), etag=f'"{row.revision}"')

    _add_key_control_routes(router, face, found_key)
    _add_stop_key_route(router, face)


def _add_stop_key_route(router: APIRouter, face: HeadwayApi) -> None:
    @router.post(
        "/stop-key",  # Not below /keys/, where every path is the address of a key.
        tags=["keys"],
        status_code=202,
        response_class=Response,
        responses={202: {"model": StopView}, **problem_responses()},
    )
    async def stop_key(body: StopBody, by: Actor) -> Response:
        """Cancel all runs of the key, the queued ones first, so that none of them starts.

        The list is empty when the key has no active run.
        """
        stopped = await face.active.stop(body.key, files=body.files, reason=body.reason, by=by)
        runs = [{"run_id": run.run_id, "answer": run.result.value} for run in stopped]
        return json_response(json.dumps({"runs": runs}), status=202)


def _add_key_control_routes(
    router: APIRouter, face: HeadwayApi, found_key: Callable[[str], Awaitable[SavedKey | None]]
) -> None:
    async def revision(key: str) -> int | None:
        row = await found_key(key)
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
        """Keep what the key's next run is to be. 409 while it has an active run."""
        expected = await expected_revision(if_match, f"key {key!r}", lambda: revision(key))
        saved = await face.keys.save(
            key, job=body.job, params=body.params, expected_revision=expected, by=by
        )
        return json_response(key_view(saved), etag=f'"{saved.revision}"')

    @router.delete(
        "/keys/{key:name}", tags=["keys"], status_code=204, responses=problem_responses(404, 409)
    )
    async def delete_key(key: NamePath, by: Actor) -> Response:
        """Forget what was saved. 409 while the key has an active run."""
        if not await face.keys.delete(key, by=by):
            raise _key_not_found(key)
        return Response(status_code=204)


def _key_not_found(key: str) -> Problem:
    return Problem(404, "key_not_found", f"nothing is saved for key {key!r}")
