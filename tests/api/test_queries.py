"""Calls with unknown or repeated query parameters are refused (I15)."""

import pytest

from headway.api.http.strict import ISSUE_COUNT_MAX
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I15")
async def test_unknown_query_parameter_is_refused_by_every_call(client: Client) -> None:
    document = (await client.get("/openapi.json")).body
    for path, operations in document["paths"].items():
        for method in operations if path.startswith("/api/") else ():
            answer = await client.call(method.upper(), f"{path}?nonsense=1")
            assert (answer.status, answer["path"]) == (422, "nonsense"), (method, path)


@pytest.mark.proves("I15")
async def test_misspelt_filter_is_refused_with_the_allowed_names(client: Client) -> None:
    await client.submit("echo")
    answer = await client.get("/api/runs?statuss=failed&limit=5")
    assert answer.status == 422
    assert answer["detail"] == (
        "statuss: unknown parameter; allowed: status, key, job, lane, limit, cursor"
    )
    assert [error["path"] for error in answer["errors"]] == ["statuss"]


@pytest.mark.proves("I15")
async def test_submission_with_a_query_parameter_starts_nothing(client: Client) -> None:
    answer = await client.post("/api/runs?job=echo", {"job": "echo"})
    assert (answer.status, answer["path"]) == (422, "job")
    assert answer["detail"].endswith("allowed: none")
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.proves("I15")
@pytest.mark.parametrize("query", ["limit=1&limit=2", "limit=1&%6cimit=1", "key=ann&key=bob"])
async def test_single_valued_parameter_must_not_be_repeated(client: Client, query: str) -> None:
    answer = await client.get(f"/api/runs?{query}")
    assert (answer.status, answer["path"]) == (422, query.partition("=")[0])
    assert answer["detail"].endswith("must not be repeated")


async def test_multi_valued_parameter_may_be_repeated(client: Client) -> None:
    await client.wait_for_end(await client.submit("echo"))
    answer = await client.get("/api/runs?status=failed&status=succeeded")
    assert [run["status"] for run in answer["runs"]] == ["succeeded"]


@pytest.mark.proves("I20")
async def test_number_of_reported_parameter_errors_is_limited(client: Client) -> None:
    answer = await client.get("/api/runs?" + "&".join(f"x{n}" for n in range(5_000)))
    assert answer.status == 422
    assert len(answer["errors"]) == ISSUE_COUNT_MAX


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize("path", ["/list?x=1", "/tasks?x=1", "/healthz?x=1", "/docs?x=1"])
async def test_paths_outside_the_api_ignore_unknown_parameters(client: Client, path: str) -> None:
    assert (await client.get(path)).status == 200
