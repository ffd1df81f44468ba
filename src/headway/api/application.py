"""The HTTP application: all routes behind the request guard."""

from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headway.api.docs_page import reference_router
from headway.api.events_script import script_router
from headway.api.headway_api import HeadwayApi
from headway.api.http.access import Access
from headway.api.http.origin import Origins
from headway.api.http.problem import Problem, internal_error, invalid_request, to_problem
from headway.api.http.request_guard import GuardMiddleware
from headway.api.openapi import DocumentedFastAPI
from headway.api.routes.board_routes import board_router
from headway.api.routes.config_routes import config_router
from headway.api.routes.event_routes import EncodedEvent, events_router
from headway.api.routes.flow_routes import flows_router
from headway.api.routes.health import health_router
from headway.api.routes.interrupt_routes import interrupts_router
from headway.api.routes.metrics import Metrics, metrics_router
from headway.api.routes.run_routes import runs_router
from headway.api.routes.schedule_routes import schedules_router
from headway.api.routes.session import session_router
from headway.api.routes.submit_routes import SubmitFastPath
from headway.api.routes.task_routes import tasks_router
from headway.api.routes.v1_routes import wire_v1_router
from headway.api.web_page import add_page
from headway.core.errors import Error
from headway.services.upkeep.event_feed import EventFeed

DESCRIPTION: Final = (
    "Runs long jobs, one at a time per key and a limited number at a time per lane. Accepted runs"
    " are never lost. People can watch, steer, stop and approve them."
)

SHOWN_PATH_LENGTH_MAX: Final = 200
"""The maximum length of a request path in an error message. A longer path is cut off."""


def build_application(
    api: HeadwayApi,
    feed: EventFeed[EncodedEvent],
    metrics: Metrics,
    *,
    access: Access,
    origins: Origins,
    version: str,
) -> GuardMiddleware:
    app = build_routes(
        api, feed, metrics, access=access, is_secure=origins.is_secure, version=version
    )
    fast_path = SubmitFastPath(app, api)
    return GuardMiddleware(
        fast_path, access=access, origins=origins, on_response=metrics.record_response
    )


def build_routes(
    api: HeadwayApi,
    feed: EventFeed[EncodedEvent],
    metrics: Metrics,
    *,
    access: Access,
    is_secure: bool,
    version: str,
) -> FastAPI:
    """Build the application with all routes, but without the request guard.

    `is_secure` is True if browsers reach this server over TLS.
    """
    app = DocumentedFastAPI(
        cookie_name=access.cookie_name,
        title="headway",
        version=version,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # FastAPI would redirect to the listen address, past a proxy.
        generate_unique_id_function=_operation_id,
    )
    routers = (
        runs_router(api),
        board_router(api),
        config_router(api),
        interrupts_router(api),
        schedules_router(api),
        events_router(api, feed, metrics, access),
        health_router(api, feed),
        metrics_router(api, metrics),
        session_router(access, is_secure=is_secure),
        reference_router(app),
        script_router(),
        flows_router(api),
        tasks_router(api),
        wire_v1_router(api),
    )
    for router in routers:
        app.include_router(router)
    app.state.routes = [route for router in routers for route in router.routes]
    add_page(app)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(Error, _handle_error)
    app.add_exception_handler(Exception, _handle_unexpected_error)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name


def _to_response(problem: Problem) -> Response:
    return Response(problem.body(), status_code=problem.status_code, headers=problem.all_headers)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Problem):
        return _to_response(error)
    if error.status_code == 404:
        path = request.url.path[:SHOWN_PATH_LENGTH_MAX]
        return _to_response(
            Problem(404, "not_found", f"unknown path {path!r}; /docs lists all calls")
        )
    code = "method_not_allowed" if error.status_code == 405 else "bad_request"
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        headers["allow"] = ", ".join(sorted(_allowed_methods(request)))
    return _to_response(Problem(error.status_code, code, str(error.detail), headers=headers))


def _allowed_methods(request: Request) -> set[str]:
    """Return the methods of all routes that match the path of the request."""
    methods = {
        method
        for route in request.app.state.routes
        if isinstance(route, APIRoute) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return methods | {"HEAD"} if "GET" in methods else methods


async def _handle_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, Error)
    return _to_response(to_problem(error))


async def _handle_unexpected_error(_: Request, error: Exception) -> Response:
    return _to_response(internal_error(error))


async def _handle_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _to_response(invalid_request(error.errors()))
