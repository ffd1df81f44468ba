"""Redis URLs: how they are parsed, and the errors for wrong ones."""

from pathlib import Path

import pytest

from headway.core.errors import ConfigurationError
from headway.runtime import InjectAnswer, open_runtime_store
from headway.runtime.redis.address import RedisNode, parse_redis_url
from tests.runtime.scenes import a_claim, a_key, text
from tests.servers import RedisServer

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "nodes", "is_cluster", "is_tls", "arguments"),
    [
        ("redis://localhost", [("localhost", 6379)], False, False, {"db": 0}),
        (
            "redis://ann:p%40ss%2F@redis.example:7000/3",
            [("redis.example", 7000)],
            False,
            False,
            {"username": "ann", "password": "p@ss/", "db": 3},
        ),
        ("redis://:pass@[::1]:7000", [("::1", 7000)], False, False, {"password": "pass", "db": 0}),
        ("rediss://h", [("h", 6379)], False, True, {"db": 0}),
        (
            "redis+cluster://ann:pass@a:1,b,[::1]:3",
            [("a", 1), ("b", 6379), ("::1", 3)],
            True,
            False,
            {"username": "ann", "password": "pass"},
        ),
        ("rediss+cluster://a/0", [("a", 6379)], True, True, {}),
    ],
)
def test_redis_url_is_parsed(
    url: str,
    nodes: list[tuple[str, int]],
    is_cluster: bool,
    is_tls: bool,
    arguments: dict[str, object],
) -> None:
    address = parse_redis_url(url)
    assert address.nodes == tuple(RedisNode(host, port) for host, port in nodes)
    assert (address.is_cluster, address.is_tls) == (is_cluster, is_tls)
    assert address.connection_arguments == arguments


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("localhost:6379", "cannot be read; write it like redis://user:password@host:6379/0"),
        ("", "cannot be read; write it like redis://user:password@host:6379/0"),
        (
            "http://h",
            (
                "has the unknown scheme 'http'; use one of "
                "redis, rediss, redis+cluster, rediss+cluster"
            ),
        ),
        ("redis://", "has no host; write it like redis://user:password@host:6379/0"),
        ("redis://h:port", "has a port that is not a number from 1 to 65535"),
        ("redis://h:0", "has a port that is not a number from 1 to 65535"),
        ("redis://h:", "has a port that is not a number from 1 to 65535"),
        ("redis://::1", "has a host with colons; write an IPv6 address in brackets, like [::1]"),
        ("redis://a,b", "names several servers; write redis+cluster:// if they are a cluster"),
        ("redis://h/main", "has a path that is not a number; write the database number, usually 0"),
        (
            "redis+cluster://h/1",
            "has a database number; a cluster has only 0, leave it out",
        ),
        (
            "redis://h?timeout=3",
            "has the unknown parameter 'timeout'; allowed: ssl_ca, ssl_cert, ssl_key",
        ),
        ("redis://h?ssl_ca=x", "has 'ssl_ca' without TLS; write rediss:// or leave it out"),
        ("rediss://h?ssl_ca=x&ssl_ca=y", "has a parameter twice; give each once"),
        (
            "rediss://h?ssl_cert=x",
            "has only one of 'ssl_cert' and 'ssl_key'; give both, or neither",
        ),
        (
            "rediss://h?ssl_ca=/nowhere.pem",
            "names '/nowhere.pem' as 'ssl_ca', which cannot be read (No such file or directory)",
        ),
        (
            f"redis://ann:{SECRET}#@h",
            "has a # in it; write @ : / ? # in the password as %40 %3A %2F %3F %23",
        ),
        (
            f"redis://ann:{SECRET}@x@h",
            "has a bare @ or / in the password; write them as %40 and %2F",
        ),
    ],
)
def test_wrong_url_is_reported_in_one_sentence(url: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_redis_url(url)
    assert str(refused.value) == f"redis_url {problem}"
    assert SECRET not in str(refused.value)


def test_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("not one")
    with pytest.raises(ConfigurationError, match="contains no certificate; name a PEM file"):
        parse_redis_url(f"rediss://h?ssl_ca={path}")


def test_password_is_not_shown() -> None:
    address = parse_redis_url(f"redis://ann:{SECRET}@h")
    assert SECRET not in repr(address)
    assert address.display == "h:6379"


async def test_runtime_store_without_a_url_is_in_memory() -> None:
    async with open_runtime_store(None) as store:
        refused = await store.inject_message(a_key(), a_claim().run_id, text(1))
        assert refused is InjectAnswer.NO_ACTIVE_RUN


async def test_runtime_store_with_a_url_is_shared(redis_server: RedisServer) -> None:
    key, claim = a_key(), a_claim()
    async with (
        open_runtime_store(redis_server.url) as first,
        open_runtime_store(redis_server.url) as second,
    ):
        await first.acquire_lease(key, claim)
        assert await second.acquire_lease(key, a_claim()) == claim.run_id
        await first.cleanup_execution(key, claim)


async def test_wrong_url_prevents_the_start() -> None:
    with pytest.raises(ConfigurationError, match=r"^redis_url has the unknown scheme"):
        async with open_runtime_store("amqp://h"):
            pass
