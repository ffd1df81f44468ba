"""The files for containers: what they set is known, and what they leave open is nothing."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from headway.settings import PREFIX, Settings

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
VARIABLES: Final = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}


@pytest.fixture
def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return parsed


def test_every_variable_that_the_files_set_is_one_of_ours() -> None:
    for name in ("Dockerfile", "compose.yaml"):
        named = set(re.findall(r"\bHEADWAY_\w+", (DEPLOY / name).read_text()))
        assert named
        assert named <= VARIABLES


def test_s1_two_servers_share_a_database_and_are_reached_from_this_host_only(
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
    for name in ("postgres", "redis"):
        assert "ports" not in compose["services"][name]
        assert compose["services"][name]["healthcheck"]["test"]


def test_s4_no_file_holds_a_secret(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name or "TOKEN" in name:
                assert value.startswith("${"), name


def test_the_image_runs_as_a_user_of_its_own_and_says_whether_it_is_ready() -> None:
    lines = (DEPLOY / "Dockerfile").read_text()
    stages = [line for line in lines.splitlines() if line.startswith("FROM ")]
    assert len(stages) == 2
    last = lines.rpartition("FROM ")[2]
    assert "\nUSER headway\n" in last
    assert "\nHEALTHCHECK " in last
    assert last.index("USER headway") < last.index("CMD")
    assert ":latest" not in lines
