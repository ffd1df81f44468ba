"""The data layer and the runtime store do not know each other; a service composes them (R4.16)."""

import ast
from pathlib import Path
from typing import Final

import pytest

import headway

SOURCE: Final = Path(headway.__file__).parent
DATA: Final = ("adapters/sql", "ports/store.py", "ports/run_reader.py", "ports/event_reader.py")
RUNTIME: Final = ("adapters/redis", "adapters/memory", "ports/runtime_store.py")
COMPOSER: Final = "services/engine/hint_relay.py"


def files_of(places: tuple[str, ...]) -> list[Path]:
    found = [SOURCE / place for place in places]
    return [file for path in found for file in (path.rglob("*.py") if path.is_dir() else [path])]


def modules_of(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"headway.{place.removesuffix('.py').replace('/', '.')}" for place in places)


def imports_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    named = (node.names for node in ast.walk(tree) if isinstance(node, ast.Import))
    return {name for name in found if name} | {alias.name for names in named for alias in names}


@pytest.mark.proves("R4.16")
@pytest.mark.parametrize(
    ("these", "those"), [(DATA, RUNTIME), (RUNTIME, DATA)], ids=["data", "runtime"]
)
def test_neither_side_imports_the_other(these: tuple[str, ...], those: tuple[str, ...]) -> None:
    files = files_of(these)
    assert files
    known = {name for file in files for name in imports_of(file)}
    assert [name for name in sorted(known) if name.startswith(modules_of(those))] == []


@pytest.mark.proves("R4.16")
def test_a_service_composes_them() -> None:
    known = imports_of(SOURCE / COMPOSER)
    assert {"headway.ports.store", "headway.ports.run_reader"} <= known
    assert "headway.ports.runtime_store" in known
