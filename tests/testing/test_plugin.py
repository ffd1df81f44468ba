"""The pytest plugin, as another project uses it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT_S, environment

ROOT = Path(__file__).parents[2]
PLUGIN = "headway.testing.plugin"
# A source tree has no entry points, so the plugin is named here. Autoload is off, so that an
# installed headway does not load it a second time.
PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", PLUGIN)
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

pytestmark = pytest.mark.backend("sqlite")


def run_tests(folder: Path, *options: str) -> str:
    """Run the tests in `folder` and return the output of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS]
    ended = subprocess.run(
        [*command, *options, "--rootdir", folder, folder],
        cwd=folder,
        env=environment(PYTHONPATH=f"{ROOT / 'src'}:{folder}", **ALONE),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return ended.stdout


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_example_of_the_documentation_works(tmp_path: Path, mode: str) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "test_reminders.py").write_text(example, encoding="utf-8")
    output = run_tests(tmp_path, "-o", f"asyncio_mode={mode}")
    assert "2 passed" in output, output


def test_unused_plugin_does_not_load_headway(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    loaded = {'headway.app', 'sqlalchemy', 'pydantic', 'alembic'} & set(sys.modules)\n"
        "    assert loaded == set()\n"
    )
    output = run_tests(tmp_path)
    assert "1 passed" in output, output


def test_plugin_is_registered_as_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"headway": PLUGIN}
