"""Time limits in submissions, and reading the configuration again, over HTTP."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.api.http.access import Access, Scope, Token
from headway.core.ids import SECOND_US
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Write `headway.toml` in the folder of this process, which is also the server's."""
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "headway.toml").write_text


@pytest.mark.proves("R4.14")
@pytest.mark.parametrize(
    ("body", "limit_s"), [({}, 1800), ({"timeout_s": None}, None), ({"timeout_s": 7}, 7)]
)
async def test_missing_timeout_means_the_default_of_the_job_and_null_means_no_timeout(
    client: Client, body: dict[str, Any], limit_s: float | None
) -> None:
    answer = await client.post("/api/runs", {"job": "echo", **body})
    record = await client.hw.run(answer.body["id"]).record()
    assert record.run.timeout_us == (None if limit_s is None else limit_s * SECOND_US)


@pytest.mark.proves("R4.14")
async def test_jobs_are_listed_with_their_default_time_limit(client: Client) -> None:
    jobs = (await client.get("/api/jobs")).body["jobs"]
    assert {job["name"]: job["timeout_s"] for job in jobs}["echo"] == 1800


@pytest.mark.proves("R3.10", "R3.12")
async def test_reload_reports_its_changes_or_why_nothing_was_changed(
    url: str, configure: Callable[[str], object]
) -> None:
    tokens = Token("r" * 16, Scope.READ), Token("o" * 16, Scope.OPERATE)
    reader, operator = ({"authorization": f"Bearer {token.secret}"} for token in tokens)
    path = "/api/config/reload"
    async with served(url, access=Access(tokens)) as client:
        configure("port = 1\n[lanes]\nmain = 6")
        assert (await client.post(path, None, **reader)).status == 403
        answer = await client.post(path, None, **operator)
        assert (answer.status, answer.body) == (
            200,
            {
                "lanes": [{"name": "main", "previous_limit": 3, "max_concurrent": 6}],
                "restart_to_apply": ["port"],
            },
        )
        configure("[lanes]\nmain = 7\ncron = -1")
        refused = await client.post(path, None, **operator)
        assert (refused.status, refused.body["code"]) == (422, "configuration_refused")
        assert refused.body["detail"].endswith("; nothing was changed")
        lane = await client.get("/api/lanes/main", **operator)
        assert lane.body["max_concurrent"] == 6
