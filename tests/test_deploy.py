"""The container files: they set known variables only, and expose nothing.

A container engine may be missing here. The image is therefore built in a folder that contains only
the files that the Dockerfile copies, by the same commands, and the commands of the compose file are
run.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from headway.settings import PREFIX, Settings
from tests.cli.command import environment, headway
from tests.servers import PostgresServer

ROOT: Final = Path(__file__).parents[1]
DEPLOY: Final = ROOT / "deploy"
BUILD_S_MAX: Final = 600
VARIABLES: Final = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}


@pytest.fixture
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return parsed


def test_the_deployment_files_set_only_known_variables() -> None:
    for name in ("Dockerfile", "compose.yaml"):
        named = set(re.findall(r"\bHEADWAY_\w+", (DEPLOY / name).read_text()))
        assert named
        assert named <= VARIABLES


@pytest.mark.proves("S1")
def test_two_servers_share_a_database_and_are_reached_from_this_host_only(
    compose: dict[str, Any],
) -> None:
    servers = {
        name: service
        for name, service in compose["services"].items()
        if name.startswith("headway-")
    }
    assert len(servers) == 2
    for service in servers.values():
        assert service["environment"]["HEADWAY_TOKEN"].startswith("${HEADWAY_TOKEN:?")
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["depends_on"]["postgres"]["condition"] == "service_healthy"
        assert service["depends_on"]["schema"]["condition"] == "service_completed_successfully"
    for name in ("postgres", "redis"):
        assert "ports" not in compose["services"][name]
        assert compose["services"][name]["healthcheck"]["test"]


@pytest.mark.proves("S4")
def test_no_file_contains_a_secret(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name or "TOKEN" in name:
                assert value.startswith("${"), name


@pytest.mark.proves("R4.3")
def test_the_schema_is_created_before_the_servers_start(
    compose: dict[str, Any], postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """On PostgreSQL a server creates no tables, so they must exist when it starts."""
    schema = compose["services"]["schema"]
    assert schema["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert schema["restart"] == "no"
    postgres_server.create_database("deployed")
    try:
        url = {"HEADWAY_DATABASE_URL": postgres_server.url("deployed")}
        assert headway("db", "check", folder=tmp_path, **url).code != 0
        program, *arguments = schema["command"]
        assert program == "headway"
        assert headway(*arguments, folder=tmp_path, **url).code == 0
        assert headway("db", "check", folder=tmp_path, **url).code == 0
    finally:
        postgres_server.drop_database("deployed")


def test_the_mounted_folder_is_in_the_repository_and_has_jobs(
    compose: dict[str, Any], tmp_path: Path
) -> None:
    """`docker compose up` starts as documented, without manual steps."""
    services = compose["services"].items()
    servers = [service for name, service in services if name.startswith("headway-")]
    for service in servers:
        mounted = dict(volume.split(":")[:2][::-1] for volume in service["volumes"])
        jobs = DEPLOY / mounted["/app"]
        folder = tmp_path / service["ports"][0].replace(":", "-")
        for name in tracked(jobs):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(jobs / name, folder / name)
        variable = service["environment"]["HEADWAY_APP"]
        app = variable.removeprefix("${HEADWAY_APP:-").removesuffix("}")
        load = "from headway.cli.load_app import load_app; print(*load_app(None).jobs)"
        loaded = subprocess.run(
            [sys.executable, "-c", load],
            cwd=folder, env=environment(HEADWAY_APP=app),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert loaded.returncode == 0, loaded.stderr
        assert loaded.stdout.split()


def test_the_schema_service_needs_only_the_database_url(compose: dict[str, Any]) -> None:
    schema = compose["services"]["schema"]
    assert set(schema["environment"]) == {"HEADWAY_DATABASE_URL"}
    assert schema["volumes"] == []


def test_every_image_is_pinned_to_a_minor_version(compose: dict[str, Any]) -> None:
    built = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    services = compose["services"].values()
    pulled = [service["image"] for service in services if "image" in service]
    assert built
    assert pulled
    for image in (*built, *pulled):
        assert re.fullmatch(r"[\w/]+:\d+\.\d+[\w.-]*", image), image


@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", "Dockerfile"),
        ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"),
    ],
    ids=["dockerfile", "compose"],
)
def test_the_linters_report_nothing(command: tuple[str, ...]) -> None:
    program = Path(sys.executable).with_name(command[0])
    ended = subprocess.run(
        [program, *command[1:]], cwd=DEPLOY, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def tracked(folder: Path, path: str = ".") -> list[str]:
    """Return the files under version control at the path. There must be at least one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", path],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.split("\0") if name]
    assert names, path
    return names


def copied() -> Iterator[tuple[str, str]]:
    """Yield the paths that the build copies from the checkout, and their targets."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("COPY ") and "--from=" not in line:
            *sources, target = line.split()[1:]
            yield from ((source, target) for source in sources)


def ignored() -> set[str]:
    return set((ROOT / ".dockerignore").read_text().split())


def test_the_build_copies_every_file_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {"pyproject.toml", "hatch_build.py", "src", "web", project["readme"]}
    needed |= set(project["license-files"])
    sources = {source for source, _ in copied()}
    assert sources == needed
    assert not sources & ignored()


def test_the_build_copies_no_local_build_results() -> None:
    """An old page, or Node modules of another system, would end up in the image."""
    built = {
        line.strip("/") for line in (ROOT / ".gitignore").read_text().split() if line[-1] == "/"
    }
    inside = {path for path in built if path.split("/")[0] in {source for source, _ in copied()}}
    assert inside >= {"src/headway/_ui", "web/node_modules"}
    assert inside <= ignored()


@pytest.mark.slow
@pytest.mark.timeout(BUILD_S_MAX)
def test_the_image_can_be_built_and_has_the_page(tmp_path: Path) -> None:
    """Build from the files under version control, as the build stage does; needs npm's registry."""
    folder = tmp_path / "build"
    for source, target in copied():
        for name in tracked(ROOT, source):
            within = Path(name).relative_to(source) if name != source else Path(name)
            (folder / target / within).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / target / within)
    # Use the pinned build tools of this environment instead of downloading them.
    wheel_here = ["wheel", "--no-deps", "--no-build-isolation", "-w", "out", "."]
    ended = subprocess.run(
        [sys.executable, "-m", "pip", *wheel_here],
        cwd=folder, env=os.environ | {"npm_config_prefer_offline": "true"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (wheel,) = (folder / "out").glob("headway-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "headway/_ui/index.html" in names
    assert any(name.startswith("headway/_ui/assets/") for name in names)


def test_the_image_runs_as_its_own_user_and_has_a_health_check() -> None:
    lines = (DEPLOY / "Dockerfile").read_text()
    stages = [line for line in lines.splitlines() if line.startswith("FROM ")]
    assert len(stages) == 2
    last = lines.rpartition("FROM ")[2]
    assert "useradd --create-home --uid 10001 " in last
    assert "\nUSER 10001\n" in last
    assert "\nHEALTHCHECK " in last
    assert last.index("USER 10001") < last.index("CMD")
    assert ":latest" not in lines
