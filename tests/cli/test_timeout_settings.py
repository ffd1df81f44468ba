"""Time limits and limits of lanes as settings: defaults, sources, checks and output."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headway import Headway, InvalidInput
from headway.cli.client.http_client import READ_TIMEOUT_S
from headway.cli.commands.config_commands import show
from headway.core.errors import ConfigurationError
from headway.core.timeouts import SSE_PING_INTERVAL_S_MAX
from headway.settings import load_settings
from tests.cli.command import headway, refusal

ROOT = Path(__file__).parents[2]
DEFAULTS = {
    "execution_timeout_s": 1800,
    "permission_timeout_s": 300,
    "lease_ttl_s": 90,
    "compaction_timeout_s": 120,
    "sse_ping_interval_s": 15,
}


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.proves("R4.14")
def test_time_limits_have_the_required_default_values(here: Path) -> None:
    settings = load_settings()
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS
    assert {name: getattr(Headway().timeouts, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.proves("R4.14")
@pytest.mark.parametrize(("name", "seconds"), [(name, s / 2) for name, s in DEFAULTS.items()])
def test_time_limit_comes_from_the_file_a_variable_or_an_argument(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float
) -> None:
    (here / "headway.toml").write_text(f"{name} = {seconds}")
    assert getattr(Headway().timeouts, name) == seconds
    monkeypatch.setenv(f"HEADWAY_{name.upper()}", str(seconds + 1))
    assert getattr(Headway().timeouts, name) == seconds + 1
    argument: dict[str, Any] = {name: seconds + 2}
    assert getattr(Headway(**argument).timeouts, name) == seconds + 2


@pytest.mark.proves("R4.14")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "permission_timeout_s = 1800",
            (
                "permission_timeout_s in headway.toml must be less than execution_timeout_s, or no"
                " run would be left to receive the answer; it is 1800 s and execution_timeout_s is"
                " 1800 s: lower the first or raise the second"
            ),
        ),
        (
            "permission_timeout_s = 50\nexecution_timeout_s = 100",
            (
                "compaction_timeout_s in headway.toml must be less than execution_timeout_s, or the"
                " run would end before its compaction; it is 120 s and execution_timeout_s is"
                " 100 s: lower the first or raise the second"
            ),
        ),
        (
            "lease_ttl_s = 0.1",
            "lease_ttl_s in headway.toml must be at least 0.5 s, and is 0.1 s",
        ),
        (
            "lease_ttl_s = 100000",
            "lease_ttl_s in headway.toml must be at most 86,400 s, and is 100000 s",
        ),
        (
            "execution_timeout_s = 0",
            "execution_timeout_s in headway.toml must be more than 0 s, and is 0 s",
        ),
        (
            "execution_timeout_s = nan",
            "execution_timeout_s in headway.toml must be more than 0 s, and is nan s",
        ),
        (
            "sse_ping_interval_s = 40",
            "sse_ping_interval_s in headway.toml must be at most 30 s, and is 40 s",
        ),
        (
            "compaction_timeout_s = 'long'",
            "compaction_timeout_s in headway.toml is invalid: it should be a valid number",
        ),
    ],
)
def test_time_limits_that_cannot_work_stop_the_program_with_one_sentence(
    here: Path, text: str, sentence: str
) -> None:
    (here / "headway.toml").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    assert str(refused.value).startswith(sentence)


@pytest.mark.proves("R4.14")
def test_wrong_variable_is_named_by_the_command(folder: Path) -> None:
    sentence = refusal("config", "show", folder=folder, HEADWAY_LEASE_TTL_S="-1")
    assert sentence == "HEADWAY_LEASE_TTL_S must be at least 0.5 s, and is -1 s"


@pytest.mark.proves("R4.14")
def test_time_limit_arguments_are_checked_against_the_settings(here: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        Headway(execution_timeout_s=200)
    assert str(refused.value).startswith(
        "permission_timeout_s must be less than execution_timeout_s"
    )
    with pytest.raises(InvalidInput, match="lease_ttl_s must be a number of seconds"):
        Headway(lease_ttl_s="long")  # type: ignore[arg-type]
    hw = Headway(execution_timeout_s=200, permission_timeout_s=60)
    assert hw.timeouts.execution_timeout_s == 200


@pytest.mark.proves("R4.14", "R3.10")
async def test_time_limits_and_lanes_are_shown(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "headway.toml").write_text('lease_ttl_s = 30\n[lanes]\nmain = 5\n"cron" = 1')
    monkeypatch.setenv("HEADWAY_EXECUTION_TIMEOUT_S", "2700.5")
    await show()
    shown = capsys.readouterr().out.splitlines()
    assert "execution_timeout_s\t2700.5\tHEADWAY_EXECUTION_TIMEOUT_S" in shown
    assert "lease_ttl_s\t30\theadway.toml" in shown
    assert "sse_ping_interval_s\t15\tdefault" in shown
    assert "lanes\tmain=5 cron=1\theadway.toml" in shown
    await show(json=True)
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    settings = {line["name"]: line["value"] for line in lines}
    assert (settings["execution_timeout_s"], settings["lease_ttl_s"]) == (2700.5, 30)
    assert settings["lanes"] == {"main": 5, "cron": 1}


@pytest.mark.proves("R3.4", "R3.10")
def test_lanes_are_a_table_of_the_file_or_one_variable(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().lanes == {}
    (here / "headway.toml").write_text('[lanes]\n" main " = 5\n"job:mail" = 0')
    assert load_settings().lanes == {"main": 5, "job:mail": 0}
    monkeypatch.setenv("HEADWAY_LANES", "main=7  job:a=b=2")
    assert load_settings().lanes == {"main": 7, "job:a=b": 2}


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize(
    ("lanes", "sentence"),
    [
        ("main", "HEADWAY_LANES is invalid: 'main' should be a lane and its limit, such as"),
        ("main=5 main=6", "HEADWAY_LANES is invalid: the lane 'main' is named twice"),
        ("cron=1 main=-1", "HEADWAY_LANES is invalid: 'main=-1' should be a lane and its"),
        ("main=9999999", "HEADWAY_LANES is invalid: lanes.main must be 0 to 1,000,000"),
    ],
)
def test_invalid_lanes_variable_is_refused_in_one_sentence(
    folder: Path, lanes: str, sentence: str
) -> None:
    assert refusal("config", "show", folder=folder, HEADWAY_LANES=lanes).startswith(sentence)


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lanes = 5", "lanes in headway.toml is invalid: it should be a table of lanes"),
        (
            "[lanes]\nmain = '5'",
            "lanes in headway.toml is invalid: lanes.main must be a whole",
        ),
        ("[lanes]\nmain = true", "lanes in headway.toml is invalid: lanes.main must be a"),
    ],
)
def test_wrong_lanes_of_the_file_are_refused(folder: Path, text: str, sentence: str) -> None:
    (folder / "headway.toml").write_text(text)
    result = headway("config", "show", folder=folder)
    assert result.err.removeprefix("headway: ").startswith(sentence)


def read_silence_s(script: str) -> float:
    """Return the seconds of silence after which the script closes a stream."""
    match = re.search(
        r"^const SILENCE_MS\w* = ([0-9_]+);$", (ROOT / script).read_text(), re.MULTILINE
    )
    assert match is not None
    return int(match[1]) / 1000


@pytest.mark.proves("R4.14")
def test_each_client_waits_at_least_one_and_a_half_times_the_longest_ping_interval() -> None:
    """A ping may be late: it waits for a busy server and a slow network."""
    limits_s = {
        "page": read_silence_s("web/src/stream/follow.ts"),
        "browser module": read_silence_s("src/headway/api/static/events.js"),
        "command line": READ_TIMEOUT_S,
    }
    assert {
        name: limit_s >= 1.5 * SSE_PING_INTERVAL_S_MAX for name, limit_s in limits_s.items()
    } == (dict.fromkeys(limits_s, True))
