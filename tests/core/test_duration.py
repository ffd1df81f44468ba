"""Lengths of time: what is refused, and where."""

from typing import Any

import pytest

from headway.core.errors import InvalidInput
from headway.services.submit.job import build_job
from headway.testing import a_submit


@pytest.mark.proves("I15")
@pytest.mark.parametrize("place", ["timeout_s", "queue_timeout_s"])
@pytest.mark.parametrize("seconds", [0, 0.0, -1.0, float("nan"), True, "5"])
def test_a_limit_in_which_nothing_can_be_done_is_refused(place: str, seconds: float) -> None:
    async def work(ctx: object) -> None: ...

    with pytest.raises(InvalidInput, match=f"^{place}: must be"):
        a_submit(**{place: seconds})  # type: ignore[arg-type]
    options: dict[str, Any] = {place: seconds}
    with pytest.raises(InvalidInput, match=f"^{place}: must be"):
        build_job(work, **options)
    assert a_submit(timeout_s=0.001, queue_timeout_s=None).timeout_s == 0.001
