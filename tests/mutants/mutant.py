"""A planted bug: where it goes, and which test must notice."""

from dataclasses import dataclass

Edit = tuple[str, str]
"""What is there, once, and what is put in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    """What is wrong, as one would say it."""
    file: str
    edits: tuple[Edit, ...]
    test_file: str
    test: str
    """That must fail where the bug is, and nowhere else."""
    backend: str = "sqlite"
