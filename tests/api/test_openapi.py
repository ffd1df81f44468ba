"""The OpenAPI document in the repository is valid and equals the document of the server."""

import json

import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.api.client import Client
from tests.api.openapi import DOCUMENT_PATH, fetch_document

pytestmark = pytest.mark.backend("sqlite")


async def test_stored_openapi_document_equals_the_served_document(client: Client) -> None:
    stored = json.loads(DOCUMENT_PATH.read_text(encoding="utf-8"))
    assert await fetch_document(client) == stored, "run `python -m tests.api.openapi` to update it"


def test_stored_document_is_valid_openapi_3_1() -> None:
    document = json.loads(DOCUMENT_PATH.read_text(encoding="utf-8"))
    assert document["openapi"].startswith("3.1.")
    OPENAPI_31_VALIDATOR.validate(document)
