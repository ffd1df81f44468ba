"""NUL, which no database keeps and PostgreSQL does not even look for: refused, whatever is asked.

Every path and query of the document, and every path there is, on every database alike (I24).
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

NUL = "%00"


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with url_on(backend, request) as url:
        yield url


def addresses(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each call with a NUL at each place that it leaves open, one at a time, and which that is."""
    for path, operations in document["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        plain = re.sub(r"[{}]", "", path)
        for method, operation in operations.items():
            for name in names:
                yield method.upper(), plain.replace(f"/{name}", f"/a{NUL}b", 1), "path"
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    yield method.upper(), f"{plain}?{parameter['name']}={NUL}", "query"


async def wanted(client: Client) -> list[tuple[str, str, str]]:
    found = list(addresses(await described(client)))
    assert {place for _, _, place in found} == {"path", "query"}
    # The root paths and the page are not in the document.
    found += [("GET", f"{path}?id={NUL}", "query") for path in await all_paths(client)]
    return [*found, ("GET", f"/ui/{NUL}", "path"), ("POST", f"/api/runs?a=1{NUL}", "query")]


async def test_i15_i20_i24_nul_in_a_path_or_query_is_refused_wherever_it_is(url: str) -> None:
    async with served(url) as client:
        for method, path, place in await wanted(client):
            answer = await client.call(method, path, None if method == "GET" else {})
            assert answer.status == 422, (method, path, answer)
            assert (answer["code"], answer["place"]) == ("invalid_input", place), (method, path)
            assert answer["detail"] == f"{place}: contains NUL"


async def test_i15_what_only_looks_like_nul_is_taken(url: str) -> None:
    async with served(url) as client:
        answer = await client.call("PUT", "/api/keys/a%2500", {"job": "echo"})
        assert (answer.status, answer["key"]) == (200, "a%00")
        assert (await client.get("/api/runs?key=a%2500")).status == 200
