"""The data layer and the runtime store do not import each other; a service uses both (R4.16)."""

import ast
from pathlib import Path
from typing import Final

import pytest

import headway

SOURCE: Final = Path(headway.__file__).parent
DATA: Final = ("adapters/sql", "ports/store.py", "ports/run_reader.py", "ports/event_reader.py")
RUNTIME: Final = ("runtime", "ports/hint_bus.py")
COMPOSER: Final = "services/engine/hint_relay.py"


def files_of(names: tuple[str, ...]) -> list[Path]:
    paths = [SOURCE / name for name in names]
    return [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]


def modules_of(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"headway.{name.removesuffix('.py').replace('/', '.')}" for name in names)


def imports_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    aliases = (node.names for node in ast.walk(tree) if isinstance(node, ast.Import))
    return {name for name in modules if name} | {alias.name for names in aliases for alias in names}


@pytest.mark.proves("R4.16")
@pytest.mark.parametrize(
    ("importers", "imported"), [(DATA, RUNTIME), (RUNTIME, DATA)], ids=["data", "runtime"]
)
def test_runtime_store_and_database_layers_do_not_import_each_other(
    importers: tuple[str, ...], imported: tuple[str, ...]
) -> None:
    files = files_of(importers)
    assert files
    imports = {name for file in files for name in imports_of(file)}
    assert [name for name in sorted(imports) if name.startswith(modules_of(imported))] == []


@pytest.mark.proves("R4.16")
def test_composing_service_imports_both_layers() -> None:
    imports = imports_of(SOURCE / COMPOSER)
    assert {"headway.ports.store", "headway.ports.run_reader"} <= imports
    assert "headway.ports.hint_bus" in imports
