"""How data is stored in Redis: key names, slots and expiry (R4.12)."""

import pytest
from redis.crc import key_slot

from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.runtime import RuntimeLimits
from headway.runtime.redis import key_names as keys
from tests.runtime.scenes import NO, YES, a_claim, a_key, open_runtime, text
from tests.servers import RedisServer

pytestmark = pytest.mark.backend("redis")
LIMITS = RuntimeLimits(lease_ttl_s=50, permission_timeout_s=100, execution_timeout_s=200)


@pytest.mark.proves("R4.12")
def test_redis_key_names_have_the_documented_format() -> None:
    key, run_id = Key("ann"), RunId("0197")
    assert keys.lease_name(key) == b"{hw:ann}:lease"
    assert keys.interactive_name(key) == b"{hw:ann}:interactive"
    assert keys.interrupt_name(run_id) == b"{hw:0197}:interrupt"
    assert keys.cancel_name(run_id) == b"{hw:0197}:cancel"
    assert keys.queue_name(run_id) == b"{hw:0197}:queue"
    assert keys.channel_name(run_id) == b"{hw:0197}:interrupt_ch"


@pytest.mark.proves("R4.12")
@pytest.mark.parametrize("name", ["a", "}", "{", "{}", "}{", "a}b", "%", "%7D", "ж{🚂}", ""])
def test_hash_tag_of_a_redis_key_contains_the_whole_name(name: str) -> None:
    key, run_id = Key(name), RunId(name)
    names = [
        keys.lease_name(key),
        keys.interactive_name(key),
        keys.interrupt_name(run_id),
        keys.cancel_name(run_id),
        keys.queue_name(run_id),
        keys.channel_name(run_id),
    ]
    assert len(set(names)) == 6
    assert {name[1 : name.index(b"}")] for name in names} == {names[0][1:-7]}
    assert len({key_slot(name) for name in names}) == 1


@pytest.mark.proves("R4.12")
def test_different_keys_never_share_a_redis_name() -> None:
    odd = ["}", "{", "{}", "%7D", "%257D", "%", "%25", "a}:lease", "a", "}:lease", "a}:lease}"]
    assert len({keys.lease_name(Key(name)) for name in odd}) == len(odd)


@pytest.mark.proves("R4.12")
async def test_every_redis_key_has_an_expiry(redis_server: RedisServer) -> None:
    key, claim = a_key(), a_claim()
    run_id = claim.run_id
    async with open_runtime(redis_server.url, LIMITS) as store:
        await store.acquire_lease(key, claim)
        await store.mark_interactive(key, claim)
        await store.inject_message(key, run_id, text(1))
        await store.create_interrupt(run_id, "call-1")
        await store.request_cancel(run_id)
        left_s = {
            name.rpartition(":")[2]: ttl for name, ttl in _seconds_to_live(redis_server, key, claim)
        }
        assert 30 < left_s["lease"] <= 50
        assert 30 < left_s["interactive"] <= left_s["lease"]
        assert 140 < left_s["interrupt"] <= 160
        assert 180 < left_s["cancel"] <= 200
        assert 180 < left_s["queue"] <= 200
        await store.cleanup_execution(key, claim)
    assert _seconds_to_live(redis_server, key, claim) == []  # I8


@pytest.mark.proves("R4.12")
async def test_lease_and_interactive_flag_are_renewed_together(redis_server: RedisServer) -> None:
    key, claim = a_key(), a_claim()
    async with open_runtime(redis_server.url, LIMITS) as store:
        await store.acquire_lease(key, claim)
        await store.mark_interactive(key, claim)
        for name in (keys.lease_name(key), keys.interactive_name(key)):
            redis_server.execute("EXPIRE", name.decode(), "5")
        assert await store.renew_lease(key, claim)
        assert all(ttl > 30 for _, ttl in _seconds_to_live(redis_server, key, claim))


@pytest.mark.proves("R4.12")
async def test_interactive_flag_set_late_expires_with_the_lease(
    redis_server: RedisServer,
) -> None:
    key, claim = a_key(), a_claim()
    async with open_runtime(redis_server.url, LIMITS) as store:
        await store.acquire_lease(key, claim)
        redis_server.execute("EXPIRE", keys.lease_name(key).decode(), "5")
        await store.mark_interactive(key, claim)
        assert all(
            ttl <= 5
            for name, ttl in _seconds_to_live(redis_server, key, claim)
            if "queue" not in name
        )


@pytest.mark.proves("R4.12")
async def test_answered_interrupt_is_stored_for_longer_than_the_longest_wait(
    redis_server: RedisServer,
) -> None:
    key, claim = a_key(), a_claim()
    async with open_runtime(redis_server.url, LIMITS) as store:
        await store.create_interrupt(claim.run_id, "long", timeout_s=500)
        await store.create_interrupt(claim.run_id, "short", timeout_s=1)
        await store.resolve_interrupt(claim.run_id, "short", YES)
        await store.resolve_interrupt(claim.run_id, "long", NO)
        ((_, ttl),) = _seconds_to_live(redis_server, key, claim)
        assert 500 < ttl <= 560


@pytest.mark.proves("R4.12")
async def test_scripts_flushed_by_the_server_are_loaded_again(
    redis_server: RedisServer,
) -> None:
    key, claim = a_key(), a_claim()
    async with open_runtime(redis_server.url, LIMITS) as store:
        await store.acquire_lease(key, claim)
        redis_server.execute("SCRIPT", "FLUSH")
        assert await store.renew_lease(key, claim)
        assert await store.acquire_lease(key, a_claim()) == claim.run_id


def _seconds_to_live(server: RedisServer, key: Key, claim: Claim) -> list[tuple[str, int]]:
    """Return the existing Redis keys of the key and the claim, with their seconds to live."""
    names = [
        *(name.decode() for name in (keys.lease_name(key), keys.interactive_name(key))),
        *(
            name_of(claim.run_id).decode()
            for name_of in (keys.interrupt_name, keys.cancel_name, keys.queue_name)
        ),
    ]
    ttls = [(name, int(server.execute("TTL", name))) for name in names]
    return [(name, ttl) for name, ttl in ttls if ttl != -2]
