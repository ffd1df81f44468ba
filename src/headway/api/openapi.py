"""The OpenAPI document: what the routes say of themselves, and what holds for all of them."""

from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from headway.api.http.origin import is_page
from headway.api.http.request_guard import OPEN_PATHS, body_byte_count_max
from headway.api.http.strict import CURSOR
from headway.api.wire.api_models import ProblemView

TOKENS: Final = {
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
}

LINK: Final = {
    "Link": {
        "description": '`rel="next"`: the next page, if there is one, as `cursor` has it.',
        "schema": {"type": "string"},
    }
}
OF_BODIES: Final = ("408", "413", "415")
"""What only the body of a request can bring about."""


class Described(FastAPI):
    def __init__(self, *, cookie_name: str, **options: Any) -> None:
        super().__init__(**options)
        self._cookie_name = cookie_name

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _complete(super().openapi(), self._cookie_name)
        assert self.openapi_schema is not None
        return self.openapi_schema


def _complete(document: dict[str, Any], cookie_name: str) -> None:
    _, problem = models_json_schema(
        [(ProblemView, "serialization")], ref_template="#/components/schemas/{model}"
    )
    document["components"]["schemas"] |= problem["$defs"]
    session = {
        "type": "apiKey",
        "in": "cookie",
        "name": cookie_name,
        "description": "What a browser keeps instead, from `POST /api/session`.",
    }
    schemes = {**TOKENS, "session": session}
    document["components"]["securitySchemes"] = schemes
    document["security"] = [{name: []} for name in schemes]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if body_byte_count_max(method.upper(), path) == 0:
                for status in OF_BODIES:
                    operation["responses"].pop(status, None)
            if any(one["name"] == CURSOR for one in operation.get("parameters", ())):
                operation["responses"]["200"]["headers"] = LINK
        if path in OPEN_PATHS or is_page(path):
            for operation in operations.values():
                operation["security"] = []
