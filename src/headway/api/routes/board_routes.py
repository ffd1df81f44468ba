"""`/api/lanes`, `/api/keys`, `/api/jobs`, `/api/instances` and `/api/state`: the board and its
controls.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from fastapi import APIRouter, Response

from headway.api.headway_api import Face
from headway.api.http.caller import By
from headway.api.http.cursor import Cursor, Limit, page_that_fits, read_cursor
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
from headway.api.http.responses import ETAG, answered, json_answer, problems
from headway.api.http.strict import StrictRoute
from headway.api.routes.snapshot import StateView, state_text
from headway.api.wire.api_models import (
    ClearView,
    InstanceList,
    JobList,
    KeyBody,
    KeyPage,
    KeyView,
    LaneBody,
    LaneList,
    LaneView,
    StopBody,
    StopView,
)
from headway.api.wire.flow_bodies import worker_view
from headway.api.wire.path_names import LANE, NamePath
from headway.api.wire.views import holder_view, key_view, lane_view, listed
from headway.core.batch_state import SavedKey
from headway.core.ids import LaneName
from headway.ports.run_reader import LaneView as FoundLane

HELD_COUNT_MAX: Final = 100


def board_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _state(router, face)
    _instances(router, face)
    _lanes(router, face)
    _keys(router, face)
    return router


def _state(router: APIRouter, face: Face) -> None:
    @router.get(
        "/state",
        tags=["events"],
        response_class=Response,
        responses={200: {"model": StateView}, **problems()},
    )
    async def state() -> Response:
        """Everything that is going on, as of one instant: subscribe to events after its `seq`."""
        found = await face.store.runs.snapshot()
        found = replace(found, keys=face.keys.marked(found.keys))
        # Afterwards: who comes in between is told once more by an event, and never left out.
        workers = await face.workers.list()
        views = [
            worker_view(one, is_alive=True, calls=face.workers.calls_of(one.id)) for one in workers
        ]
        return json_answer(await state_text(found, views))

    @router.get(
        "/jobs",
        tags=["jobs"],
        response_class=Response,
        responses={200: {"model": JobList}, **problems()},
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
        return json_answer(json.dumps({"jobs": described}))


def _instances(router: APIRouter, face: Face) -> None:
    @router.get(
        "/instances",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": InstanceList}, **problems()},
    )
    async def list_instances() -> Response:
        """The programs at work on this database, the oldest first, and which runs each holds."""
        found = sorted(await face.store.runs.instances(), key=lambda one: one.started_at)
        views = []
        for one in found:
            held = await face.store.runs.runs_held_by(one.id, limit=HELD_COUNT_MAX)
            views.append(holder_view(one, (run.id for run in held)))
        return json_answer(f'{{"instances":{listed(views)}}}')


def _lanes(router: APIRouter, face: Face) -> None:
    @router.get(
        "/lanes",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": LaneList}, **problems()},
    )
    async def list_lanes() -> Response:
        """Every lane with its limits, and how many runs hold a slot or wait in it."""
        return json_answer(f'{{"lanes":{listed(map(lane_view, await face.lanes.list()))}}}')

    async def found_lane(name: str) -> FoundLane:
        view = await face.store.board.lane(LaneName(name.strip()))
        if view is None:
            raise Problem(404, "lane_not_found", f"there is no lane {name!r}")
        return view

    @router.get(
        LANE,
        tags=["lanes"],
        response_class=Response,
        responses={**answered(LaneView, ETAG), **problems(404)},
    )
    async def get_lane(name: NamePath) -> Response:
        """One lane; its ETag is the revision that `If-Match` wants."""
        return _lane_answer(await found_lane(name))

    _control_lanes(router, face, found_lane)


def _control_lanes(
    router: APIRouter, face: Face, found_lane: Callable[[str], Awaitable[FoundLane]]
) -> None:
    async def revision(name: str) -> int | None:
        view = await face.store.board.lane(LaneName(name.strip()))
        return None if view is None else view.lane.revision

    @router.patch(
        LANE,
        tags=["lanes"],
        response_class=Response,
        responses={**answered(LaneView, ETAG), **problems(412)},
    )
    async def set_lane(
        name: NamePath, body: LaneBody, by: By, if_match: IfMatch = None
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
        return _lane_answer(await found_lane(name))

    @router.post(
        "/lanes/{name:name}/clear",
        tags=["lanes"],
        response_class=Response,
        responses={200: {"model": ClearView}, **problems(404)},
    )
    async def clear_lane(name: NamePath, by: By) -> Response:
        """Cancel all runs that wait in the lane and have never started. What is active goes on."""
        await found_lane(name)
        return json_answer(f'{{"canceled_count":{await face.lanes.clear(name, by=by)}}}')


def _lane_answer(view: FoundLane) -> Response:
    return json_answer(lane_view(view), etag=f'"{view.lane.revision}"')


def _keys(router: APIRouter, face: Face) -> None:
    @router.get(
        "/keys",
        tags=["keys"],
        response_class=Response,
        responses={200: {"model": KeyPage}, **problems()},
    )
    async def list_keys(
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """The saved rows, by key.

        A page has less than `limit` when more would be too large; `cursor` leads to the rest.
        """
        (after,) = read_cursor(cursor, str) or (None,)
        found = face.keys.each(after=after, limit=limit + 1)
        texts = (((row.key,), key_view(row)) async for row in found)
        return await page_that_fits("keys", texts, limit=limit)

    async def found_key(key: str) -> SavedKey | None:
        return await face.keys.get(key)

    @router.get(
        "/keys/{key:name}",
        tags=["keys"],
        response_class=Response,
        responses={**answered(KeyView, ETAG), **problems(404)},
    )
    async def get_key(key: NamePath) -> Response:
        """One saved row; its ETag is the revision that `If-Match` wants."""
        row = await found_key(key)
        if row is None:
            raise _no_row(key)
        return json_answer(key_view(row), etag=f'"{row.revision}"')

    _control_keys(router, face, found_key)
    _stop_keys(router, face)


def _stop_keys(router: APIRouter, face: Face) -> None:
    @router.post(
        "/stop-key",  # Not below /keys/, where every path is the address of a key.
        tags=["keys"],
        status_code=202,
        response_class=Response,
        responses={202: {"model": StopView}, **problems()},
    )
    async def stop_key(body: StopBody, by: By) -> Response:
        """Cancel all runs of the key, the queued ones first, so that none of them starts.

        The list is empty when the key has no active run.
        """
        stopped = await face.active.stop(body.key, files=body.files, reason=body.reason, by=by)
        runs = [{"run_id": run.run_id, "answer": run.answer.value} for run in stopped]
        return json_answer(json.dumps({"runs": runs}), status=202)


def _control_keys(
    router: APIRouter, face: Face, found_key: Callable[[str], Awaitable[SavedKey | None]]
) -> None:
    async def revision(key: str) -> int | None:
        row = await found_key(key)
        return None if row is None else row.revision

    @router.put(
        "/keys/{key:name}",
        tags=["keys"],
        response_class=Response,
        responses={**answered(KeyView, ETAG), **problems(409, 412)},
    )
    async def save_key(key: NamePath, body: KeyBody, by: By, if_match: IfMatch = None) -> Response:
        """Keep what the key's next run is to be. 409 while it has an active run."""
        expected = await expected_revision(if_match, f"key {key!r}", lambda: revision(key))
        saved = await face.keys.save(
            key, job=body.job, params=body.params, expected_revision=expected, by=by
        )
        return json_answer(key_view(saved), etag=f'"{saved.revision}"')

    @router.delete("/keys/{key:name}", tags=["keys"], status_code=204, responses=problems(404, 409))
    async def delete_key(key: NamePath, by: By) -> Response:
        """Forget what was saved. 409 while the key has an active run."""
        if not await face.keys.delete(key, by=by):
            raise _no_row(key)
        return Response(status_code=204)


def _no_row(key: str) -> Problem:
    return Problem(404, "key_not_found", f"nothing is saved for key {key!r}")
