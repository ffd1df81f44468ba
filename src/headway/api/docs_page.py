"""`/docs`: the OpenAPI document as a page, rendered here without scripts or network access."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Response

STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b2430;background:#fff}"
    "summary{cursor:pointer;padding:.4rem 0}code,pre{font:14px/1.45 ui-monospace,monospace}"
    "pre{background:#f3f5f8;padding:.8rem;overflow:auto;border-radius:6px}"
    ".m{display:inline-block;min-width:4.5rem;font-weight:700}"
    "table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0}"
    "details{border-top:1px solid #d9dfe7}"
    "@media(prefers-color-scheme:dark){body{color:#dfe6ee;background:#12171d}"
    "pre{background:#1c242d}details{border-color:#2c3742}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS: Final = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'"
    )
}


def reference_router(app: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def docs() -> Response:
        """Return a web page that describes all calls of the API."""
        return Response(render_reference(app.openapi()), media_type="text/html", headers=HEADERS)

    return router


def render_reference(document: Mapping[str, Any]) -> str:
    """Render an OpenAPI document as HTML. All of its texts are escaped (S8)."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            group = operation.get("tags", ["other"])[0]
            groups.setdefault(group, []).append(
                _render_operation(document, path, method, operation)
            )
    parts = "".join(
        f"<h2>{escape(name)}</h2>{''.join(operations)}" for name, operations in groups.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{escape(document['info'].get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">/openapi.json</a></p>'
        f"{parts}</body></html>"
    )


def _render_operation(
    document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    sections = [
        f"<p>{escape(operation.get('description', ''))}</p>",
        _render_table("Parameters", _parameter_rows(document, operation)),
        _render_table("Body", _field_rows(document, body.get("schema", {}))),
        _render_example(document, path, method, body.get("schema")),
        _render_table("Responses", _response_rows(operation)),
    ]
    return (
        f'<details><summary><code><span class="m">{method.upper()}</span>{escape(path)}</code>'
        f" {escape(operation.get('summary', ''))}</summary>{''.join(sections)}</details>"
    )


def _render_table(title: str, rows: Iterator[tuple[str, str]]) -> str:
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<h4>{title}</h4><table>{lines}</table>" if lines else ""


def _parameter_rows(
    document: Mapping[str, Any], operation: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    for parameter in operation.get("parameters", ()):
        required = ", required" if parameter.get("required") else ""
        kind = _type_name(document, parameter["schema"])
        yield (
            parameter["name"],
            f"{parameter['in']}{required}: {kind}. {parameter.get('description', '')}",
        )


def _field_rows(
    document: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    resolved = resolve_schema(document, schema)
    for name, field in resolved.get("properties", {}).items():
        required = "required: " if name in resolved.get("required", ()) else ""
        yield name, f"{required}{_type_name(document, field)}. {field.get('description', '')}"


def _response_rows(operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for status, response in operation.get("responses", {}).items():
        yield status, response.get("description", "")


def _render_example(
    document: Mapping[str, Any], path: str, method: str, schema: Mapping[str, Any] | None
) -> str:
    command = f"curl -X {method.upper()} http://127.0.0.1:8070{path}"
    if schema is not None:
        body = json.dumps(example_body(document, schema))
        command += f" -H 'Content-Type: application/json' -d '{body}'"
    return f"<pre>{escape(command)}</pre>"


def example_body(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request body with the example value of each field that has one."""
    fields = resolve_schema(document, schema).get("properties", {})
    return {name: field["examples"][0] for name, field in fields.items() if field.get("examples")}


def resolve_schema(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the component that a `$ref` in `schema` refers to.

    The `$ref` may also be in a part of the schema's `anyOf`. Return `schema` itself if it has no
    `$ref`.
    """
    for part in (schema, *schema.get("anyOf", ())):
        if "$ref" in part:
            component: Mapping[str, Any] = document["components"]["schemas"][
                part["$ref"].rpartition("/")[2]
            ]
            return component
    return schema


def _type_name(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _type_name(document, resolve_schema(document, schema))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_type_name(document, part) for part in schema["anyOf"])
    return str(schema.get("type", "any"))
