"""The OpenAPI document and its page: whole, offline, and nothing in it taken as HTML."""

import re

import pytest

from headway.api.reference import reference_page
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


async def test_s8_the_page_names_every_call_and_needs_no_script_and_no_network(
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


async def test_every_call_says_what_it_does_and_every_body_has_an_example(client: Client) -> None:
    document = (await client.get("/openapi.json")).body
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], (method, path)
            assert operation["tags"], (method, path)
    for name in ("SubmitBody", "CancelBody", "MessageBody", "ResumeBody", "LaneBody", "KeyBody"):
        assert any(field.get("examples") for field in schemas[name]["properties"].values()), name


def test_s8_words_of_the_document_are_no_html() -> None:
    operation = {"description": "<script>alert(1)</script>", "parameters": [], "responses": {}}
    document = {
        "info": {"title": "<b>", "version": "1"},
        "paths": {"/a/<i>": {"get": operation}},
    }
    page = reference_page(document)
    assert not {"<b>", "<i>", "<script>"} & set(re.findall(r"<\w+>", page))
