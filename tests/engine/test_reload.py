"""Lane limits from the configuration: applied at the start and on reload."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headway import ConfigurationError, Headway, InvalidInput, RunContext
from tests.engine.scenes import Gauge

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("R3.10")]


Configure = Callable[[str], object]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Return a function that writes `headway.toml` in the working directory."""
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "headway.toml").write_text


async def limits(hw: Headway) -> dict[str, int]:
    return {view.lane.name: view.lane.max_concurrent for view in await hw.lanes.list()}


async def test_configured_limits_are_applied_at_start(url: str, configure: Configure) -> None:
    configure('[lanes]\n" main " = 5\n"mail" = 2\n"job:count" = 4')
    hw = Headway(url)

    @hw.job(concurrency=9)
    async def count(ctx: RunContext) -> None: ...

    async with hw:
        expected = {"main": 5, "mail": 2, "job:count": 4}
        assert expected.items() <= (await limits(hw)).items()


async def test_a_limit_set_by_a_person_survives_a_restart_with_the_same_configuration(
    url: str, configure: Configure
) -> None:
    configure("[lanes]\nmain = 5")
    async with Headway(url) as hw:
        await hw.lanes.set("main", max_concurrent=8)
    async with Headway(url) as hw:
        assert (await limits(hw))["main"] == 8
    configure("[lanes]\nmain = 6")
    async with Headway(url) as hw:
        assert (await limits(hw))["main"] == 6


async def test_the_lane_limits_argument_replaces_the_configured_lanes(
    url: str, configure: Configure
) -> None:
    configure("[lanes]\nmain = 5\ncron = 4")
    async with Headway(url, lane_limits={" main ": 7}) as hw:
        assert {"main": 7, "cron": 1}.items() <= (await limits(hw)).items()
        assert (await hw.reload()).lanes == ()
    with pytest.raises(InvalidInput, match=r"lanes\.main must be a whole number"):
        Headway(url, lane_limits={"main": "many"})  # type: ignore[dict-item]


async def test_headway_without_an_engine_does_not_apply_the_configuration(
    url: str, configure: Configure
) -> None:
    configure("[lanes]\nmain = 5")
    async with Headway(url).without_engine() as hw:
        assert (await limits(hw))["main"] == 3


async def test_reload_applies_new_limits_and_names_settings_that_need_a_restart(
    url: str, configure: Configure
) -> None:
    configure("[lanes]\nmain = 1")
    hw, gauge, release = Headway(url), Gauge(), asyncio.Event()

    @hw.job
    async def work(ctx: RunContext) -> None:
        async with gauge.counted(ctx.key):
            await release.wait()

    async with asyncio.timeout(30), hw:
        for number in range(4):
            await hw.start("work", key=str(number))
        await gauge.wait_for_count(1)
        configure("port = 9000\nlease_ttl_s = 60\n[lanes]\nmain = 3")
        reloaded = await hw.reload()
        changed = [(lane.name, lane.previous_limit, lane.max_concurrent) for lane in reloaded.lanes]
        assert changed == [("main", 1, 3)]
        assert reloaded.restart_to_apply == ("port", "lease_ttl_s")
        await gauge.wait_for_count(3)
        release.set()


async def test_a_reload_without_changes_keeps_a_limit_set_by_a_person(
    url: str, configure: Configure
) -> None:
    configure("[lanes]\nmain = 5")
    async with Headway(url) as hw:
        await hw.lanes.set("main", max_concurrent=2)
        assert (await hw.reload()).lanes == ()
        assert (await limits(hw))["main"] == 2


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize(
    "invalid",
    [
        "[lanes]\nmain = 9\ncron = -1",
        "permission_timeout_s = 9000\n[lanes]\nmain = 9",
        "colour = 'red'\n[lanes]\nmain = 9",
        "[lanes\nmain = 9",
    ],
)
async def test_reload_of_an_invalid_configuration_changes_nothing(
    url: str, configure: Configure, invalid: str
) -> None:
    configure("[lanes]\nmain = 5")
    async with Headway(url) as hw:
        configure(invalid)
        with pytest.raises(ConfigurationError):
            await hw.reload()
        assert (await limits(hw))["main"] == 5
