"""`/api/flows`, `/api/flow-schema` and `/api/flow-check`: definitions and versions."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from headway.api.headway_api import HeadwayApi
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
from headway.api.http.request import Actor
from headway.api.http.responses import (
    ETAG_HEADER,
    JSON_TYPE,
    json_response,
    problem_responses,
    success_response,
)
from headway.api.http.strict import StrictRoute
from headway.api.wire.flow_bodies import DEFINITION_BODY
from headway.api.wire.flow_views import (
    FlowCheckView,
    FlowDetailView,
    FlowList,
    PublishedFlowView,
    VersionList,
    encode_check,
    encode_issues,
    encode_published,
    encode_version,
    extend_flow,
    flow_view,
)
from headway.api.wire.path_names import FLOW_PATH, FLOW_PREFIX, NamePath
from headway.core.errors import FlowNotFound, InvalidInput
from headway.core.flow.engine.records import VersionStatus
from headway.core.json_encoder import encode_json

Strict = Annotated[bool, Query(description="Refuse a definition that has warnings.")]
Version = Annotated[int | None, Query(ge=1, le=INT32_MAX)]
SCHEMA_RESPONSE: Final[dict[str, Any]] = {
    "description": "A JSON Schema.",
    "content": {JSON_TYPE: {"schema": {"type": "object", "additionalProperties": True}}},
}
GRAPH_RESPONSE: Final[dict[str, Any]] = {
    "description": "A Mermaid diagram.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


def flows_router(api: HeadwayApi) -> APIRouter:
    router = APIRouter(prefix="/api", route_class=StrictRoute)
    _add_definition_routes(router, api)
    _add_check_route(router, api)
    _add_publish_route(router, api)
    _add_version_routes(router, api)
    return router


def _add_definition_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        "/flows",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowList}, **problem_responses()},
    )
    async def list_flows(limit: Limit = 100, cursor: Cursor = None) -> Response:
        """List the flows by name."""
        (after,) = decode_cursor(cursor, str) or ("",)
        flows, last = split_page(await api.flows.list(limit=limit + 1, after=after), limit)
        next_cursor = None if last is None else encode_cursor(last.name)
        return Page(FlowList, (flow_view(flow).encode() for flow in flows), next_cursor)

    @router.get(
        "/flow-schema",
        tags=["flows"],
        response_class=Response,
        responses={200: SCHEMA_RESPONSE, **problem_responses()},
    )
    async def flow_schema() -> Response:
        """Return the JSON Schema of flow definitions, for editors."""
        return json_response(encode_json(api.flows.schema()))


def _add_check_route(router: APIRouter, api: HeadwayApi) -> None:
    @router.post(
        "/flow-check",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": FlowCheckView}, **problem_responses()},
        openapi_extra={"requestBody": DEFINITION_BODY},
    )
    async def check_flow(request: Request, strict: Strict = False) -> Response:
        """Check the definition in the body without publishing it, and return its warnings."""
        warnings = await api.flows.validate(await _read_body_text(request), strict=strict)
        return json_response(encode_check(warnings=encode_issues(warnings)))


def _add_publish_route(router: APIRouter, api: HeadwayApi) -> None:
    async def read_revision(name: str) -> int | None:
        try:
            return (await api.flows.get(name.strip())).revision
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
        """Publish the definition in the body as the newest version. Tasks keep their version."""
        expected = await expected_revision(if_match, f"flow {name!r}", lambda: read_revision(name))
        definition = await _read_body_text(request)
        published = await api.flows.publish(
            name, definition, expected_revision=expected, strict=strict, by=by
        )
        text = encode_published(
            name=published.name,
            id=published.id,
            version=published.version,
            version_id=published.version_id,
            revision=published.revision,
            digest=published.digest,
            is_new=published.is_new,
            warnings=encode_issues(published.warnings),
        )
        status = 201 if published.is_new else 200
        return json_response(text, status=status, etag=f'"{published.revision}"')


def _add_version_routes(router: APIRouter, api: HeadwayApi) -> None:
    @router.get(
        FLOW_PATH,
        tags=["flows"],
        response_class=Response,
        responses={**success_response(FlowDetailView, ETAG_HEADER), **problem_responses(404)},
    )
    async def get_flow(name: NamePath, version: Version = None) -> Response:
        """Return a flow with the definition of its published version, or of `version`."""
        flow = await api.flows.get(name)
        definition, warnings = "null", []
        if version is not None or flow.published:
            saved = await api.flows.definition(name, version)
            definition, warnings = saved.text, encode_issues(saved.warnings)
        text = extend_flow(flow_view(flow), definition=definition, warnings=warnings)
        return json_response(text, etag=f'"{flow.revision}"')

    @router.get(
        f"{FLOW_PREFIX}/versions",
        tags=["flows"],
        response_class=Response,
        responses={200: {"model": VersionList}, **problem_responses(404)},
    )
    async def list_versions(name: NamePath, limit: Limit = 100, cursor: Cursor = None) -> Response:
        """List the versions of a flow, the newest first."""
        (before,) = decode_cursor(cursor, int) or (INT32_MAX,)
        before = min(before, INT32_MAX)
        rows = await api.flows.versions(name, limit=limit + 1, before=before)
        versions, last = split_page(rows, limit)
        texts = (
            encode_version(
                version=row.version, id=row.id, status=VersionStatus(row.status), digest=row.digest
            )
            for row in versions
        )
        next_cursor = None if last is None else encode_cursor(last.version)
        return Page(VersionList, (text.encode() for text in texts), next_cursor)

    @router.get(
        f"{FLOW_PREFIX}/graph",
        tags=["flows"],
        response_class=Response,
        responses={200: GRAPH_RESPONSE, **problem_responses(404)},
    )
    async def flow_graph(name: NamePath, version: Version = None) -> Response:
        """Return a Mermaid diagram of a flow."""
        return Response(await api.flows.graph(name, version), media_type="text/plain")


async def _read_body_text(request: Request) -> str:
    """Return the body of a request as text, without decoding its JSON.

    The JSON of a definition may be nested deeper than that of other bodies.
    """
    try:
        return (await request.body()).decode()
    except UnicodeDecodeError:
        raise InvalidInput("body", "is not UTF-8") from None
