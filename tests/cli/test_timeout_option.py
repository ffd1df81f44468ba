"""`headway run submit --timeout-s`: a number, `none`, or the default of the job."""

import pytest

from headway.cli.main import app
from headway.core.ids import RunId
from tests.cli.command_runner import CommandRunner

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("R4.14")]


@pytest.mark.parametrize(
    ("options", "limit_s"),
    [((), 1800), (("--timeout-s", "none"), None), (("--timeout-s", "2.5"), 2.5)],
)
async def test_submission_sets_the_time_limit_of_the_run(
    cli: CommandRunner, options: tuple[str, ...], limit_s: float | None
) -> None:
    command, bound, _ = app.parse_args(["run", "submit", "echo", *options])
    (run_id,) = await cli.lines(command(*bound.args, **bound.kwargs))
    record = await cli.client.hw.run(RunId(run_id)).record()
    assert record.run.timeout_us == (None if limit_s is None else limit_s * 1_000_000)
