"""A disk that is full when the tables are created."""

from pathlib import Path

import pytest

from headway.adapters.sql.connect.sqlite import has_headway_tables
from tests.cli.command import error_sentence, headway
from tests.cli.disk import mounted_disk

pytestmark = pytest.mark.backend("sqlite")


def test_full_disk_is_reported_and_the_upgrade_succeeds_after_freeing_space(
    folder: Path,
) -> None:
    with mounted_disk(folder / "disk", byte_count=4 << 20) as disk:
        path = disk.folder / "headway.db"
        settings = {"HEADWAY_DATABASE_URL": f"sqlite:///{path}"}
        disk.fill()
        assert error_sentence(headway("db", "upgrade", folder=folder, **settings)) == (
            f"the database file '{path}' cannot grow because its disk is full;"
            " free some space and try again"
        )
        disk.free()
        assert headway("db", "upgrade", folder=folder, **settings).code == 0


def test_disk_error_during_the_upgrade_is_reported_and_leaves_no_tables(folder: Path) -> None:
    path = folder / "headway.db"
    # The limit also applies to data files of coverage, which would report it, and to compiled
    # modules, which Python would leave truncated in the shared cache.
    no_other_files = ["env", "--unset=COVERAGE_PROCESS_CONFIG", "PYTHONDONTWRITEBYTECODE=1"]
    within = [*no_other_files, "prlimit", "--fsize=50000"]
    settings = {"HEADWAY_DATABASE_URL": f"sqlite:///{path}"}
    assert error_sentence(headway("db", "upgrade", folder=folder, within=within, **settings)) == (
        f"the database file '{path}' cannot be used (disk I/O error);"
        " check whether its disk is full or failing"
    )
    assert not has_headway_tables(path)
