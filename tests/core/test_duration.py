"""Durations that are refused, and the fields that the errors name."""

from typing import Any

import pytest

from headway.core.errors import InvalidInput
from headway.services.submit.job import build_job
from headway.testing import a_submit


@pytest.mark.proves("I15")
@pytest.mark.parametrize("field", ["timeout_s", "queue_timeout_s"])
@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, float("nan"), True, "5"])
def test_invalid_timeout_of_a_job_or_submission_is_refused(field: str, seconds: float) -> None:
    async def work(ctx: object) -> None: ...

    with pytest.raises(InvalidInput, match=f"^{field} must be"):
        a_submit(**{field: seconds})  # type: ignore[arg-type]
    options: dict[str, Any] = {field: seconds}
    with pytest.raises(InvalidInput, match=f"^{field} must be"):
        build_job(work, **options)
    assert a_submit(timeout_s=0.001, queue_timeout_s=None).timeout_s == 0.001
