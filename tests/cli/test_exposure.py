"""Hosts, tokens and host names: who may reach a server with which rights (S1, S2, S3)."""

import json
import os
import subprocess
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.api.program import Program, served_in_subprocess
from tests.cli.command import TIMEOUT_S, command, environment, headway, refusal

OPERATE = "operate-operate-operate"
READ = "read-read-read-read-read"
NO_TOKEN = "no token is set: everyone who can reach this address has full access"


def call(program: Program, method: str, path: str, body: object = None, **headers: str) -> int:
    """Return the status of the response."""
    url = urlsplit(program.address)
    connection = HTTPConnection("127.0.0.1", url.port or 0, timeout=TIMEOUT_S)
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        content = None if body is None else json.dumps(body)
        connection.request(
            method, path, content, {"content-type": "application/json", **header_fields}
        )
        return connection.getresponse().status
    finally:
        connection.close()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.proves("S1")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])  # noqa: S104
def test_host_reachable_from_other_machines_is_refused_without_a_token(
    folder: Path, host: str
) -> None:
    sentence = (
        f"host {host!r} is reachable from other machines, so a token is required; set"
        " HEADWAY_TOKEN, or serve on 127.0.0.1"
    )
    assert refusal("serve", "--host", host, "--port", "0", folder=folder) == sentence
    assert refusal("serve", "--port", "0", folder=folder, HEADWAY_HOST=host) == sentence


@pytest.mark.proves("S2")
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"HEADWAY_TOKEN": "short"}, "a token of scope operate is shorter than 16 characters"),
        ({"HEADWAY_TOKENS": "read=short"}, "a token of scope read is shorter than 16 characters"),
        ({"HEADWAY_TOKEN": READ, "HEADWAY_TOKENS": f"read={READ}"}, "two tokens are the same"),
        ({"HEADWAY_TOKENS": f"reed={READ}"}, "tokens must be given as scope=secret"),
        ({"HEADWAY_TOKENS": f"read:={READ}"}, "tokens must be given as scope=secret"),
        ({"HEADWAY_TOKENS": f"read:a.b={READ}"}, "tokens must be given as scope=secret"),
        ({"HEADWAY_TOKENS": READ}, "tokens must be given as scope=secret"),
        ({"HEADWAY_PUBLIC_URL": "example.org"}, "the public URL 'example.org' is invalid"),
    ],
)
def test_invalid_setting_is_refused_before_any_file_is_created(
    folder: Path, settings: dict[str, str], problem: str
) -> None:
    sentence = refusal("serve", "--port", "0", folder=folder, **settings)
    assert sentence.startswith(problem)
    assert READ not in sentence


@pytest.mark.proves("S3")
def test_invalid_allowed_host_is_refused(folder: Path) -> None:
    result = headway("serve", "--port", "0", folder=folder, HEADWAY_ALLOWED_HOSTS="https://box")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert result.err.startswith("headway: allowed_hosts contains 'https://box'")


@pytest.mark.proves("S2")
def test_banner_warns_of_a_missing_token(tmp_path: Path) -> None:
    with served_in_subprocess(tmp_path) as program:
        assert NO_TOKEN in program.startup_log
        assert call(program, "GET", "/api/lanes") == 200
        for name in ("box.test", "evil.example"):
            assert call(program, "GET", "/api/lanes", host=name) == 421


@pytest.mark.proves("S2")
def test_json_log_warns_of_a_missing_token(tmp_path: Path) -> None:
    """`server_ready` is below the level `warning` and is not logged."""
    settings = {"HEADWAY_LOG_FORMAT": "json", "HEADWAY_LOG_LEVEL": "warning"}
    log = tmp_path / "server.log"
    with log.open("w") as stderr:
        serving = subprocess.Popen(
            command("serve", "--port", "0"),
            cwd=tmp_path,
            env=environment(**settings),
            stderr=stderr,
        )
    try:
        while serving.poll() is None and not log.read_text().endswith("\n"):
            time.sleep(0.01)
    finally:
        serving.terminate()
        serving.wait(TIMEOUT_S)
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["level"], line["event"], line["reason"]) == ("warning", "no_token", NO_TOKEN)


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    ("settings", "has_hint"),
    [
        ({"HEADWAY_HOST": "0.0.0.0"}, True),  # noqa: S104
        ({"HEADWAY_HOST": "::"}, True),
        ({"HEADWAY_HOST": "[::]"}, True),
        ({"HEADWAY_HOST": "0.0.0.0", "HEADWAY_ALLOWED_HOSTS": "box"}, False),  # noqa: S104
        ({"HEADWAY_HOST": "0.0.0.0", "HEADWAY_PUBLIC_URL": "https://box"}, False),  # noqa: S104
        ({}, False),
    ],
)
def test_server_answers_at_the_address_in_its_banner(
    tmp_path: Path, settings: dict[str, str], has_hint: bool
) -> None:
    with served_in_subprocess(tmp_path, HEADWAY_TOKEN=OPERATE, **settings) as program:
        with urlopen(f"{program.address}/ui/", timeout=TIMEOUT_S) as answer:  # noqa: S310
            assert answer.status == 200
        assert ("HEADWAY_ALLOWED_HOSTS" in program.startup_log) == has_hint


@pytest.mark.proves("S2")
def test_tokens_grant_only_their_scope_and_only_allowed_host_names_are_accepted(
    tmp_path: Path,
) -> None:
    """The server listens on all addresses, as in a container."""
    settings = {
        "HEADWAY_HOST": "0.0.0.0",  # noqa: S104
        "HEADWAY_TOKEN": OPERATE,
        "HEADWAY_TOKENS": f"read:ann={READ}",
        "HEADWAY_ALLOWED_HOSTS": "box.test another.test",
    }
    with served_in_subprocess(tmp_path, **settings) as program:
        assert NO_TOKEN not in program.startup_log
        assert OPERATE not in program.startup_log
        assert call(program, "GET", "/api/lanes") == 401
        assert call(program, "GET", "/api/lanes", **bearer(READ)) == 200
        submitted = {"job": "echo"}
        assert call(program, "POST", "/api/runs", submitted, **bearer(READ)) == 403
        assert call(program, "POST", "/api/runs", submitted, **bearer(OPERATE)) == 201
        for name, status in (("box.test:80", 200), ("another.test", 200), ("0.0.0.0", 421)):  # noqa: S104
            assert call(program, "GET", "/api/lanes", host=name, **bearer(READ)) == status


@pytest.mark.proves("S3")
def test_server_behind_a_proxy_accepts_its_public_url(tmp_path: Path) -> None:
    public = "https://headway.example.org"
    theirs = {"host": "headway.example.org", "origin": public, "sec_fetch_site": "same-origin"}
    with served_in_subprocess(tmp_path, arguments=("--public-url", public)) as program:
        assert call(program, "POST", "/api/runs", {"job": "echo"}, **theirs) == 201
        theirs["origin"] = "http://headway.example.org"
        assert call(program, "POST", "/api/runs", {"job": "echo"}, **theirs) == 403


@pytest.mark.proves("S3")
def test_config_show_contains_the_public_url(folder: Path) -> None:
    public = {"HEADWAY_PUBLIC_URL": "https://headway.example.org"}
    shown = headway("config", "show", folder=folder, **public).out.splitlines()
    assert "public_url\thttps://headway.example.org\tHEADWAY_PUBLIC_URL" in shown


def test_missing_import_of_the_jobs_file_is_not_reported_as_a_missing_app(folder: Path) -> None:
    (folder / "jobs.py").write_text("import job\n")
    result = headway("serve", "--app", "jobs:hw", "--port", "0", folder=folder)
    error = "ModuleNotFoundError: No module named 'job'"
    assert (result.code, result.err.splitlines()) == (
        2,
        [
            f"headway: --app 'jobs:hw' cannot be imported: {error}",
            f'  File "{folder / "jobs.py"}", line 1, in <module>',
            "    import job",
        ],
    )


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("hw = 1\nhw = (\n", "SyntaxError: '(' was never closed (broken.py, line 2)"),
        ("hw = 1\nhw = 1 / 0\n", "ZeroDivisionError: division by zero"),
        (
            "import asyncio\nasyncio.run(asyncio.sleep(0))\n",
            "RuntimeError: asyncio.run() cannot be called from a running event loop",
        ),
    ],
)
def test_error_in_the_jobs_file_is_reported_with_its_location(
    folder: Path, program: str, error: str
) -> None:
    (folder / "jobs.py").write_text("import broken\n")
    (folder / "broken.py").write_text(program)
    result = headway(
        "serve", "--app", "jobs:hw", "--port", "0", folder=folder, PYTHONWARNINGS="ignore"
    )
    sentence, *frames = result.err.splitlines()
    assert (result.code, sentence) == (2, f"headway: --app 'jobs:hw' cannot be imported: {error}")
    assert [line.partition(", in ")[0] for line in frames if line.startswith("  File ")] == [
        f'  File "{folder / "jobs.py"}", line 1',
        f'  File "{folder / "broken.py"}", line 2',
    ]
    assert program.splitlines()[-1] in result.err


def test_error_in_the_jobs_file_is_json_with_the_json_option(folder: Path) -> None:
    (folder / "jobs.py").write_text("1 / 0\n")
    result = headway("run", "list", "--app", "jobs:hw", "--json", folder=folder)
    message = "--app 'jobs:hw' cannot be imported: ZeroDivisionError: division by zero"
    assert (result.code, json.loads(result.err)) == (
        2,
        {"error": {"code": "configuration_error", "message": message}},
    )


@pytest.mark.parametrize("app", ["jbos:hw", "jobs.inner:hw"])
def test_missing_jobs_file_is_named(folder: Path, app: str) -> None:
    if app.startswith("jobs."):
        (folder / "jobs").mkdir()
    module = app.partition(":")[0]
    result = headway("serve", "--app", app, "--port", "0", folder=folder)
    assert (result.code, result.err) == (
        2,
        f"headway: --app '{app}': there is no module '{module}'\n",
    )


@pytest.mark.parametrize("arguments", [("config", "show"), ("config", "show", "--json")])
def test_command_exits_silently_when_its_output_is_closed(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    """This happens in `headway … | head` after `head` has exited."""
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (141, b"")
