"""Whatever is sent, every answer is one that the OpenAPI document tells of (I15, S9)."""

from pathlib import Path

import pytest

from tests.api.fuzz import TOKEN, fuzz
from tests.api.program import served_apart


@pytest.mark.proves("I15", "S9")
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_request_breaks_the_server_or_gets_an_undocumented_answer(
    tmp_path: Path,
) -> None:
    with served_apart(tmp_path, HEADWAY_TOKEN=TOKEN) as program:
        fuzzed = fuzz(program.address, example_count=5, folder=tmp_path, timeout_s=380)
    assert not fuzzed.faults, "\n".join(fuzzed.faults)
