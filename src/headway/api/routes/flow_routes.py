"""`/api/flows`: definitions, published in versions."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from headway.api.headway_api import Face
from headway.api.http.caller import By
from headway.api.http.cursor import (
    SMALL_NUMBER_MAX,
    Cursor,
    Limit,
    Page,
    page_of,
    read_cursor,
    write_cursor,
)
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
from headway.api.http.responses import ETAG, JSON_TYPE, answered, json_answer, problems
from headway.api.http.strict import StrictRoute
from headway.api.wire.flow_bodies import DEFINITION_BODY, encoded, fault_views, flow_view
from headway.api.wire.flow_views import (
    CheckView,
    FlowDetailView,
    FlowList,
    PublishedView,
    VersionList,
)
from headway.api.wire.path_names import FLOW, FLOW_NAME, NamePath
from headway.core.errors import FlowNotFound, InvalidFlow

Strict = Annotated[bool, Query(description="Refuse a definition that has warnings.")]
Version = Annotated[int | None, Query(ge=1, le=SMALL_NUMBER_MAX)]
SCHEMA_ANSWER: Final[dict[str, Any]] = {
    "description": "A JSON Schema.",
    "content": {JSON_TYPE: {"schema": {"type": "object", "additionalProperties": True}}},
}
GRAPH_ANSWER: Final[dict[str, Any]] = {
    "description": "Mermaid's words for it.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def flows_router(face: Face) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _definitions(router, face)
    _checking(router, face)
    _publishing(router, face)
    _versions(router, face)
    return router


def _definitions(router: APIRouter, face: Face) -> None:
    @router.get(
        "/flows",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowList}, **problems()},
    )
    async def list_flows(limit: Limit = 100, cursor: Cursor = None) -> Response:
        """The flows, by name."""
        (after,) = read_cursor(cursor, str) or ("",)
        flows, last = page_of(await face.flows.list(limit=limit + 1, after=after), limit)
        onward = None if last is None else write_cursor(last.name)
        return Page("flows", (encoded(flow_view(one)).encode() for one in flows), onward)

    @router.get(
        "/flow-schema",
        tags=["flows"],
        response_class=Response,
        responses={200: SCHEMA_ANSWER, **problems()},
    )
    async def flow_schema() -> Response:
        """A JSON Schema of definitions, for editors."""
        return json_answer(encoded(face.flows.schema()))


def _checking(router: APIRouter, face: Face) -> None:
    @router.post(
        "/flow-check",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": CheckView}, **problems()},
        openapi_extra={"requestBody": DEFINITION_BODY},
    )
    async def check_flow(request: Request, strict: Strict = False) -> Response:
        """Whether the definition in the body could be published; what is suspicious about it."""
        try:
            warnings = await face.flows.validate(await _text(request), strict=strict)
        except InvalidFlow as error:
            raise _faulty(error) from None
        return json_answer(encoded({"warnings": fault_views(warnings)}))


def _publishing(router: APIRouter, face: Face) -> None:
    async def revision(name: str) -> int | None:
        try:
            return (await face.flows.get(name.strip())).revision
        except FlowNotFound:
            return None

    @router.put(
        FLOW,
        tags=["flows"],
        response_class=Response,
        responses={
            **answered(PublishedView, ETAG),
            **answered(PublishedView, ETAG, status=201),
            **problems(412),
        },
        openapi_extra={"requestBody": DEFINITION_BODY},
    )
    async def publish_flow(
        name: NamePath,
        request: Request,
        by: By,
        if_match: IfMatch = None,
        strict: Strict = False,
    ) -> Response:
        """Publish the definition in the body as the newest version; tasks keep theirs."""
        expected = await expected_revision(if_match, f"flow {name!r}", lambda: revision(name))
        try:
            text = await _text(request)
            made = await face.flows.publish(
                name, text, expected_revision=expected, strict=strict, by=by
            )
        except InvalidFlow as error:
            raise _faulty(error) from None
        body = {
            "name": made.name,
            "id": made.id,
            "version": made.version,
            "version_id": made.version_id,
            "revision": made.revision,
            "digest": made.digest,
            "is_new": made.is_new,
            "warnings": fault_views(made.warnings),
        }
        status = 201 if made.is_new else 200
        return json_answer(encoded(body), status=status, etag=f'"{made.revision}"')


def _versions(router: APIRouter, face: Face) -> None:
    @router.get(
        FLOW,
        tags=["flows"],
        response_class=Response,
        responses={**answered(FlowDetailView, ETAG), **problems(404)},
    )
    async def get_flow(name: NamePath, version: Version = None) -> Response:
        """A flow with the definition of its published version, or of another."""
        flow = await face.flows.get(name)
        head = encoded(flow_view(flow))[:-1]
        definition, warnings = "null", "[]"
        if version is not None or flow.published:
            saved = await face.flows.definition(name, version)
            definition, warnings = saved.text, encoded(fault_views(saved.warnings))
        text = f'{head},"definition":{definition},"warnings":{warnings}}}'
        return json_answer(text, etag=f'"{flow.revision}"')

    @router.get(
        f"{FLOW_NAME}/versions",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": VersionList}, **problems(404)},
    )
    async def list_versions(name: NamePath, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """The newest first."""
        (before,) = read_cursor(cursor, int) or (SMALL_NUMBER_MAX,)
        before = min(before, SMALL_NUMBER_MAX)
        found = await face.flows.versions(name, limit=limit + 1, before=before)
        versions, last = page_of(found, limit)
        views = [
            {"version": one.version, "id": one.id, "status": one.status, "digest": one.digest}
            for one in versions
        ]
        onward = None if last is None else write_cursor(last.version)
        return Page("versions", (encoded(view).encode() for view in views), onward)

    @router.get(
        f"{FLOW_NAME}/graph",
        tags=["flows"],
        response_class=Response,
        responses={200: GRAPH_ANSWER, **problems(404)},
    )
    async def flow_graph(name: NamePath, version: Version = None) -> Response:
        """A Mermaid diagram."""
        return Response(await face.flows.graph(name, version), media_type="text/plain")


async def _text(request: Request) -> str:
    """The body as it is: a definition may be nested deeper than other documents."""
    try:
        return (await request.body()).decode()
    except UnicodeDecodeError:
        raise Problem(422, "invalid_input", "body: is not UTF-8", {"place": "body"}) from None


def _faulty(error: InvalidFlow) -> Problem:
    faults = [{"place": place, "problem": problem} for place, problem in error.faults]
    return Problem(422, "invalid_flow", str(error), {"place": error.place, "faults": faults})
