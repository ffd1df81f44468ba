"""Every answer to a generated request is documented in the OpenAPI document (I15, S9)."""

from pathlib import Path

import pytest

from tests.api.fuzz import TOKEN, fuzz
from tests.api.program import served_in_subprocess


@pytest.mark.proves("I15", "S9")
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_request_breaks_the_server_or_gets_an_undocumented_answer(
    tmp_path: Path,
) -> None:
    with served_in_subprocess(tmp_path, HEADWAY_TOKEN=TOKEN) as program:
        fuzzed = fuzz(program.address, example_count=5, folder=tmp_path, timeout_s=380)
    assert not fuzzed.errors, "\n".join(fuzzed.errors)
