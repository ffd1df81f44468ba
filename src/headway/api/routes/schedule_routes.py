"""`/api/schedules`: what this server runs again and again, and when next."""

from fastapi import APIRouter, Response

from headway.api.headway_api import Face
from headway.api.http.caller import By
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
from headway.api.http.responses import ETAG, LOCATION, answered, json_answer, problems
from headway.api.http.strict import StrictRoute
from headway.api.routes.submit_fast_path import IdempotencyKey, accepted
from headway.api.wire.api_models import RunView, ScheduleBody, ScheduleList, ScheduleView
from headway.api.wire.path_names import SCHEDULE, NamePath
from headway.api.wire.views import listed, schedule_view
from headway.core.command.admin.fire_schedule import scheduled
from headway.core.command.admin.pause_schedule import PauseSchedule
from headway.core.command.protocol import Changed
from headway.core.command.run.idempotency import fingerprint_of
from headway.core.errors import RevisionConflict
from headway.core.run.run import Existing
from headway.core.schedule import Schedule
from headway.trace import current_trace


def schedules_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api/schedules", tags=["schedules"], route_class=StrictRoute)

    @router.get("", response_class=Response, responses={200: {"model": ScheduleList}, **problems()})
    async def list_schedules() -> Response:
        """The schedules of this server, by name."""
        saved = {one.name: one for one in await face.store.board.schedules()}
        texts = [
            schedule_view(schedule, saved.get(name))
            for name, schedule in sorted(face.schedules.items())
        ]
        return json_answer(f'{{"schedules":{listed(texts)}}}')

    _change(router, face)
    return router


def _change(router: APIRouter, face: Face) -> None:
    async def revision(schedule: Schedule) -> int:
        saved = {one.name: one.revision for one in await face.store.board.schedules()}
        return saved.get(schedule.name, 0)

    @router.patch(
        SCHEDULE,
        response_class=Response,
        responses={**answered(ScheduleView, ETAG), **problems(404, 412)},
    )
    async def set_schedule(
        name: NamePath, body: ScheduleBody, by: By, if_match: IfMatch = None
    ) -> Response:
        """Pause or resume a schedule. What would have come while it was paused does not come."""
        schedule = _known(face, name)
        what = f"schedule {schedule.name!r}"
        expected = await expected_revision(if_match, what, lambda: revision(schedule))
        wanted = PauseSchedule(schedule, is_paused=body.paused, expected_revision=expected, by=by)
        saved = await face.store.apply(wanted)
        if isinstance(saved, Changed):
            raise RevisionConflict(what, saved.revision)
        return json_answer(schedule_view(schedule, saved), etag=f'"{saved.revision}"')

    @router.post(
        "/{name:name}/run",
        status_code=201,
        response_class=Response,
        responses={**answered(RunView, LOCATION, status=201), **problems(404, 409, 412, 429)},
    )
    async def run_schedule(
        name: NamePath, by: By, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Start now what the schedule would start at its next slot, which comes all the same."""
        schedule = _known(face, name)
        submission = scheduled(
            schedule,
            face.ids.run_id(),
            existing=Existing.ASK,
            idempotency_key=idempotency_key,
            fingerprint=fingerprint_of("schedule", schedule.name),
            by=by,
            traceparent=current_trace(),
        )
        return await accepted(await face.admit(submission))


def _known(face: Face, name: str) -> Schedule:
    schedule = face.schedules.get(name.strip())
    if schedule is None:
        raise Problem(404, "schedule_not_found", f"there is no schedule {name!r}")
    return schedule
