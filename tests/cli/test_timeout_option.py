"""`headway run submit --timeout-s`: a number, `none`, or what the job says."""

import pytest

from headway.cli.main import app
from headway.core.ids import RunId
from tests.cli.reached import Said

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.proves("R4.14")]


@pytest.mark.parametrize(
    ("options", "limit_s"),
    [((), 1800), (("--timeout-s", "none"), None), (("--timeout-s", "2.5"), 2.5)],
)
async def test_time_limit_of_a_submission(
    said: Said, options: tuple[str, ...], limit_s: float | None
) -> None:
    command, given, _ = app.parse_args(["run", "submit", "echo", *options])
    (run_id,) = await said.lines(command(*given.args, **given.kwargs))
    record = await said.client.hw.run(RunId(run_id)).record()
    assert record.run.timeout_us == (None if limit_s is None else limit_s * 1_000_000)
