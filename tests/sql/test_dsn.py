"""A database URL is parsed completely, or refused with a sentence that names the part (R4.5)."""

import sys
from pathlib import Path

import pytest
from pymysql.constants import CLIENT

from headway.adapters.sql.connect.dsn import Address, parse_addresses
from headway.core.errors import ConfigurationError

POSTGRES = "postgresql://ann:secret@db.example:5433/headway"
MYSQL = "mysql://ann:secret@db.example:3307/headway"


def parse(url: str) -> Address:
    (address,) = parse_addresses([url])
    return address


def read_problem(*urls: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        parse_addresses(urls)
    return str(refused.value)


@pytest.mark.proves("R4.1")
@pytest.mark.parametrize(
    ("scheme", "driver"),
    [
        ("postgres", "postgres"),
        ("postgresql", "postgres"),
        ("postgresql+asyncpg", "postgres"),
        ("mysql", "mysql"),
        ("mysql+aiomysql", "mysql"),
        ("mariadb", "mysql"),
        ("mariadb+aiomysql", "mysql"),
    ],
)
def test_each_scheme_selects_its_driver(scheme: str, driver: str) -> None:
    assert parse(f"{scheme}://ann@db.example/headway").driver == driver


@pytest.mark.proves("R4.2")
@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("sqlite://", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///headway.db", "headway.db"),
        ("sqlite:////srv/headway.db", "/srv/headway.db"),
        ("sqlite+aiosqlite:///headway.db", "headway.db"),
    ],
)
def test_sqlite_is_a_file_or_memory(url: str, database: str) -> None:
    assert parse(url).driver == "sqlite"
    assert parse(url).database == database
    assert parse(url).is_memory == (database == ":memory:")
    assert parse(url).file == (None if database == ":memory:" else Path(database))


@pytest.mark.proves("R4.2")
def test_sqlite_url_with_two_slashes_and_a_file_name_is_refused() -> None:
    assert "sqlite:///headway.db" in read_problem("sqlite://headway.db")


@pytest.mark.proves("R4.1")
@pytest.mark.parametrize("url", ["oracle://ann@db.example/headway", "mysql+asyncmy://h/headway"])
def test_unknown_scheme_is_named_with_the_known_ones(url: str) -> None:
    problem = read_problem(url)
    assert repr(url.partition(":")[0]) in problem
    assert "postgresql+asyncpg" in problem


@pytest.mark.proves("R4.5")
def test_unknown_parameter_is_named_with_the_allowed_ones() -> None:
    problem = read_problem(f"{POSTGRES}?statement_cache_size=0")
    assert "'statement_cache_size'" in problem
    for name in ("application_name", "command_timeout", "ssl_ca", "ssl_cert", "ssl_key", "sslmode"):
        assert name in problem
    problem = read_problem(f"{MYSQL}?sslmode=require")
    assert "'sslmode'" in problem
    for name in ("autocommit", "charset", "init_command", "program_name", "unix_socket", "ssl_ca"):
        assert name in problem


@pytest.mark.proves("R4.5")
def test_parameter_is_checked_in_the_second_url_too() -> None:
    problem = read_problem(POSTGRES, "postgresql://other.example/headway?host=elsewhere")
    assert "database URL 2" in problem
    assert "'host'" in problem


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("query", ["mode=memory", "cache=shared", "timeout=5"])
def test_sqlite_accepts_no_parameters(query: str) -> None:
    assert "allowed: none" in read_problem(f"sqlite:///headway.db?{query}")


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
@pytest.mark.parametrize("name", ["connect_timeout", "read_timeout", "write_timeout"])
def test_timeouts_of_the_driver_are_refused_with_the_reason(url: str, name: str) -> None:
    problem = read_problem(f"{url}?{name}=3")
    assert f"{name!r}, which is refused: " in problem
    assert "unknown" not in problem


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("query", ["application_name", "application_name=", "sslmode=&ssl_ca="])
def test_parameter_without_a_value_is_not_dropped(query: str) -> None:
    assert "no value" in read_problem(f"{POSTGRES}?{query}")


@pytest.mark.proves("R4.5")
def test_repeated_parameter_is_refused() -> None:
    assert "more than once" in read_problem(f"{MYSQL}?charset=utf8mb4&charset=latin1")


@pytest.mark.proves("R4.5")
def test_sslmode_keeps_the_meaning_of_the_driver() -> None:
    assert parse(f"{POSTGRES}?sslmode=verify-full").arguments["ssl"] == "verify-full"
    assert "ssl" not in parse(POSTGRES).arguments
    assert "verify-ca" in read_problem(f"{POSTGRES}?sslmode=on")


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("files", ["ssl_ca=ca.pem", "ssl_cert=c.pem&ssl_key=k.pem"])
def test_sslmode_and_certificate_files_exclude_each_other(files: str) -> None:
    assert "both 'sslmode' and 'ssl_*'" in read_problem(f"{POSTGRES}?sslmode=prefer&{files}")


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
@pytest.mark.parametrize("name", ["ssl_cert", "ssl_key"])
def test_certificate_and_its_key_must_be_given_together(url: str, name: str) -> None:
    problem = read_problem(f"{url}?{name}=client.pem")
    assert "'ssl_cert'" in problem
    assert "'ssl_key'" in problem


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
def test_unreadable_file_is_named_with_its_parameter(url: str, tmp_path: Path) -> None:
    missing, present = tmp_path / "missing.pem", tmp_path / "present.pem"
    present.touch()
    assert f"'ssl_ca' '{missing}'" in read_problem(f"{url}?ssl_ca={missing}")
    problem = read_problem(f"{url}?ssl_cert={present}&ssl_key={missing}")
    assert f"'ssl_key' '{missing}'" in problem


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
def test_file_that_is_not_a_certificate_is_named_with_its_parameter(
    url: str, tmp_path: Path
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("buy milk")
    assert f"'ssl_ca' '{text}'" in read_problem(f"{url}?ssl_ca={text}")
    assert "'ssl_cert'" in read_problem(f"{url}?ssl_cert={text}&ssl_key={text}")


@pytest.mark.proves("R4.5")
def test_certificate_files_are_refused_for_a_socket_without_tls() -> None:
    assert "no host" in read_problem("postgresql:///headway?ssl_ca=/etc/hostname")


@pytest.mark.proves("R4.5")
def test_command_timeout_is_a_number_of_seconds() -> None:
    assert parse(f"{POSTGRES}?command_timeout=2.5").arguments["command_timeout"] == 2.5
    for text in ("soon", "0", "-1", "nan", "inf"):
        assert "'command_timeout'" in read_problem(f"{POSTGRES}?command_timeout={text}")


@pytest.mark.proves("R4.5")
def test_application_name_is_a_setting_of_the_session() -> None:
    arguments = parse(f"{POSTGRES}?application_name=night%20shift").arguments
    assert arguments["server_settings"] == {"application_name": "night shift"}
    assert "application_name" not in arguments


@pytest.mark.proves("R4.5")
def test_text_parameters_of_mysql_reach_the_driver_unchanged() -> None:
    query = "charset=latin1&unix_socket=/run/my.sock&init_command=SET%20%40a=1&program_name=headway"
    arguments = parse(f"{MYSQL}?{query}").arguments
    assert arguments["charset"] == "latin1"
    assert arguments["unix_socket"] == "/run/my.sock"
    assert arguments["init_command"] == "SET @a=1"
    assert arguments["program_name"] == "headway"


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("spelling", ["true", "1", "yes", "on", "TRUE"])
def test_autocommit_accepts_several_spellings_of_true(spelling: str) -> None:
    assert parse(f"{MYSQL}?autocommit={spelling}").arguments["autocommit"] is True


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("spelling", ["false", "0", "no", "off", "Off"])
def test_autocommit_accepts_several_spellings_of_false(spelling: str) -> None:
    assert parse(f"{MYSQL}?autocommit={spelling}").arguments["autocommit"] is False


@pytest.mark.proves("R4.5")
def test_autocommit_refuses_other_values() -> None:
    assert "'autocommit'" in read_problem(f"{MYSQL}?autocommit=maybe")


@pytest.mark.proves("R4.5")
def test_mysql_counts_found_rows_and_uses_full_unicode() -> None:
    arguments = parse(MYSQL).arguments
    assert arguments["client_flag"] & CLIENT.FOUND_ROWS
    assert arguments["charset"] == "utf8mb4"
    assert "'klingon'" in read_problem(f"{MYSQL}?charset=klingon")


@pytest.mark.proves("R4.5")
def test_parts_of_the_url_reach_the_driver() -> None:
    arguments = parse("postgresql://ann:p%40ss%2Fw@[::1]:5433/headway").arguments
    assert arguments == {
        "host": "::1",
        "port": 5433,
        "user": "ann",
        "password": "p@ss/w",
        "database": "headway",
    }


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
def test_url_is_parsed_the_same_way_alone_and_in_a_list(url: str) -> None:
    other = url.replace("db.example", "other.example")
    first, _ = parse_addresses([url, other])
    assert first == parse(url)
    assert first.arguments == parse(url).arguments


@pytest.mark.proves("R4.4")
def test_at_least_one_address_is_required() -> None:
    assert "at least one" in read_problem()


@pytest.mark.proves("R4.4")
def test_all_addresses_have_one_driver() -> None:
    problem = read_problem(POSTGRES, MYSQL)
    assert "mysql, postgres" in problem


@pytest.mark.proves("R4.4")
def test_sqlite_has_no_second_address() -> None:
    assert "one database URL" in read_problem("sqlite:///a.db", "sqlite:///b.db")


@pytest.mark.proves("R4.4")
def test_repeated_address_is_refused() -> None:
    assert "twice" in read_problem(POSTGRES, f"{POSTGRES}?application_name=other")


@pytest.mark.proves("R4.4")
@pytest.mark.parametrize("hosts", ["a.example,b.example", "a.example:1,b.example:2"])
def test_url_with_several_hosts_is_refused(hosts: str) -> None:
    read_problem(f"postgresql://{hosts}/headway")


@pytest.mark.proves("R4.1")
@pytest.mark.parametrize(
    "rest", ["db.example", "db.example/", "db.example:0/x", "db.example:99999/x"]
)
@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_server_needs_a_valid_port_and_a_database(scheme: str, rest: str) -> None:
    read_problem(f"{scheme}://{rest}")


@pytest.mark.proves("S4")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hush@hush@db.example/headway",
        "postgresql://ann:hush?hush@db.example/headway",
        "postgresql://ann:5432?hush@db.example/headway",
        "postgresql://ann:5432/x?hush@db.example/headway",
        "postgresql://ann:hush@db.example:port/headway",
        "postgresql://ann:hush@db.example",
        "postgresql://ann:hush@db.example/headway?password=hush",
        "mysql://ann:hush@db.example/headway?connect_timeout=hush",
        "oracle://ann:hush@db.example/headway",
        "hush",
    ],
)
def test_no_refusal_contains_a_password(url: str) -> None:
    assert "hush" not in read_problem(url)


@pytest.mark.proves("S4")
@pytest.mark.parametrize("url", [POSTGRES, f"{MYSQL}?init_command=SET%20%40a='secret'"])
def test_address_does_not_show_its_password(url: str) -> None:
    address = parse(url)
    assert address.display == url.replace("secret", "***", 1).partition("?")[0]
    assert "secret" not in repr(address)


@pytest.mark.proves("R4.1")
@pytest.mark.parametrize(
    ("module", "url", "extra"),
    [("asyncpg", POSTGRES, "headway[postgres]"), ("aiomysql", MYSQL, "headway[mysql]")],
)
def test_missing_driver_names_its_extra(
    module: str, url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert f"pip install '{extra}'" in read_problem(url)
