"""A disk that is full when the tables are to be made."""

from pathlib import Path

import pytest

from headway.adapters.sql.connect.sqlite import has_headway_tables
from tests.cli.command import fault, headway
from tests.cli.disk import mounted_disk

pytestmark = pytest.mark.backend("sqlite")


def test_a_full_disk_is_named_and_when_it_has_room_again_the_upgrade_goes_through(
    folder: Path,
) -> None:
    with mounted_disk(folder / "disk", byte_count=4 << 20) as disk:
        path = disk.folder / "headway.db"
        settings = {"HEADWAY_DATABASE_URL": f"sqlite:///{path}"}
        disk.fill()
        assert fault(headway("db", "upgrade", folder=folder, **settings)) == (
            f"the database file '{path}' cannot grow because its disk is full;"
            " free some space and try again"
        )
        disk.free()
        assert headway("db", "upgrade", folder=folder, **settings).code == 0


def test_a_disk_that_refuses_in_the_middle_is_named_and_no_table_is_left(folder: Path) -> None:
    path = folder / "headway.db"
    # What coverage writes down would not fit either, and it would say so; Python would not, and
    # leave half a module in the environment for everybody.
    apart = ["env", "--unset=COVERAGE_PROCESS_CONFIG", "PYTHONDONTWRITEBYTECODE=1"]
    within = [*apart, "prlimit", "--fsize=50000"]
    settings = {"HEADWAY_DATABASE_URL": f"sqlite:///{path}"}
    assert fault(headway("db", "upgrade", folder=folder, within=within, **settings)) == (
        f"the database file '{path}' cannot be used (disk I/O error);"
        " see whether its disk is full or failing"
    )
    assert not has_headway_tables(path)
