"""The OpenAPI document: the routes, completed with the facts that apply to all of them."""

from typing import Any, Final

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from headway.api.http.origin import is_page_path
from headway.api.http.request_guard import OPEN_PATHS, body_byte_count_max
from headway.api.http.strict import CURSOR_PARAMETER
from headway.api.wire.api_models import ProblemView

TOKEN_SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the server. A server without tokens needs none.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The same token as the password, with any user name.",
    },
}

LINK_HEADER: Final = {
    "Link": {
        "description": '`rel="next"`: the next page, if there is one. Same as `cursor`.',
        "schema": {"type": "string"},
    }
}
BODY_STATUSES: Final = ("408", "413", "415")
"""Error statuses that only a request body can cause."""


class DocumentedFastAPI(FastAPI):
    def __init__(self, *, cookie_name: str, **options: Any) -> None:
        super().__init__(**options)
        self._cookie_name = cookie_name

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _complete_document(super().openapi(), self._cookie_name)
        assert self.openapi_schema is not None
        return self.openapi_schema


def _complete_document(document: dict[str, Any], cookie_name: str) -> None:
    _, problem = models_json_schema(
        [(ProblemView, "serialization")], ref_template="#/components/schemas/{model}"
    )
    document["components"]["schemas"] |= problem["$defs"]
    session = {
        "type": "apiKey",
        "in": "cookie",
        "name": cookie_name,
        "description": "The session cookie of a browser, from `POST /api/session`.",
    }
    schemes = {**TOKEN_SCHEMES, "session": session}
    document["components"]["securitySchemes"] = schemes
    document["security"] = [{name: []} for name in schemes]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if body_byte_count_max(method.upper(), path) == 0:
                for status in BODY_STATUSES:
                    operation["responses"].pop(status, None)
            parameters = operation.get("parameters", ())
            if any(parameter["name"] == CURSOR_PARAMETER for parameter in parameters):
                operation["responses"]["200"]["headers"] = LINK_HEADER
        if path in OPEN_PATHS or is_page_path(path):
            for operation in operations.values():
                operation["security"] = []
