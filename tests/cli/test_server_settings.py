"""Errors in HEADWAY_URL and HEADWAY_TOKEN name the setting."""

from pathlib import Path

import pytest

from headway.api.http.access import Access, Scope, Token
from headway.cli.client.api_client import ApiError
from headway.cli.commands import run_commands as runs
from headway.cli.exit_codes import EXIT_INVALID, EXIT_NOT_ALLOWED
from headway.core.errors import ConfigurationError
from tests.api.conftest import served
from tests.cli.test_client import exit_code

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.proves("R1.11")
async def test_url_of_the_page_is_accepted_as_the_server(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url) as client:
        for path in ("", "/", "/ui", "/ui/"):
            monkeypatch.setenv("HEADWAY_URL", f"{client.address}{path}")
            await runs.list_()


@pytest.mark.proves("I15")
async def test_url_without_a_server_is_reported_as_a_wrong_setting(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url) as client:
        monkeypatch.setenv("HEADWAY_URL", f"{client.address}/else")
        with pytest.raises(ConfigurationError) as refused:
            await runs.list_()
        question = f"is HEADWAY_URL={client.address}/else the address of the server?"
    assert str(refused.value).endswith(question)
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("S1")
@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        (None, "this server requires a token; set HEADWAY_TOKEN"),
        ("wrong-of-sixteen-letters", "HEADWAY_TOKEN is not a valid token of this server"),
    ],
)
async def test_missing_or_wrong_token_is_reported_with_its_setting(
    url: str, token: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access((Token("t0ken-of-sixteen", Scope.OPERATE),))
    async with served(url, access=access) as client:
        monkeypatch.setenv("HEADWAY_URL", client.address)
        if token is not None:
            monkeypatch.setenv("HEADWAY_TOKEN", token)
        with pytest.raises(ApiError) as refused:
            await runs.list_()
    assert str(refused.value) == sentence
    assert exit_code(refused.value) == EXIT_NOT_ALLOWED
