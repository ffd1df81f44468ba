"""The packages whose modules are imported on first use export the same names to every reader."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

LAZY_PACKAGES = ("headway", "headway.testing")


def declared_exports(package: str) -> dict[str, str]:
    """Return the exports that type checkers see, each with its module."""
    source = Path(import_module(package).__file__ or "").read_text(encoding="utf-8")
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    exports: dict[str, str] = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name, f"mypy exports `{alias.name}` only with `as`"
            exports[alias.name] = statement.module or ""
    return exports


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_type_checkers_see_exactly_the_names_that_can_be_imported(package: str) -> None:
    module = import_module(package)
    declared = declared_exports(package)
    assert declared == module._MODULES
    assert sorted(module.__all__) == sorted(declared)
    for name, home in declared.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Misspelled'"):
        _ = import_module(package).Misspelled


def test_error_is_imported_without_the_engine_and_its_libraries() -> None:
    program = (
        "import sys; from headway import KeyBusy;"
        "print({'headway.app', 'sqlalchemy', 'pydantic'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert shown.stdout.decode().strip() == "set()"
