"""Paths and queries with NUL or invalid UTF-8 are refused, and never changed to other text.

No database stores NUL, and PostgreSQL refuses queries with it. Bytes that are not UTF-8 would all
become the same replacement character. The tests cover every path and query of the document, and
every other path, alike on every database (I24).
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.conftest import served
from tests.api.openapi import fetch_document
from tests.api.test_walk import all_paths
from tests.contract.backends import open_database_url

INVALID_ESCAPES = {"%00": "contains NUL", "%FF": "is not UTF-8", "%ED%A0%80": "is not UTF-8"}


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with open_database_url(backend, request) as url:
        yield url


def documented_calls(document: dict[str, Any], escape: str) -> Iterator[tuple[str, str, str]]:
    """Yield each call with the escape in one path or query parameter, and which of the two."""
    for path, operations in document["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        plain = re.sub(r"[{}]", "", path)
        for method, operation in operations.items():
            for name in names:
                yield method.upper(), plain.replace(f"/{name}", f"/a{escape}b", 1), "path"
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    yield method.upper(), f"{plain}?{parameter['name']}={escape}", "query"


async def all_calls(client: Client, escape: str) -> list[tuple[str, str, str]]:
    calls = list(documented_calls(await fetch_document(client), escape))
    assert {place for _, _, place in calls} == {"path", "query"}
    # The root paths and the page are not in the document.
    calls += [("GET", f"{path}?id={escape}", "query") for path in await all_paths(client)]
    return [*calls, ("GET", f"/ui/{escape}", "path"), ("POST", f"/api/runs?a=1{escape}", "query")]


@pytest.mark.proves("I15", "I20", "I24")
@pytest.mark.parametrize(
    ("escape", "problem"), INVALID_ESCAPES.items(), ids=["nul", "byte", "surrogate"]
)
async def test_nul_and_invalid_utf_8_are_refused_in_every_path_and_query(
    url: str, escape: str, problem: str
) -> None:
    async with served(url) as client:
        for method, path, place in await all_calls(client, escape):
            answer = await client.call(method, path, None if method == "GET" else {})
            assert answer.status == 422, (method, path, answer)
            assert (answer["code"], answer["path"]) == ("invalid_input", place), (method, path)
            assert answer["detail"] == f"{place} {problem}"
        assert (await client.get("/api/keys"))["keys"] == []


@pytest.mark.proves("I15")
async def test_escaped_percent_signs_and_replacement_characters_are_accepted(url: str) -> None:
    async with served(url) as client:
        for path_name, key in (("a%2500", "a%00"), ("%25FF", "%FF"), ("%EF%BF%BD", "\ufffd")):
            answer = await client.call("PUT", f"/api/keys/{path_name}", {"job": "echo"})
            assert (answer.status, answer["key"]) == (200, key)
            assert (await client.get(f"/api/runs?key={path_name}")).status == 200
