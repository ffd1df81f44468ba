"""The document in the repository is what the server says of itself, in words of OpenAPI 3.1."""

import json

import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from tests.api.client import Client
from tests.api.openapi import KEPT, described

pytestmark = pytest.mark.backend("sqlite")


async def test_the_kept_document_is_that_of_the_server(client: Client) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert await described(client) == kept, "write it anew: python -m tests.api.openapi"


def test_the_kept_document_has_no_words_of_another_openapi() -> None:
    document = json.loads(KEPT.read_text(encoding="utf-8"))
    assert document["openapi"].startswith("3.1.")
    OPENAPI_31_VALIDATOR.validate(document)
