"""The OpenAPI document and its page are complete, work offline and escape HTML."""

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from jsonschema_rs import validate

from headway.api.docs_page import example_body, render_reference, resolve_schema
from headway.api.wire import api_models as wire
from headway.api.wire import flow_bodies
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")

ROOT_PATHS = {
    *("/workers/register", "/workers/heartbeat", "/workers/list", "/workers/allocate"),
    *("/register", "/heartbeat", "/list", "/allocate", "/flows", "/flows/version"),
    *("/tasks", "/tasks/get", "/tasks/cancel", "/tasks/run_once", "/tasks/signal", "/tasks/runs"),
}
REFUSED_BY_THE_GUARD = {"400", "403", "421", "422", "431", "500", "503"}
REFUSED_BODIES = {"408", "413", "415"}


@pytest.mark.proves("S8")
async def test_reference_page_lists_every_call_without_scripts_or_network(
    client: Client,
) -> None:
    document = (await client.get("/openapi.json")).body
    page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src")
    for path in document["paths"]:
        assert f"</span>{path}</code>" in page.body
    assert "<script" not in page.body
    assert not re.search(r"(src|href)=\"(?!/openapi\.json)", page.body)


async def test_every_call_has_a_description_and_every_body_an_example(client: Client) -> None:
    document = (await client.get("/openapi.json")).body
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert operation["tags"], (method, path)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                assert_can_be_sent(document, body["schema"])


def assert_can_be_sent(document: dict[str, Any], schema: dict[str, Any]) -> None:
    """Check that the server accepts the example on the page."""
    example = example_body(document, schema)
    assert example, schema
    assert set(resolve_schema(document, schema).get("required", ())) <= set(example)
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)):
        model = getattr(wire, name, None) or getattr(flow_bodies, name)
        model.model_validate(example)


async def test_document_describes_authentication_and_every_answer(client: Client) -> None:
    document = (await client.get("/openapi.json")).body
    schemes = document["components"]["securitySchemes"]
    assert {scheme["type"] for scheme in schemes.values()} == {"http", "apiKey"}
    assert [set(names) for names in document["security"]] == [{name} for name in schemes]
    members = document["components"]["schemas"]["ProblemView"]["properties"]
    assert {"path", "errors", "active_run_id", "reason", "error_id"} <= set(members)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            statuses = set(operation["responses"])
            assert statuses >= REFUSED_BY_THE_GUARD, (method, path)
            has_body = method != "get" and (method, path) != ("delete", "/api/session")
            assert statuses & REFUSED_BODIES == (REFUSED_BODIES if has_body else set()), (
                method,
                path,
            )
            for status, answer in operation["responses"].items():
                is_described = answer.get("content") or status == "204"
                assert is_described, (method, path, status)
                if status in ("429", "503"):
                    assert "Retry-After" in answer["headers"], (method, path)


@pytest.mark.proves("R5.6")
async def test_root_paths_are_documented_with_examples(
    client: Client,
) -> None:
    document = (await client.get("/openapi.json")).body
    schemas = document["components"]["schemas"]
    calls = {
        (method, path): operation["responses"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["tags"] == ["v1"]
    }
    assert {path for _, path in calls} == ROOT_PATHS
    for call, answers in calls.items():
        for status, answer in answers.items():
            described = answer["content"].get("application/json", {})
            assert described or status not in ("200", "400", "405"), call
            if described:
                schema = {**described["schema"], "components": {"schemas": schemas}}
                validate(schema, described["example"])
    missing = calls["get", "/allocate"]["500"]["content"]["application/json"]
    assert missing["example"] == (await client.get("/allocate")).body == {"error": "no worker"}


async def test_event_stream_schema_matches_real_events(client: Client) -> None:
    """The example and a real event both match the schema."""
    document = (await client.get("/openapi.json")).body
    content = document["paths"]["/api/events"]["get"]["responses"]["200"]["content"]
    stream = content["text/event-stream"]
    assert stream["schema"]["contentMediaType"] == "text/event-stream"
    block = stream["schema"]["contentSchema"]["items"]
    event, *_ = block["properties"]["data"]["contentSchema"]["anyOf"]
    definitions = {"components": {"schemas": document["components"]["schemas"]}}
    run_id = await client.submit("echo")
    sent = await client.wait_for_event(run_id, "run_state_changed")
    example = next(fields for fields in blocks(stream["example"]) if "data" in fields)
    real = {"id": str(sent.id), "event": sent.event, "data": json.dumps(sent.data)}
    for fields in (example, real):
        validate({**block, **definitions}, fields)
        data = json.loads(fields["data"])
        validate({**event, **definitions}, data)
        number, _, _ = fields["id"].partition("-")
        assert (str(data["seq"]), data["type"]) == (number, fields["event"])
    assert set(json.loads(example["data"])) == set(sent.data)


def blocks(stream: str) -> Iterator[dict[str, str]]:
    for block in stream.split("\n\n"):
        lines = (line.partition(": ") for line in block.splitlines())
        yield {name: value for name, _, value in lines if name}


@pytest.mark.proves("I15", "S9")
@pytest.mark.parametrize("path", ["/healthz", "/api/lanes", "/metrics", "/list"])
async def test_responses_to_invalid_requests_are_documented_for_every_call(
    client: Client, path: str
) -> None:
    document = (await client.get("/openapi.json")).body
    responses = document["paths"][path]["get"]["responses"]
    text, json_ = {"content-type": "text/plain"}, {"content-type": "application/json"}
    for body, kind in ((b"a body where none is needed", text), (b"x" * (1 << 21), json_)):
        assert str((await client.send("GET", path, body, kind)).status) in responses
    for answer in (
        await client.get(f"{path}?x=%00"),
        await client.get(path, Host="elsewhere.example"),
        await client.get(path, X="x" * (40 << 10)),
    ):
        assert answer.headers["content-type"] in responses[str(answer.status)]["content"], answer
        assert answer["title"] == HTTPStatus(answer.status).phrase


async def test_problem_documents_have_only_documented_members(
    client: Client,
) -> None:
    document = (await client.get("/openapi.json")).body
    described = set(document["components"]["schemas"]["ProblemView"]["properties"])
    run_id = await client.submit("stay", key="ann")
    for answer in (
        await client.post("/api/runs", {"job": "stay", "key": "ann"}),
        await client.post("/api/runs", {"job": 5}),
        await client.get("/api/runs/none"),
        await client.get("/api/flows/none"),
        await client.call("PUT", "/api/flows/bad", {"start": "z", "nodes": {}}),
        await client.call("PATCH", "/api/lanes/main", {"paused": True}, If_Match='"99"'),
        await client.call("PUT", "/api/keys/ann", {"job": "echo"}),
        await client.post(f"/api/runs/{run_id}/resume", {"call_id": "x"}),
    ):
        assert answer.status >= 400
        assert set(answer.body) <= described, answer


async def test_reference_page_has_no_empty_example_bodies(client: Client) -> None:
    page = (await client.get("/docs")).body
    assert "-d &#x27;{}&#x27;" not in page


@pytest.mark.proves("S8")
def test_reference_page_escapes_html() -> None:
    operation = {"description": "<script>alert(1)</script>", "parameters": [], "responses": {}}
    document = {
        "info": {"title": "<b>", "version": "1"},
        "paths": {"/a/<i>": {"get": operation}},
    }
    page = render_reference(document)
    assert not {"<b>", "<i>", "<script>"} & set(re.findall(r"<\w+>", page))
