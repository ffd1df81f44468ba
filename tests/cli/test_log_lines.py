"""Logs of servers and workers, in text and in JSON, contain no secrets (S4)."""

import io
import json
import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from headway import Backoff, Headway, RunContext
from headway.cli.output.log_format import JsonFormatter, TextFormatter, collect_secrets
from headway.log import event_log
from headway.settings import Settings
from tests.api.program import served_in_subprocess
from tests.cli.command import command, environment

SETTINGS = Settings(
    token=SecretStr("t0ken-of-sixteen"),
    tokens=(SecretStr("read=0ther-of-sixteen"),),
    database_url="postgresql://ann:p%40ss-word@db/x",
    redis_url="redis://:r3dis-word@cache",
)
SECRETS = ("t0ken-of-sixteen", "0ther-of-sixteen", "p%40ss-word", "p@ss-word", "r3dis-word")

Logged = Callable[[], str]


@pytest.fixture(params=[JsonFormatter, TextFormatter])
def logged(request: pytest.FixtureRequest) -> Iterator[Logged]:
    """Return a function that returns the log since the start of the test, in one format."""
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    handler.setFormatter(request.param(collect_secrets(SETTINGS)))
    logger = logging.getLogger("headway")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield shown.getvalue
    logger.setLevel(level)
    logger.removeHandler(handler)


@pytest.mark.proves("S4")
def test_configured_secrets_are_never_logged(logged: Logged) -> None:
    log = event_log("headway.tests")
    for secret in SECRETS:
        log.warning("refused", extra={"reason": f"cannot reach {secret}@db"})
        try:
            raise ValueError(secret)  # noqa: TRY301
        except ValueError:
            log.exception("crashed")
        logging.getLogger("headway.other").warning("received %s", secret)
    assert logged().count("(secret)") >= 3 * len(SECRETS)
    assert [secret for secret in SECRETS if secret in logged()] == []


@pytest.mark.proves("S4")
def test_value_with_the_name_of_a_secret_is_masked(logged: Logged) -> None:
    event_log("headway.tests").warning("refused", extra={"Token": "unknown to us"})
    others = logging.getLogger("headway.other")
    for message in (
        "sent Authorization: Bearer unknown-to-us",
        "password=unknown-to-us&x=1",
        '{"token": "unknown to us", "x": 1}',
        "Cookie: unknown-to-us; path=/",
    ):
        others.warning(message)
    assert "unknown" not in logged()
    assert logged().count("(secret)") == 5
    others.warning("the token of ann is missing: 5 secrets, no password")
    assert "the token of ann is missing: 5 secrets, no password" in logged()


@pytest.mark.proves("S4")
@pytest.mark.parametrize(
    "name",
    [
        *("db_password", "access_token", "client_secret", "api_key", "x-api-key", "apikey"),
        *("accessToken", "DB-PASSWD", "Set-Cookie", "aws_secret_access_key", "SECRET_KEY"),
    ],
)
def test_value_is_masked_if_its_name_ends_like_that_of_a_secret(logged: Logged, name: str) -> None:
    event_log("headway.tests").warning("refused", extra={name: "unknown-to-us"})
    others = logging.getLogger("headway.other")
    for message in (
        f"{name}=unknown-to-us&x=1",
        f"{name}: unknown-to-us",
        f'"{name}":"unknown-to-us"',
    ):
        others.warning(message)
    assert "unknown" not in logged()
    assert logged().count("(secret)") == 4


@pytest.mark.proves("S4")
@pytest.mark.parametrize(
    "message", ["token_count=3", "tokens=5", "key=ann", "monkey: 5", "secrets: 2", "passwords=0"]
)
def test_value_is_logged_if_its_name_only_begins_like_that_of_a_secret(
    logged: Logged, message: str
) -> None:
    logging.getLogger("headway.other").warning(message)
    event_log("headway.tests").warning("counted", extra={"token_count": 31, "needs_token": True})
    assert message in logged()
    assert "31" in logged()


@pytest.mark.proves("S4")
@pytest.mark.parametrize("logged", [TextFormatter], indirect=True)
def test_log_record_is_one_line_without_control_characters(logged: Logged) -> None:
    others = logging.getLogger("headway.other")
    others.warning("hello\nERROR headway.forged \x1b[2Jgone")
    try:
        raise ValueError("one\nERROR headway.forged \x1b[2Jtwo")  # noqa: TRY301
    except ValueError:
        others.exception("crashed\r")
    assert "\x1b" not in logged()
    assert "\r" not in logged()
    heads = [line for line in logged().splitlines() if not line.startswith("  ")]
    assert heads == [
        "WARNING headway.other hello\\nERROR headway.forged \\x1b[2Jgone",
        "ERROR headway.other crashed\\r",
    ]


@pytest.mark.proves("S4")
@pytest.mark.parametrize("logged", [JsonFormatter], indirect=True)
def test_json_field_with_the_name_of_a_secret_is_masked(logged: Logged) -> None:
    event_log("headway.tests").warning("refused", extra={"token": "unknown to us", "count": 3})
    (line,) = _lines(logged())
    assert (line["event"], line["token"], line["count"]) == ("refused", "(secret)", 3)
    assert (line["level"], line["logger"]) == ("warning", "headway.tests")


@pytest.mark.backend("sqlite")
@pytest.mark.parametrize("logged", [JsonFormatter], indirect=True)
async def test_log_lines_of_a_run_have_its_id_key_and_job(logged: Logged, url: str) -> None:
    hw = Headway(url)

    @hw.job
    async def fail(ctx: RunContext) -> None:
        logging.getLogger("headway.mine").info("about to fail")
        raise ValueError("no")

    @hw.job
    def fail_in_a_thread(ctx: Any) -> None:
        logging.getLogger("headway.mine").info("about to fail")

    async with hw:
        for name in ("fail", "fail_in_a_thread"):
            run = await hw.start(name, key="ann")
            await run.wait_for_end()
            lines = [line for line in _lines(logged()) if line.get("run_id") == run.id]
            assert {line["event"] for line in lines} >= {"about to fail"}
            assert {(line["key"], line["job"]) for line in lines} == {("ann", name)}
    (failed,) = [line for line in _lines(logged()) if line["event"] == "job_failed"]
    assert (failed["job"], "ValueError: no" in failed["traceback"]) == ("fail", True)


@pytest.mark.backend("sqlite")
async def test_server_writes_only_json(tmp_path: Path) -> None:
    with served_in_subprocess(
        tmp_path, HEADWAY_LOG_FORMAT="json", HEADWAY_TOKEN=SECRETS[0]
    ) as program:
        async with aiohttp.ClientSession(program.address) as session:
            headers = {"authorization": f"Bearer {SECRETS[0]}"}
            body = {"job": "echo", "params": {"said": 1}}
            async with session.post("/api/runs", json=body, headers=headers) as answer:
                assert answer.status == 201
    lines = _lines((tmp_path / "server.log").read_text())
    (ready,) = [line for line in lines if line["event"] == "server_ready"]
    assert (ready["address"], ready["needs_token"]) == (program.address, True)
    assert SECRETS[0] not in str(lines)


@pytest.mark.backend("sqlite")
@pytest.mark.parametrize("logged", [TextFormatter], indirect=True)
async def test_each_failed_attempt_is_logged_with_job_and_key(logged: Logged, url: str) -> None:
    hw = Headway(url)

    @hw.job(retries=1, backoff=Backoff(base_s=0.0, cap_s=0.0))
    async def fail(ctx: RunContext) -> None:
        raise ValueError("no")

    async with hw:
        run = await hw.start("fail", key="ann")
        await run.wait_for_end()
    fields = f"job=fail key=ann run_id={run.id} attempt="
    first, second, *traceback = logged().splitlines()
    assert first == (
        f"WARNING headway.services.engine.execute job_attempt_failed {fields}1"
        " error='ValueError: no'"
    )
    assert (
        second
        == f"ERROR headway.services.engine.execute job_failed {fields}2 error='ValueError: no'"
    )
    assert traceback[0] == "  Traceback (most recent call last):"
    assert traceback[-1] == "  ValueError: no"


@pytest.mark.backend("sqlite")
@pytest.mark.parametrize("level", ["info", "debug"])
def test_server_does_not_log_messages_of_its_libraries(tmp_path: Path, level: str) -> None:
    with served_in_subprocess(tmp_path, HEADWAY_LOG_LEVEL=level):
        pass
    log = (tmp_path / "server.log").read_text()
    assert not [name for name in ("aiosqlite", "asyncio", "sqlalchemy") if f" {name}" in log]
    assert ("Started server process" in log) is (level == "debug")


def test_worker_writes_json(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("worker", "--registry", "http://127.0.0.1:9"),
        cwd=tmp_path,
        env=environment(HEADWAY_LOG_FORMAT="json"),
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stderr is not None
        events = []
        while "worker_ready" not in events:
            events.append(json.loads(worker.stderr.readline())["event"])
        worker.terminate()


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
