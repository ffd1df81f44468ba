"""The text that each planted bug of `make mutants` replaces exists once, and its test exists."""

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT
from tests.mutants.mutant import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bug_matches_the_source_once_and_names_a_test(mutant: Mutant) -> None:
    text = (ROOT / "src" / "headway" / mutant.file).read_text()
    assert [text.count(old) for old, _ in mutant.edits] == [1] * len(mutant.edits)
    assert f"def {mutant.test}(" in (ROOT / mutant.test_file).read_text()
