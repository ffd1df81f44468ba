"""Names of lanes (R3.4), and the names of probe lanes (R3.6)."""

import pytest

from headway.lanes import DEFAULT_LIMITS, Lanes, global_lane, is_probe_lane, session_lane
from tests.lanes.scenes import WorkStage


@pytest.mark.proves("R3.4")
@pytest.mark.parametrize(
    ("key", "session_id", "expected"),
    [
        ("ann", None, "session:ann"),
        ("  ann ", None, "session:ann"),
        ("session:ann", None, "session:ann"),
        (" session:ann", None, "session:ann"),
        ("ann", "id-7", "session:ann"),
        (None, "id-7", "session:id-7"),
        ("", " id-7 ", "session:id-7"),
        ("", None, "session:main"),
        ("   ", None, "session:main"),
        (None, None, "session:main"),
    ],
)
def test_session_lane_is_named_after_the_key_or_else_the_id(
    key: str | None, session_id: str | None, expected: str
) -> None:
    assert session_lane(key, session_id) == expected
    assert session_lane(expected) == expected


@pytest.mark.proves("R3.4")
@pytest.mark.parametrize(
    ("name", "expected"), [("cron", "cron"), (" cron\n", "cron"), ("", "main"), (None, "main")]
)
def test_name_of_the_global_lane_is_trimmed_and_defaults_to_main(
    name: str | None, expected: str
) -> None:
    assert global_lane(name) == expected


@pytest.mark.proves("R3.4")
async def test_every_lane_name_is_trimmed(lanes: Lanes, stage: WorkStage) -> None:
    await stage.call(lanes.run(" cron ", stage.work("a")))
    await stage.call(lanes.run("cron", stage.work("b")))
    assert (lanes.view("cron\t").size, stage.begun) == (2, ["a"])
    lanes.set_limit("  cron", 2)
    assert stage.begun == ["a"]
    await stage.release()
    assert stage.begun == ["a", "b"]


@pytest.mark.proves("R3.4")
def test_main_cron_and_subagent_exist_with_their_limits() -> None:
    assert set(DEFAULT_LIMITS) == {"main", "cron", "subagent"}
    assert DEFAULT_LIMITS["cron"] == 1
    lanes = Lanes({"main": 7, "subagent": 5})
    assert {view.name: view.max_concurrent for view in lanes.views()} == {
        "main": 7,
        "cron": 1,
        "subagent": 5,
    }


@pytest.mark.proves("R3.6")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("auth-probe:mail", True),
        ("session:probe-1", True),
        ("auth-probe", False),
        ("session:problem", False),
        ("main", False),
        ("my-auth-probe:x", False),
    ],
)
def test_probe_lanes_are_recognized_by_their_names(name: str, expected: bool) -> None:
    assert is_probe_lane(name) is expected
