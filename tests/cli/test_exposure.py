"""Who can reach a server, and with what: as it is configured, and as it is told (S1, S2, S3)."""

import json
import os
import subprocess
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.api.program import Program, served_apart
from tests.cli.command import TIMEOUT_S, command, environment, headway, refusal

OPERATE = "operate-operate-operate"
READ = "read-read-read-read-read"
NO_TOKEN = "no token is set: whoever can reach this address can do everything"


def called(program: Program, method: str, path: str, body: object = None, **headers: str) -> int:
    """The status of the answer."""
    where = urlsplit(program.address)
    connection = HTTPConnection("127.0.0.1", where.port or 0, timeout=TIMEOUT_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        said = None if body is None else json.dumps(body)
        connection.request(method, path, said, {"content-type": "application/json", **named})
        return connection.getresponse().status
    finally:
        connection.close()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.proves("S1")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])  # noqa: S104
def test_an_address_that_others_reach_is_refused_without_a_token(folder: Path, host: str) -> None:
    sentence = (
        f"host {host!r} can be reached by others, so a token is needed: set HEADWAY_TOKEN,"
        " or serve on 127.0.0.1"
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
        ({"HEADWAY_PUBLIC_URL": "example.org"}, "the public URL 'example.org' must be where"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_made(
    folder: Path, settings: dict[str, str], problem: str
) -> None:
    sentence = refusal("serve", "--port", "0", folder=folder, **settings)
    assert sentence.startswith(problem)
    assert READ not in sentence


@pytest.mark.proves("S3")
def test_a_name_that_cannot_be_right_is_refused(folder: Path) -> None:
    ended = headway("serve", "--port", "0", folder=folder, HEADWAY_ALLOWED_HOSTS="https://box")
    assert (ended.code, len(ended.err.splitlines())) == (2, 1)
    assert ended.err.startswith("headway: allowed_hosts has 'https://box'")


@pytest.mark.proves("S2")
def test_without_a_token_the_banner_says_so(tmp_path: Path) -> None:
    with served_apart(tmp_path) as program:
        assert NO_TOKEN in program.said
        assert called(program, "GET", "/api/lanes") == 200
        for wrong in ("box.test", "evil.example"):
            assert called(program, "GET", "/api/lanes", host=wrong) == 421


@pytest.mark.proves("S2")
def test_without_a_token_a_log_for_programs_says_so_as_a_warning(tmp_path: Path) -> None:
    """`server_ready` is no warning, and is not there."""
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
    ("settings", "is_noted"),
    [
        ({"HEADWAY_HOST": "0.0.0.0"}, True),  # noqa: S104
        ({"HEADWAY_HOST": "::"}, True),
        ({"HEADWAY_HOST": "[::]"}, True),
        ({"HEADWAY_HOST": "0.0.0.0", "HEADWAY_ALLOWED_HOSTS": "box"}, False),  # noqa: S104
        ({"HEADWAY_HOST": "0.0.0.0", "HEADWAY_PUBLIC_URL": "https://box"}, False),  # noqa: S104
        ({}, False),
    ],
)
def test_the_address_of_the_banner_is_one_that_answers(
    tmp_path: Path, settings: dict[str, str], is_noted: bool
) -> None:
    with served_apart(tmp_path, HEADWAY_TOKEN=OPERATE, **settings) as program:
        with urlopen(f"{program.address}/ui/", timeout=TIMEOUT_S) as answer:  # noqa: S310
            assert answer.status == 200
        assert ("HEADWAY_ALLOWED_HOSTS" in program.said) == is_noted


@pytest.mark.proves("S2")
def test_each_token_is_good_for_its_scope_and_the_names_are_those_configured(
    tmp_path: Path,
) -> None:
    """On all addresses of this host, as in a container."""
    settings = {
        "HEADWAY_HOST": "0.0.0.0",  # noqa: S104
        "HEADWAY_TOKEN": OPERATE,
        "HEADWAY_TOKENS": f"read:ann={READ}",
        "HEADWAY_ALLOWED_HOSTS": "box.test another.test",
    }
    with served_apart(tmp_path, **settings) as program:
        assert NO_TOKEN not in program.said
        assert OPERATE not in program.said
        assert called(program, "GET", "/api/lanes") == 401
        assert called(program, "GET", "/api/lanes", **bearer(READ)) == 200
        submitted = {"job": "echo"}
        assert called(program, "POST", "/api/runs", submitted, **bearer(READ)) == 403
        assert called(program, "POST", "/api/runs", submitted, **bearer(OPERATE)) == 201
        for name, status in (("box.test:80", 200), ("another.test", 200), ("0.0.0.0", 421)):  # noqa: S104
            assert called(program, "GET", "/api/lanes", host=name, **bearer(READ)) == status


@pytest.mark.proves("S3")
def test_behind_a_proxy_the_server_is_told_where_browsers_find_it(tmp_path: Path) -> None:
    public = "https://headway.example.org"
    theirs = {"host": "headway.example.org", "origin": public, "sec_fetch_site": "same-origin"}
    with served_apart(tmp_path, words=("--public-url", public)) as program:
        assert called(program, "POST", "/api/runs", {"job": "echo"}, **theirs) == 201
        theirs["origin"] = "http://headway.example.org"
        assert called(program, "POST", "/api/runs", {"job": "echo"}, **theirs) == 403


@pytest.mark.proves("S3")
def test_the_public_address_is_shown_with_the_rest(folder: Path) -> None:
    public = {"HEADWAY_PUBLIC_URL": "https://headway.example.org"}
    shown = headway("config", "show", folder=folder, **public).out.splitlines()
    assert "public_url\thttps://headway.example.org\tHEADWAY_PUBLIC_URL" in shown


def test_a_module_that_the_file_of_jobs_wants_is_not_taken_for_that_file(folder: Path) -> None:
    (folder / "jobs.py").write_text("import job\n")
    ended = headway("serve", "--app", "jobs:hw", "--port", "0", folder=folder)
    words = "ModuleNotFoundError: No module named 'job'"
    assert (ended.code, ended.err.splitlines()) == (
        2,
        [
            f"headway: --app 'jobs:hw' cannot be imported: {words}",
            f'  File "{folder / "jobs.py"}", line 1, in <module>',
            "    import job",
        ],
    )


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("hw = 1\nhw = (\n", "SyntaxError: '(' was never closed (broken.py, line 2)"),
        ("hw = 1\nhw = 1 / 0\n", "ZeroDivisionError: division by zero"),
        (
            "import asyncio\nasyncio.run(asyncio.sleep(0))\n",
            "RuntimeError: asyncio.run() cannot be called from a running event loop",
        ),
    ],
)
def test_a_fault_in_the_file_of_jobs_is_a_sentence_and_its_place_in_that_file(
    folder: Path, program: str, words: str
) -> None:
    (folder / "jobs.py").write_text("import broken\n")
    (folder / "broken.py").write_text(program)
    ended = headway(
        "serve", "--app", "jobs:hw", "--port", "0", folder=folder, PYTHONWARNINGS="ignore"
    )
    sentence, *places = ended.err.splitlines()
    assert (ended.code, sentence) == (2, f"headway: --app 'jobs:hw' cannot be imported: {words}")
    assert [line.partition(", in ")[0] for line in places if line.startswith("  File ")] == [
        f'  File "{folder / "jobs.py"}", line 1',
        f'  File "{folder / "broken.py"}", line 2',
    ]
    assert program.splitlines()[-1] in ended.err


def test_a_fault_in_the_file_of_jobs_is_json_where_that_is_asked_for(folder: Path) -> None:
    (folder / "jobs.py").write_text("1 / 0\n")
    ended = headway("run", "list", "--app", "jobs:hw", "--json", folder=folder)
    message = "--app 'jobs:hw' cannot be imported: ZeroDivisionError: division by zero"
    assert (ended.code, json.loads(ended.err)) == (
        2,
        {"error": {"code": "configuration_error", "message": message}},
    )


@pytest.mark.parametrize("place", ["jbos:hw", "jobs.inner:hw"])
def test_a_file_of_jobs_that_is_not_there_is_named(folder: Path, place: str) -> None:
    if place.startswith("jobs."):
        (folder / "jobs").mkdir()
    module = place.partition(":")[0]
    ended = headway("serve", "--app", place, "--port", "0", folder=folder)
    assert (ended.code, ended.err) == (
        2,
        f"headway: --app '{place}': there is no module '{module}'\n",
    )


@pytest.mark.parametrize("words", [("config", "show"), ("config", "show", "--json")])
def test_output_that_nobody_reads_any_more_ends_the_command_quietly(
    folder: Path, words: tuple[str, ...]
) -> None:
    """As in `headway … | head`, once head has seen enough."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
