"""What stands in a query is one of the parameters that the call has, or the call is refused."""

import pytest

from headway.api.http.strict import ISSUE_COUNT_MAX
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I15")
async def test_no_call_ignores_a_parameter_that_it_does_not_have(client: Client) -> None:
    document = (await client.get("/openapi.json")).body
    for path, operations in document["paths"].items():
        for method in operations if path.startswith("/api/") else ():
            answer = await client.call(method.upper(), f"{path}?nonsense=1")
            assert (answer.status, answer["place"]) == (422, "nonsense"), (method, path)


@pytest.mark.proves("I15")
async def test_a_filter_that_is_misspelt_does_not_show_everything(client: Client) -> None:
    await client.submitted("echo")
    answer = await client.get("/api/runs?statuss=failed&limit=5")
    assert answer.status == 422
    assert answer["detail"] == (
        "statuss: there is no such parameter here; there are: status, key, job, lane, limit, cursor"
    )
    assert [fault["place"] for fault in answer["faults"]] == ["statuss"]


@pytest.mark.proves("I15")
async def test_nothing_is_started_by_a_call_with_a_parameter_too_many(client: Client) -> None:
    answer = await client.post("/api/runs?job=echo", {"job": "echo"})
    assert (answer.status, answer["place"]) == (422, "job")
    assert answer["detail"].endswith("there are: none")
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.proves("I15")
@pytest.mark.parametrize("query", ["limit=1&limit=2", "limit=1&%6cimit=1", "key=ann&key=bob"])
async def test_a_parameter_that_has_one_value_may_come_only_once(
    client: Client, query: str
) -> None:
    answer = await client.get(f"/api/runs?{query}")
    assert (answer.status, answer["place"]) == (422, query.partition("=")[0])
    assert answer["detail"].endswith("may come only once")


async def test_a_parameter_that_has_several_values_may_come_often(client: Client) -> None:
    await client.ended(await client.submitted("echo"))
    answer = await client.get("/api/runs?status=failed&status=succeeded")
    assert [run["status"] for run in answer["runs"]] == ["succeeded"]


@pytest.mark.proves("I20")
async def test_of_thousands_of_parameters_not_each_is_explained(client: Client) -> None:
    answer = await client.get("/api/runs?" + "&".join(f"x{n}" for n in range(5_000)))
    assert answer.status == 422
    assert len(answer["faults"]) == ISSUE_COUNT_MAX


@pytest.mark.proves("R5.6")
@pytest.mark.parametrize("path", ["/list?x=1", "/tasks?x=1", "/healthz?x=1", "/docs?x=1"])
async def test_other_paths_leave_what_they_do_not_know(client: Client, path: str) -> None:
    assert (await client.get(path)).status == 200
