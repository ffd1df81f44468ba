"""Every bug that `make mutants` plants finds its place, and its test is there."""

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT
from tests.mutants.mutant import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_has_one_place_and_a_test(mutant: Mutant) -> None:
    text = (ROOT / "src" / "headway" / mutant.file).read_text()
    assert [text.count(old) for old, _ in mutant.edits] == [1] * len(mutant.edits)
    assert f"def {mutant.test}(" in (ROOT / mutant.test_file).read_text()
