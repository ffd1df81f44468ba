"""Invalid database URLs, and servers that do not answer. No password is repeated."""

from pathlib import Path

import pytest

from tests.cli.command import SECRET, refusal
from tests.contract.backends import closed_port
from tests.servers import MariaDBServer

LOGIN = f"ann:{SECRET}"


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize(
    ("rest", "problem"),
    [
        (
            "?command_timeout=3&pool_size=3",
            (
                "the unknown parameter 'pool_size'; allowed: application_name, command_timeout, "
                "ssl_ca, ssl_cert, ssl_key, sslmode"
            ),
        ),
        (
            "?sslmode=require&ssl_ca=ca.pem",
            "both 'sslmode' and 'ssl_*' files; use only one of the two",
        ),
        (
            "?connect_timeout=3",
            (
                "'connect_timeout', which is refused: every address is probed for 5 s, and that is "
                "not configurable; leave it out"
            ),
        ),
    ],
)
def test_invalid_url_is_refused(folder: Path, rest: str, problem: str) -> None:
    url = f"postgresql://{LOGIN}@localhost/headway{rest}"
    sentence = refusal("db", "upgrade", folder=folder, HEADWAY_DATABASE_URL=url)
    assert sentence == f"the database URL has {problem}"


@pytest.mark.proves("R4.4")
def test_urls_of_different_drivers_are_refused(folder: Path) -> None:
    urls = f"postgresql://{LOGIN}@localhost/headway mysql://{LOGIN}@localhost/headway"
    assert refusal("db", "check", folder=folder, HEADWAY_DATABASE_URLS=urls) == (
        "the database URLs mix drivers (mysql, postgres); use one for all"
    )


@pytest.mark.proves("R4.4")
@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_server_that_does_not_answer_is_named_with_the_reason(folder: Path, scheme: str) -> None:
    with closed_port() as port:
        address = f"127.0.0.1:{port}/headway"
        url = f"{scheme}://{LOGIN}@{address}"
        sentence = refusal("db", "upgrade", folder=folder, HEADWAY_DATABASE_URL=url)
    assert sentence.startswith(f"no database address can be used: {scheme}://ann:***@{address}: ")
    assert "Connect call failed" in sentence


@pytest.mark.proves("R4.4")
def test_each_server_that_does_not_answer_is_named_with_its_reason(
    folder: Path,
) -> None:
    with closed_port() as first, closed_port() as second:
        addresses = [f"127.0.0.1:{port}/headway" for port in (first, second)]
        urls = " ".join(f"postgresql://{LOGIN}@{address}" for address in addresses)
        sentence = refusal("db", "check", folder=folder, HEADWAY_DATABASE_URLS=urls)
    parts = sentence.removeprefix("no database address can be used: ").split("; ")
    assert [part.split(": ")[0] for part in parts] == [
        f"postgresql://ann:***@{address}" for address in addresses
    ]
    assert all("Connect call failed" in part for part in parts)


@pytest.mark.proves("R4.4")
def test_refused_login_is_reported_without_the_password(
    folder: Path, mariadb_server: MariaDBServer
) -> None:
    url = mariadb_server.url().replace(":headway@", f":{SECRET}@")
    sentence = refusal("db", "check", folder=folder, HEADWAY_DATABASE_URL=url)
    assert "Access denied for user 'headway'" in sentence
