"""Every id that a test proves is documented, and every documented id has a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (ROOT / "docs" / "promises.md", ROOT / "docs" / "requirements.md")
DOCUMENTED: Final = re.compile(r"^(?:\| |- )([RIS]\d+(?:\.\d+)?)\b", re.MULTILINE)


def documented_ids() -> set[str]:
    return {id_ for page in PAGES for id_ in DOCUMENTED.findall(page.read_text(encoding="utf-8"))}


def ids_of_markers(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proves":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), f"{path}:{node.lineno}: not a literal"
                yield str(argument.value)


def proven_ids() -> dict[str, Path]:
    paths = (ROOT / "tests").rglob("*.py")
    return {id_: path for path in paths for id_ in ids_of_markers(path)}


def test_every_id_in_a_proves_marker_is_documented() -> None:
    undocumented = proven_ids().keys() - documented_ids()
    assert not undocumented, f"add to docs/promises.md or docs/requirements.md: {undocumented}"


def test_every_documented_id_has_a_test() -> None:
    unproven = documented_ids() - proven_ids().keys()
    assert not unproven, f"no test has a proves marker with: {unproven}"


def test_names_of_tests_contain_no_ids() -> None:
    ids_in_name = re.compile(r"def (test_(?:r\d+_\d+|i\d+|s\d+)_\w+)")
    names = [
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in ids_in_name.findall(path.read_text(encoding="utf-8"))
    ]
    assert names == [], "state the behavior in the name, and the id in pytest.mark.proves"
