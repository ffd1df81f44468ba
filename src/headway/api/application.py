"""The HTTP application: routes behind one guard."""

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headway.api.docs_page import reference_router
from headway.api.events_script import script_router
from headway.api.headway_api import Face
from headway.api.http.access import Access
from headway.api.http.origin import Origins
from headway.api.http.problem import Problem, internal, problem_of, unfit
from headway.api.http.request_guard import Guard
from headway.api.openapi import Described
from headway.api.routes.board_routes import board_router
from headway.api.routes.config_routes import config_router
from headway.api.routes.event_routes import Packed, events_router
from headway.api.routes.flow_routes import flows_router
from headway.api.routes.health import health_router
from headway.api.routes.interrupt_routes import interrupts_router
from headway.api.routes.metrics import Metrics, metrics_router
from headway.api.routes.run_routes import runs_router
from headway.api.routes.schedule_routes import schedules_router
from headway.api.routes.session import session_router
from headway.api.routes.submit_fast_path import SubmitFirst
from headway.api.routes.task_routes import tasks_router
from headway.api.routes.v1_routes import wire_v1_router
from headway.api.web_page import add_page
from headway.core.errors import Error
from headway.services.upkeep.event_feed import EventFeed

DESCRIPTION: Final = (
    "Runs long work one at a time per key and a few at a time overall, never loses it, and lets"
    " people watch, steer, stop and approve it."
)

SHOWN_LENGTH_MAX: Final = 200
"""Of a path, in a sentence."""


def build_application(
    face: Face,
    feed: EventFeed[Packed],
    metrics: Metrics,
    *,
    access: Access,
    origins: Origins,
    version: str,
) -> Guard:
    app = build_routes(
        face, feed, metrics, access=access, is_secure=origins.is_secure, version=version
    )
    first = SubmitFirst(app, face)
    return Guard(first, access=access, origins=origins, on_answer=metrics.note_answer)


def build_routes(
    face: Face,
    feed: EventFeed[Packed],
    metrics: Metrics,
    *,
    access: Access,
    is_secure: bool,
    version: str,
) -> FastAPI:
    """All that can be called, without the guard. `is_secure`: browsers come by TLS."""
    app = Described(
        cookie_name=access.cookie_name,
        title="headway",
        version=version,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # It would lead to where this server listens, past a proxy.
        generate_unique_id_function=_operation_id,
    )
    routers = (
        runs_router(face),
        board_router(face),
        config_router(face),
        interrupts_router(face),
        schedules_router(face),
        events_router(face, feed, metrics, access),
        health_router(face, feed),
        metrics_router(face, metrics),
        session_router(access, is_secure=is_secure),
        reference_router(app),
        script_router(),
        flows_router(face),
        tasks_router(face),
        wire_v1_router(face),
    )
    for router in routers:
        app.include_router(router)
    app.state.routes = [route for router in routers for route in router.routes]
    add_page(app)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(Error, _error)
    app.add_exception_handler(Exception, _mistake)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _answered(problem: Problem) -> Response:
    return Response(problem.body(), status_code=problem.status_code, headers=problem.all_headers)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Problem):
        return _answered(error)
    if error.status_code == 404:
        place = request.url.path[:SHOWN_LENGTH_MAX]
        return _answered(
            Problem(404, "not_found", f"there is nothing at {place!r}; /docs lists all calls")
        )
    code = "method_not_allowed" if error.status_code == 405 else "bad_request"
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        headers["allow"] = ", ".join(sorted(_methods(request)))
    return _answered(Problem(error.status_code, code, str(error.detail), headers=headers))


def _methods(request: Request) -> set[str]:
    """What can be done at this path, by whichever route."""
    methods = {
        method
        for route in request.app.state.routes
        if isinstance(route, APIRoute) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return methods | {"HEAD"} if "GET" in methods else methods


async def _error(_: Request, error: Exception) -> Response:
    assert isinstance(error, Error)
    return _answered(problem_of(error))


async def _mistake(_: Request, error: Exception) -> Response:
    return _answered(internal(error))


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _answered(unfit(error.errors()))
