"""The holder of a lease renews it, and stops if the lease is lost (R4.13, R4.15, I22)."""

import asyncio
from collections.abc import Callable

import pytest

from headway.core.errors import LeaseLost, RuntimeUnavailable
from headway.core.ids import Key
from headway.core.run.run import Claim
from headway.ports.hint_bus import HintBus
from headway.runtime import RuntimeLimits
from headway.services.engine.key_lease import HeldLease
from tests.runtime.scenes import SHARED, Runtime, RuntimeTarget, a_claim, a_key, until

TTL_S = 0.6


class Database:
    """Answers whether the claim is current, and counts the queries."""

    def __init__(self, *, is_current: bool) -> None:
        self.is_current = is_current
        self.query_count = 0

    async def __call__(self) -> bool:
        self.query_count += 1
        return self.is_current


def hold(store: HintBus, key: Key, claim: Claim, database: Database) -> HeldLease:
    return HeldLease(hint_bus=store, key=key, claim=claim, ttl_s=TTL_S, is_claim_current=database)


@pytest.mark.proves("R4.13")
async def test_lease_is_renewed_for_as_long_as_the_work_takes(target: RuntimeTarget) -> None:
    key, claim, database = a_key(), a_claim(), Database(is_current=False)
    async with target.open(RuntimeLimits(lease_ttl_s=TTL_S)) as store:
        await store.acquire_lease(key, claim)

        async def work() -> str:
            await asyncio.sleep(2 * TTL_S)
            assert await store.acquire_lease(key, a_claim()) == claim.run_id
            return "done"

        assert await hold(store, key, claim, database).run(work) == "done"
        assert database.query_count == 0
        await store.cleanup_execution(key, claim)


@pytest.mark.proves("R4.13")
async def test_lost_lease_stops_the_work(runtime: Runtime, another: Runtime) -> None:
    key, claim, database = a_key(), a_claim(), Database(is_current=False)
    await runtime.acquire_lease(key, claim)
    stopped: list[str] = []
    with pytest.raises(LeaseLost, match=f"run {claim.run_id} has lost the lease of key"):
        await hold(runtime, key, claim, database).run(
            _lose_and_wait(lambda: another.release_lease(key, claim), stopped)
        )
    assert stopped == ["cancelled"]
    assert database.query_count == 1


@pytest.mark.proves("I22")
async def test_lost_lease_is_acquired_again_while_the_claim_is_current(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim, database = a_key(), a_claim(), Database(is_current=True)
    await runtime.acquire_lease(key, claim)

    async def work() -> None:
        await another.release_lease(key, claim)
        await until(lambda: another.renew_lease(key, claim), what="the lease is acquired again")

    await hold(runtime, key, claim, database).run(work)
    assert database.query_count == 1


@pytest.mark.proves("R4.15")
@pytest.mark.parametrize("failure", ["fails", "hangs"])
@pytest.mark.parametrize("is_current", [True, False])
async def test_renewal_that_fails_or_hangs_counts_as_lost_after_the_deadline(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, failure: str, is_current: bool
) -> None:
    key, claim, database = a_key(), a_claim(), Database(is_current=is_current)

    async def renew(_key: Key, _claim: Claim) -> bool:
        if failure == "hangs":
            await asyncio.Event().wait()
        raise RuntimeUnavailable("nowhere", "connection refused")

    async def work() -> str:
        await until(lambda: database.query_count > 0, what="the database is queried")
        await asyncio.sleep(0 if is_current else 30)
        return "done"

    await runtime.acquire_lease(key, claim)
    monkeypatch.setattr(runtime, "renew_lease", renew)
    running = hold(runtime, key, claim, database).run(work)
    if is_current:
        assert await running == "done"
    else:
        with pytest.raises(LeaseLost):
            await running


async def test_exception_of_the_work_is_raised(runtime: Runtime) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)

    async def work() -> None:
        raise KeyError("raised by the work")

    with pytest.raises(ExceptionGroup) as raised:
        await hold(runtime, key, claim, Database(is_current=True)).run(work)
    assert raised.group_contains(KeyError)


@pytest.mark.proves("R4.13")
@pytest.mark.parametrize("backend", SHARED, indirect=True)
async def test_holder_of_an_expired_lease_stops_at_its_next_renewal(
    target: RuntimeTarget, runtime: Runtime
) -> None:
    """The lease expires without a renewal, and another claim acquires it."""
    key, claim, successor = a_key(), a_claim(), a_claim()
    async with target.open(RuntimeLimits(lease_ttl_s=0.05)) as frozen:
        await frozen.acquire_lease(key, claim)

        async def acquire() -> bool:
            return await runtime.acquire_lease(key, successor) is None

        await until(acquire, what="the lease has expired")
        stopped: list[str] = []
        with pytest.raises(LeaseLost):
            await hold(frozen, key, claim, Database(is_current=False)).run(
                _lose_and_wait(None, stopped)
            )
        assert stopped == ["cancelled"]
    await runtime.cleanup_execution(key, successor)


def _lose_and_wait(lose: Callable[[], object] | None, stopped: list[str]):  # type: ignore[no-untyped-def]
    async def work() -> None:
        if lose is not None:
            await lose()  # type: ignore[misc]
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.append("cancelled")
            raise

    return work
