"""The images of terminals in the README are of the commands as they are."""

import html
import re
from pathlib import Path

import pytest

from tests.cli.images import FOLDER, draw

pytestmark = pytest.mark.backend("sqlite")

SAID = {
    "terminal-watch.svg": ("Running", "mirror for ann in lane accounts", "43/120", "12 photos"),
    "terminal-lanes.svg": ("accounts", "most queued", "paused"),
    "terminal-explain.svg": ("queued", "held by", "remedy"),
}


def words(path: Path) -> str:
    return re.sub("<[^>]*>", " ", html.unescape(path.read_text(encoding="utf-8"))).replace(
        "\xa0", " "
    )


@pytest.mark.proves("R1.11")
async def test_what_commands_show_is_what_the_images_show(tmp_path: Path) -> None:
    await draw(tmp_path)
    for name, said in SAID.items():
        for folder in (tmp_path, FOLDER):
            shown = words(folder / name)
            assert [one for one in said if one not in shown] == [], (folder, name)
            assert "http://" not in shown.replace("http://127.0.0.1", "")
            assert "@font-face" not in shown
