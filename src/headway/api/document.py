"""The OpenAPI document: what the routes say of themselves, and what holds for all of them."""

from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from headway.api.access import SESSION_COOKIE
from headway.api.guard import OPEN_PATHS, PAGE_PATHS
from headway.api.wire import ProblemView

SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the server's; none is needed where none is set.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The same token as the password, with whatever name.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "What a browser keeps instead, from `POST /api/session`.",
    },
}


class Described(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _complete(super().openapi())
        assert self.openapi_schema is not None
        return self.openapi_schema


def _complete(document: dict[str, Any]) -> None:
    _, problem = models_json_schema(
        [(ProblemView, "serialization")], ref_template="#/components/schemas/{model}"
    )
    document["components"]["schemas"] |= problem["$defs"]
    document["components"]["securitySchemes"] = SCHEMES
    document["security"] = [{name: []} for name in SCHEMES]
    for path, operations in document["paths"].items():
        if path in OPEN_PATHS | PAGE_PATHS:
            for operation in operations.values():
                operation["security"] = []
