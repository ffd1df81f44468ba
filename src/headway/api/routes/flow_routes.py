"""`/api/flows`: definitions, published in versions."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from headway.api.headway_api import HeadwayApi
from headway.api.http.caller import Actor
from headway.api.http.cursor import (
    INT32_MAX,
    Cursor,
    Limit,
    Page,
    decode_cursor,
    encode_cursor,
    split_page,
)
from headway.api.http.if_match import IfMatch, expected_revision
from headway.api.http.problem import Problem
from headway.api.http.responses import (
    ETAG_HEADER,
    JSON_TYPE,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.wire.flow_bodies import DEFINITION_BODY, encode_json, flow_view, issue_views
from headway.api.wire.flow_views import (
    FlowCheckView,
    FlowDetailView,
    FlowList,
    PublishedFlowView,
    VersionList,
)
from headway.api.wire.path_names import FLOW_PATH, FLOW_PREFIX, NamePath
from headway.core.errors import FlowNotFound, InvalidFlow

Strict = Annotated[bool, Query(description="Refuse a definition that has warnings.")]
Version = Annotated[int | None, Query(ge=1, le=INT32_MAX)]
SCHEMA_RESPONSE: Final[dict[str, Any]] = {
    "description": "A JSON Schema.",
    "content": {JSON_TYPE: {"schema": {"type": "object", "additionalProperties": True}}},
}
GRAPH_RESPONSE: Final[dict[str, Any]] = {
    "description": "Mermaid's words for it.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def flows_router(face: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _add_definition_routes(router, face)
    _add_check_route(router, face)
    _add_publish_route(router, face)
    _add_version_routes(router, face)
    return router


def _add_definition_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        "/flows",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowList}, **problem_responses()},
    )
    async def list_flows(limit: Limit = 100, cursor: Cursor = None) -> Response:
        """The flows, by name."""
        (after,) = decode_cursor(cursor, str) or ("",)
        flows, last = split_page(await face.flows.list(limit=limit + 1, after=after), limit)
        onward = None if last is None else encode_cursor(last.name)
        return Page("flows", (encode_json(flow_view(one)).encode() for one in flows), onward)

    @router.get(
        "/flow-schema",
        tags=["flows"],
        response_class=Response,
        responses={200: SCHEMA_RESPONSE, **problem_responses()},
    )
    async def flow_schema() -> Response:
        """A JSON Schema of definitions, for editors."""
        return json_response(encode_json(face.flows.schema()))


def _add_check_route(router: APIRouter, face: HeadwayApi) -> None:
    @router.post(
        "/flow-check",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowCheckView}, **problem_responses()},
        openapi_extra={"requestBody": DEFINITION_BODY},
    )
    async def check_flow(request: Request, strict: Strict = False) -> Response:
        """Whether the definition in the body could be published; what is suspicious about it."""
        try:
            warnings = await face.flows.validate(await _read_body_text(request), strict=strict)
        except InvalidFlow as error:
            raise _to_invalid_flow_problem(error) from None
        return json_response(encode_json({"warnings": issue_views(warnings)}))


def _add_publish_route(router: APIRouter, face: HeadwayApi) -> None:
    async def revision(name: str) -> int | None:
        try:
            return (await face.flows.get(name.strip())).revision
        except FlowNotFound:
            return None

    @router.put(
        FLOW_PATH,
        tags=["flows"],
        response_class=Response,
        responses={
            **success_response(PublishedFlowView, ETAG_HEADER),
            **success_response(PublishedFlowView, ETAG_HEADER, status=201),
            **problem_responses(412),
        },
        openapi_extra={"requestBody": DEFINITION_BODY},
    )
    async def publish_flow(
        name: NamePath,
        request: Request,
        by: Actor,
        if_match: IfMatch = None,
        strict: Strict = False,
    ) -> Response:
        """Publish the definition in the body as the newest version; tasks keep theirs."""
        expected = await expected_revision(if_match, f"flow {name!r}", lambda: revision(name))
        try:
            text = await _read_body_text(request)
            made = await face.flows.publish(
                name, text, expected_revision=expected, strict=strict, by=by
            )
        except InvalidFlow as error:
            raise _to_invalid_flow_problem(error) from None
        body = {
            "name": made.name,
            "id": made.id,
            "version": made.version,
            "version_id": made.version_id,
            "revision": made.revision,
            "digest": made.digest,
            "is_new": made.is_new,
            "warnings": issue_views(made.warnings),
        }
        status = 201 if made.is_new else 200
        return json_response(encode_json(body), status=status, etag=f'"{made.revision}"')


def _add_version_routes(router: APIRouter, face: HeadwayApi) -> None:
    @router.get(
        FLOW_PATH,
        tags=["flows"],
        response_class=Response,
        responses={**success_response(FlowDetailView, ETAG_HEADER), **problem_responses(404)},
    )
    async def get_flow(name: NamePath, version: Version = None) -> Response:
        """A flow with the definition of its published version, or of another."""
        flow = await face.flows.get(name)
        head = encode_json(flow_view(flow))[:-1]
        definition, warnings = "null", "[]"
        if version is not None or flow.published:
            saved = await face.flows.definition(name, version)
            definition, warnings = saved.text, encode_json(issue_views(saved.warnings))
        text = f'{head},"definition":{definition},"warnings":{warnings}}}'
        return json_response(text, etag=f'"{flow.revision}"')

    @router.get(
        f"{FLOW_PREFIX}/versions",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": VersionList}, **problem_responses(404)},
    )
    async def list_versions(name: NamePath, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """The newest first."""
        (before,) = decode_cursor(cursor, int) or (INT32_MAX,)
        before = min(before, INT32_MAX)
        found = await face.flows.versions(name, limit=limit + 1, before=before)
        versions, last = split_page(found, limit)
        views = [
            {"version": one.version, "id": one.id, "status": one.status, "digest": one.digest}
            for one in versions
        ]
        onward = None if last is None else encode_cursor(last.version)
        return Page("versions", (encode_json(view).encode() for view in views), onward)

    @router.get(
        f"{FLOW_PREFIX}/graph",
        tags=["flows"],
        response_class=Response,
        responses={200: GRAPH_RESPONSE, **problem_responses(404)},
    )
    async def flow_graph(name: NamePath, version: Version = None) -> Response:
        """A Mermaid diagram."""
        return Response(await face.flows.graph(name, version), media_type="text/plain")


async def _read_body_text(request: Request) -> str:
    """The body as it is: a definition may be nested deeper than other documents."""
    try:
        return (await request.body()).decode()
    except UnicodeDecodeError:
        raise Problem(422, "invalid_input", "body: is not UTF-8", {"place": "body"}) from None


def _to_invalid_flow_problem(error: InvalidFlow) -> Problem:
    faults = [{"place": place, "problem": problem} for place, problem in error.errors]
    return Problem(422, "invalid_flow", str(error), {"place": error.field, "faults": faults})
