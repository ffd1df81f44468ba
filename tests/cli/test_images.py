"""The terminal images of the README match the current commands."""

import html
import re
from pathlib import Path

import pytest

from tests.cli.images import FOLDER, draw

pytestmark = pytest.mark.backend("sqlite")

EXPECTED_TEXTS = {
    "terminal-watch.svg": ("Running", "mirror for ann in lane accounts", "43/120", "12 photos"),
    "terminal-lanes.svg": ("accounts", "queue limit", "paused"),
    "terminal-explain.svg": ("queued", "held by", "remedy"),
}


def read_text(path: Path) -> str:
    return re.sub("<[^>]*>", " ", html.unescape(path.read_text(encoding="utf-8"))).replace(
        "\xa0", " "
    )


@pytest.mark.proves("R1.11")
async def test_images_contain_the_output_of_the_commands(tmp_path: Path) -> None:
    await draw(tmp_path)
    for name, texts in EXPECTED_TEXTS.items():
        for folder in (tmp_path, FOLDER):
            shown = read_text(folder / name)
            assert [text for text in texts if text not in shown] == [], (folder, name)
            assert "http://" not in shown.replace("http://127.0.0.1", "")
            assert "@font-face" not in shown
