"""Invalid arguments are refused at once in one sentence, and change nothing."""

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
                "work must be a function that returns an awaitable,"
                " such as `lambda: ask(message)`, not an awaitable itself"
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
async def test_invalid_argument_is_named(
    lanes: Lanes, wrong: dict[str, Any], sentence: str
) -> None:
    arguments: dict[str, Any] = {"lane": "main", "work": work} | wrong
    with pytest.raises(InvalidWork) as refused:
        await lanes.run(arguments.pop("lane"), arguments.pop("work"), **arguments)
    assert str(refused.value) == sentence
    assert {view.size for view in lanes.views()} == {0}


@pytest.mark.proves("I15")
async def test_coroutine_is_not_accepted_as_a_function(lanes: Lanes) -> None:
    with pytest.raises(InvalidWork, match="not an awaitable itself"):
        await lanes.run("main", work())  # type: ignore[arg-type]


@pytest.mark.proves("I15")
async def test_invalid_argument_is_refused_in_a_session(
    lanes: Lanes, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidWork, match="work must be a function"):
        await lanes.run_in_session("ann", "tidy up")  # type: ignore[arg-type]
    assert {view.size for view in lanes.views()} == {0}
    assert caplog.records == [], "the work was never started, so nothing failed"
