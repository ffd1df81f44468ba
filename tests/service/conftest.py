"""A new SQLite database for every test."""

import shutil
from pathlib import Path

import pytest

from headway.bootstrap import upgrade_database
from tests.contract.backends import run_apart


@pytest.fixture(scope="session")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To copy from: to run the migrations for every test would take longer than the tests."""
    path = tmp_path_factory.mktemp("service") / "upgraded.db"
    run_apart(lambda: upgrade_database([f"sqlite:///{path}"]))
    return path


@pytest.fixture
def url(upgraded_file: Path, tmp_path: Path) -> str:
    shutil.copy(upgraded_file, tmp_path / "headway.db")
    return f"sqlite:///{tmp_path}/headway.db"
