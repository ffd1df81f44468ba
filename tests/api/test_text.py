"""What is no text in a path or a query is refused, whatever is asked, and never made into another.

NUL no database keeps, and PostgreSQL does not even look for it; bytes that are not UTF-8 would all
be named by one sign. Every path and query of the document, and every path there is, on every
database alike (I24).
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.conftest import served
from tests.api.openapi import described
from tests.api.test_walk import all_paths
from tests.contract.backends import url_on

NO_TEXT = {"%00": "contains NUL", "%FF": "is not UTF-8", "%ED%A0%80": "is not UTF-8"}


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with url_on(backend, request) as url:
        yield url


def addresses(document: dict[str, Any], said: str) -> Iterator[tuple[str, str, str]]:
    """Each call with it at each place that is left open, one at a time, and which that is."""
    for path, operations in document["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        plain = re.sub(r"[{}]", "", path)
        for method, operation in operations.items():
            for name in names:
                yield method.upper(), plain.replace(f"/{name}", f"/a{said}b", 1), "path"
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    yield method.upper(), f"{plain}?{parameter['name']}={said}", "query"


async def wanted(client: Client, said: str) -> list[tuple[str, str, str]]:
    found = list(addresses(await described(client), said))
    assert {place for _, _, place in found} == {"path", "query"}
    # The root paths and the page are not in the document.
    found += [("GET", f"{path}?id={said}", "query") for path in await all_paths(client)]
    return [*found, ("GET", f"/ui/{said}", "path"), ("POST", f"/api/runs?a=1{said}", "query")]


@pytest.mark.proves("I15", "I20", "I24")
@pytest.mark.parametrize(("said", "problem"), NO_TEXT.items(), ids=["nul", "byte", "surrogate"])
async def test_what_is_no_text_is_refused_wherever_it_is(url: str, said: str, problem: str) -> None:
    async with served(url) as client:
        for method, path, place in await wanted(client, said):
            answer = await client.call(method, path, None if method == "GET" else {})
            assert answer.status == 422, (method, path, answer)
            assert (answer["code"], answer["place"]) == ("invalid_input", place), (method, path)
            assert answer["detail"] == f"{place}: {problem}"
        assert (await client.get("/api/keys"))["keys"] == []


@pytest.mark.proves("I15")
async def test_what_only_looks_like_it_is_taken(url: str) -> None:
    async with served(url) as client:
        for place, key in (("a%2500", "a%00"), ("%25FF", "%FF"), ("%EF%BF%BD", "\ufffd")):
            answer = await client.call("PUT", f"/api/keys/{place}", {"job": "echo"})
            assert (answer.status, answer["key"]) == (200, key)
            assert (await client.get(f"/api/runs?key={place}")).status == 200
