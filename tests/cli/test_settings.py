"""Wrong settings are named with their place, and with what is right."""

from pathlib import Path

import pytest

from tests.cli.command import SECRET, refusal

KEYS = "database_url, database_urls, durability"
VARIABLES = "HEADWAY_DATABASE_URL, HEADWAY_DATABASE_URLS, HEADWAY_DURABILITY"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"HEADWAY_DATABSE_URL": f"postgresql://ann:{SECRET}@localhost/headway"},
            f"the environment variable HEADWAY_DATABSE_URL is unknown; known are {VARIABLES}",
        ),
        (
            {"HEADWAY_DURABILITY": "most"},
            "HEADWAY_DURABILITY cannot be used: it should be 'process' or 'power'",
        ),
        (
            {"HEADWAY_DATABASE_URL": "sqlite:///a.db", "HEADWAY_DATABASE_URLS": "sqlite:///b.db"},
            "both database_url and database_urls are set; keep one of them",
        ),
    ],
)
def test_a_wrong_variable_is_named(folder: Path, settings: dict[str, str], sentence: str) -> None:
    assert refusal("db", "upgrade", folder=folder, **settings) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("colour = 'red'", f"headway.toml has the unknown key 'colour'; known are {KEYS}"),
        (
            "durability = 'most'",
            "durability in headway.toml cannot be used: it should be 'process' or 'power'",
        ),
        (
            f"database_url = ['postgresql://ann:{SECRET}@localhost/headway']",
            "database_url in headway.toml cannot be used: it should be a valid string",
        ),
        (
            "database_url: sqlite",
            (
                "headway.toml cannot be read: "
                "Expected '=' after a key in a key/value pair (at line 1, column 13)"
            ),
        ),
    ],
)
def test_a_wrong_line_of_the_file_is_named(folder: Path, text: str, sentence: str) -> None:
    (folder / "headway.toml").write_text(text)
    assert refusal("db", "upgrade", folder=folder) == sentence


def test_what_the_file_says_is_used_unless_a_variable_says_otherwise(folder: Path) -> None:
    (folder / "headway.toml").write_text("database_url = 'sqlite:///of-the-file.db'")
    missing = "has no headway schema; run: headway db upgrade"
    assert refusal("db", "check", folder=folder) == (
        f"the database sqlite:///of-the-file.db {missing}"
    )
    variable = {"HEADWAY_DATABASE_URL": "sqlite:///of-the-variable.db"}
    assert refusal("db", "check", folder=folder, **variable) == (
        f"the database sqlite:///of-the-variable.db {missing}"
    )
