"""`/api/schedules`: the cron schedules of this server."""

from fastapi import APIRouter, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
from headway.api.http.request import Actor
from headway.api.http.responses import (
    ETAG_HEADER,
    LOCATION_HEADER,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.routes.submit_routes import IdempotencyKey, accepted_response
from headway.api.wire.api_models import RunView, ScheduleBody, ScheduleList, ScheduleView
from headway.api.wire.path_names import SCHEDULE_PATH, NamePath
from headway.api.wire.views import encode_schedule_list, schedule_view
from headway.core.command.admin.schedules import PauseSchedule
from headway.core.command.protocol import RevisionMismatch
from headway.core.errors import RevisionConflict
from headway.core.schedule import Schedule


def schedules_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api/schedules", tags=["schedules"], route_class=StrictRoute)

    @router.get(
        "", response_class=Response, responses={200: {"model": ScheduleList}, **problem_responses()}
    )
    async def list_schedules() -> Response:
        """List the schedules of this server by name."""
        saved = {row.name: row for row in await api.store.board.schedules()}
        texts = [
            schedule_view(schedule, saved.get(name))
            for name, schedule in sorted(api.schedules.items())
        ]
        return json_response(encode_schedule_list(schedules=texts))

    _add_control_routes(router, api)
    return router


def _add_control_routes(router: APIRouter, api: HeadwayApi) -> None:
    async def read_revision(schedule: Schedule) -> int:
        revisions = {row.name: row.revision for row in await api.store.board.schedules()}
        return revisions.get(schedule.name, 0)

    @router.patch(
        SCHEDULE_PATH,
        response_class=Response,
        responses={**success_response(ScheduleView, ETAG_HEADER), **problem_responses(404, 412)},
    )
    async def set_schedule(
        name: NamePath, body: ScheduleBody, by: Actor, if_match: IfMatch = None
    ) -> Response:
        """Pause or resume a schedule. Fire times during a pause are skipped."""
        schedule = _get_schedule(api, name)
        resource = f"schedule {schedule.name!r}"
        expected = await expected_revision(if_match, resource, lambda: read_revision(schedule))
        command = PauseSchedule(schedule, is_paused=body.paused, expected_revision=expected, by=by)
        saved = await api.store.apply(command)
        if isinstance(saved, RevisionMismatch):
            raise RevisionConflict(resource, saved.revision)
        return json_response(schedule_view(schedule, saved), etag=f'"{saved.revision}"')

    @router.post(
        "/{name:name}/run",
        status_code=201,
        response_class=Response,
        responses={
            **success_response(RunView, LOCATION_HEADER, status=201),
            **problem_responses(404, 409, 412, 429),
        },
    )
    async def run_schedule(
        name: NamePath, by: Actor, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Start the run of a schedule now. The next fire time does not change."""
        schedule = _get_schedule(api, name)
        handle = await api.start_schedule(schedule.name, idempotency_key=idempotency_key, by=by)
        return await accepted_response(handle)


def _get_schedule(api: HeadwayApi, name: str) -> Schedule:
    schedule = api.schedules.get(name.strip())
    if schedule is None:
        raise Problem(404, "schedule_not_found", f"there is no schedule {name!r}")
    return schedule
