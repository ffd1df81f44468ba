"""A planted bug: the edits of the source, and the test that must fail because of them."""

from dataclasses import dataclass

Edit = tuple[str, str]
"""The text to replace, which the file contains exactly once, and its replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    """The wrong behavior, as a plain sentence."""
    file: str
    """The path below src/headway."""
    edits: tuple[Edit, ...]
    test_file: str
    test: str
    """The test that fails with the bug and passes without it."""
    backend: str = "sqlite"
