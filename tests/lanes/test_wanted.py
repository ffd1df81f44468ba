"""What a lane cannot be asked for is told in one sentence, at once, and changes nothing."""

from typing import Any

import pytest

from headway.lanes import InvalidWork, Lanes


async def work() -> str:
    return "done"


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"priority": "urgent"},
            (
                "priority must be one of Priority.FOREGROUND, Priority.NORMAL, Priority.BACKGROUND,"
                " not 'urgent'"
            ),
        ),
        (
            {"work": "tidy up"},
            (
                "work must be a function that gives an awaitable,"
                " such as `lambda: ask(message)`, not what it returns"
            ),
        ),
        ({"lane": 7}, "lane must be text, or None for the main lane"),
        ({"timeout_s": -1}, "timeout_s must be a number of seconds, 0 or more, not -1"),
        ({"timeout_s": "1"}, "timeout_s must be a number of seconds, 0 or more, not '1'"),
        ({"timeout_s": float("nan")}, "timeout_s must be a number of seconds, 0 or more, not nan"),
        ({"warn_after_s": None}, "warn_after_s must be a number of seconds, 0 or more, not None"),
        ({"on_wait": "me"}, "on_wait must be a function, or None"),
    ],
)
async def test_a_mistake_is_named(lanes: Lanes, wrong: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"lane": "main", "work": work} | wrong
    with pytest.raises(InvalidWork) as refused:
        await lanes.run(asked.pop("lane"), asked.pop("work"), **asked)
    assert str(refused.value) == sentence
    assert {view.size for view in lanes.views()} == {0}


@pytest.mark.proves("I15")
async def test_a_coroutine_is_not_a_function(lanes: Lanes) -> None:
    with pytest.raises(InvalidWork, match="not what it returns"):
        await lanes.run("main", work())  # type: ignore[arg-type]


@pytest.mark.proves("I15")
async def test_in_a_session_too(lanes: Lanes, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidWork, match="work must be a function"):
        await lanes.run_in_session("ann", "tidy up")  # type: ignore[arg-type]
    assert {view.size for view in lanes.views()} == {0}
    assert caplog.records == [], "nothing has failed: it was never begun"
