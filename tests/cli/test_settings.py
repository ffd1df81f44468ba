"""Errors name the wrong setting, its source and the accepted values."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from headway.cli.commands.config_commands import _source, show
from headway.core.errors import ConfigurationError
from headway.settings import Settings, load_settings
from headway.worker.program import Worker
from tests.cli.command import SECRET, headway, refusal

KEYS = ", ".join(sorted(Settings.model_fields))
VARIABLES = ", ".join(f"HEADWAY_{key.upper()}" for key in KEYS.split(", "))


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of this process, without variables of headway."""
    monkeypatch.chdir(folder)
    for name in (*VARIABLES.split(", "), "SCHEDULER_BASE", "SCHEDULER_DB"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_every_setting_is_documented() -> None:
    pages = "".join(page.read_text() for page in (Path(__file__).parents[2] / "docs").glob("*.md"))
    names = [f"HEADWAY_{name.upper()}" for name in Settings.model_fields]
    assert [name for name in names if f"`{name}" not in pages] == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"HEADWAY_DATABSE_URL": f"postgresql://ann:{SECRET}@localhost/headway"},
            (
                "the environment variable HEADWAY_DATABSE_URL is unknown; known variables:"
                f" {VARIABLES}"
            ),
        ),
        (
            {"HEADWAY_DURABILITY": "most"},
            "HEADWAY_DURABILITY is invalid: it should be 'process' or 'power'",
        ),
    ],
)
def test_wrong_variable_is_named(folder: Path, settings: dict[str, str], sentence: str) -> None:
    assert refusal("db", "upgrade", folder=folder, **settings) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("colour = 'red'", f"headway.toml has the unknown key 'colour'; known keys: {KEYS}"),
        (
            "database_url: sqlite",
            (
                "headway.toml cannot be read: "
                "Expected '=' after a key in a key/value pair (at line 1, column 13)"
            ),
        ),
    ],
)
def test_wrong_line_of_the_file_is_named(folder: Path, text: str, sentence: str) -> None:
    (folder / "headway.toml").write_text(text)
    assert refusal("db", "upgrade", folder=folder) == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "durability = 'most'",
            "durability in headway.toml is invalid: it should be 'process'",
        ),
        (
            "[database]\nurl = 'x'",
            f"headway.toml has the unknown key 'database'; known keys: {KEYS}",
        ),
        ("database_url = ['x']", "database_url in headway.toml is invalid: it should be a"),
        (
            "database_url = 'x'\ndatabase_urls = ['y']",
            "both database_url and database_urls are set; keep one of them",
        ),
    ],
)
def test_every_error_in_the_file_is_named(here: Path, text: str, sentence: str) -> None:
    (here / "headway.toml").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    assert str(refused.value).startswith(sentence)


def test_variable_overrides_the_file_and_the_file_overrides_the_default(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().urls == ("sqlite:///headway.db",)
    (here / "headway.toml").write_text("database_url = 'sqlite:///of-the-file.db'")
    assert load_settings().urls == ("sqlite:///of-the-file.db",)
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "sqlite:///of-the-variable.db")
    assert load_settings().urls == ("sqlite:///of-the-variable.db",)


async def test_configuration_in_json_has_typed_values(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_ALLOWED_HOSTS", "a.example b.example")
    await show(json=True)
    lines = capsys.readouterr().out.splitlines()
    settings = {line.pop("name"): line for line in map(json.loads, lines)}
    assert settings["port"] == {"value": 8070, "source": "default"}
    assert settings["mirror"] == {"value": False, "source": "default"}
    assert settings["database_url"] == {"value": "sqlite:///headway.db", "source": "default"}
    assert settings["database_urls"] == {"value": None, "source": "default"}
    assert settings["allowed_hosts"]["value"] == ["a.example", "b.example"]
    await show()
    shown = capsys.readouterr().out.splitlines()
    assert "allowed_hosts\ta.example b.example\tHEADWAY_ALLOWED_HOSTS" in shown
    assert "mirror\tfalse\tdefault" in shown


async def test_default_database_url_is_not_shown_if_several_databases_are_set(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "headway.toml").write_text("database_urls = ['x://a:b@c', 'y']")
    await show()
    shown = capsys.readouterr().out.splitlines()
    assert "database_url\t\tdefault" in shown
    assert "database_urls\tx://a:(secret)@c y\theadway.toml" in shown


@pytest.mark.parametrize("text", ["database_urls = 'x  y'", "database_urls = ['x', 'y']"])
def test_several_database_urls_can_be_a_list_or_be_separated_by_spaces(
    here: Path, text: str
) -> None:
    (here / "headway.toml").write_text(text)
    assert load_settings().urls == ("x", "y")


@pytest.mark.proves("R5.13")
@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("./scheduler.db", "sqlite:///./scheduler.db"),
        ("/var/lib/scheduler.db", "sqlite:////var/lib/scheduler.db"),
        ("postgresql://ann@db/runs", "postgresql://ann@db/runs"),
    ],
)
def test_scheduler_db_is_a_file_or_a_url(
    here: Path, monkeypatch: pytest.MonkeyPatch, value: str, url: str
) -> None:
    (here / "headway.toml").write_text("database_url = 'sqlite:///of-the-file.db'")
    monkeypatch.setenv("SCHEDULER_DB", value)
    assert load_settings().urls == (url,)


@pytest.mark.proves("R5.13")
def test_scheduler_base_sets_the_server_url_and_headway_variables_override_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEDULER_BASE", "http://localhost:8070")
    monkeypatch.setenv("SCHEDULER_DB", "./scheduler.db")
    assert load_settings().url == "http://localhost:8070"
    monkeypatch.setenv("HEADWAY_URL", "http://localhost:9000")
    monkeypatch.setenv("HEADWAY_DATABASE_URLS", "x y")
    settings = load_settings()
    assert (settings.url, settings.urls) == ("http://localhost:9000", ("x", "y"))


@pytest.mark.proves("R5.13")
def test_commands_use_the_file_named_by_scheduler_db(here: Path) -> None:
    result = headway("db", "upgrade", folder=here, SCHEDULER_DB="./scheduler.db")
    assert result.code == 0
    assert (here / "scheduler.db").exists()
    shown = headway("config", "show", folder=here, SCHEDULER_DB="./scheduler.db").out
    assert "database_url\tsqlite:///./scheduler.db\tSCHEDULER_DB" in shown.splitlines()


@pytest.mark.proves("R5.13")
def test_worker_reads_its_addresses_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKER_URL", "http://127.0.0.1:8099")
    monkeypatch.setenv("REGISTRY_URL", "http://127.0.0.1:8077/")
    worker = Worker()
    assert (worker.requested_url, worker.registry_url) == (
        "http://127.0.0.1:8099",
        "http://127.0.0.1:8077",
    )
    monkeypatch.delenv("WORKER_URL")
    assert Worker().requested_url == "http://127.0.0.1:8080"
    assert Worker(registry_url="http://127.0.0.1:1").registry_url == "http://127.0.0.1:1"


@pytest.mark.proves("S4")
def test_container_secrets_are_files_and_override_variables(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image sets variables as defaults. Secrets of other programs are ignored."""
    monkeypatch.setattr("headway.settings.SECRETS_FOLDER", here / "secrets")
    monkeypatch.setenv("HEADWAY_DATABASE_URL", "sqlite:////data/headway.db")
    monkeypatch.setenv("HEADWAY_HOST", "0.0.0.0")  # noqa: S104
    (here / "headway.toml").write_text("port = 1234")
    (here / "secrets").mkdir()
    for name, content in (
        ("headway_token", "t0ken-of-sixteen\n"),
        ("headway_tokens", "read=0ther-of-sixteen operate:ann=third-of-sixteen\n"),
        ("headway_database_url", "postgresql://db/x"),
        ("postgres_password", "whatever"),
    ):
        (here / "secrets" / name).write_text(content)
    settings = load_settings()
    assert settings.token == SecretStr("t0ken-of-sixteen")
    assert settings.urls == ("postgresql://db/x",)
    assert settings.tokens == (
        SecretStr("read=0ther-of-sixteen"),
        SecretStr("operate:ann=third-of-sixteen"),
    )
    assert "sixteen" not in repr(settings)
    assert (settings.host, settings.port) == ("0.0.0.0", 1234)  # noqa: S104
    assert _source("token", settings) == str(here / "secrets" / "headway_token")


@pytest.mark.proves("S4")
@pytest.mark.parametrize("variable", ["HEADWAY_DATABASE_URL", "SCHEDULER_DB"])
def test_secret_with_several_database_urls_overrides_a_variable_with_one_url(
    here: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr("headway.settings.SECRETS_FOLDER", here)
    monkeypatch.setenv(variable, "sqlite:////data/headway.db")
    (here / "headway_database_urls").write_text("postgresql://a/x postgresql://b/x\n")
    assert load_settings().urls == ("postgresql://a/x", "postgresql://b/x")


@pytest.mark.proves("S4")
def test_unreadable_secrets_folder_is_ignored(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that cannot be examined stands for a folder that this user may not search."""
    monkeypatch.setattr("headway.settings.SECRETS_FOLDER", here / ("x" * 300))
    assert load_settings().token is None


@pytest.mark.proves("S4")
def test_invalid_secret_is_named_without_its_value(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.settings.SECRETS_FOLDER", here)
    for content, problem in (
        (b"x-hush", "is invalid: it should be a valid integer"),
        (b"\xff", "cannot be read"),
    ):
        (here / "headway_port").write_bytes(content)
        with pytest.raises(ConfigurationError, match=problem) as refused:
            load_settings()
        assert str(refused.value).startswith(str(here / "headway_port"))
        assert "hush" not in str(refused.value)
