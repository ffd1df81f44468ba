"""The most similar name is suggested first (I15)."""

import pytest

from headway.core.suggest import suggest_names


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("name", "names", "expected"),
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
def test_most_similar_name_comes_first(name: str, names: list[str], expected: str) -> None:
    assert suggest_names(name, names) == expected
