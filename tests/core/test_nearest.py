"""What was meant is named first (I15)."""

import pytest

from headway.core.suggest import suggest_names


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("word", "names", "told"),
    [
        ("tpyo", ["main", "typo", "cron"], "typo, cron, main"),
        ("mirror", ["mirror_all", "fetch", "mirrors"], "mirrors, mirror_all, fetch"),
        ("b", ["c", "a"], "a, c"),
        ("b", [], "none"),
        (
            "b",
            [f"job-{n:02}" for n in range(12)],
            f"{', '.join(f'job-{n:02}' for n in range(10))} and 2 more",
        ),
    ],
)
def test_the_likeliest_name_comes_first(word: str, names: list[str], told: str) -> None:
    assert suggest_names(word, names) == told
