"""Who holds a lease renews it, and stops by itself when it is lost (R4.13, R4.15, I22)."""

import asyncio
from collections.abc import Callable

import pytest

from headway.core.errors import LeaseLost, RuntimeUnavailable
from headway.core.ids import Key
from headway.core.run.run import Claim
from headway.ports.runtime_store import RuntimeLimits, RuntimeStore
from headway.services.engine.key_lease import HeldLease
from tests.runtime.scenes import SHARED, Place, Runtime, a_claim, a_key, until

TTL_S = 0.6


class Database:
    """Whether the claim is in force; what the keeper asked."""

    def __init__(self, *, in_force: bool) -> None:
        self.in_force = in_force
        self.asked_count = 0

    async def __call__(self) -> bool:
        self.asked_count += 1
        return self.in_force


def held(store: RuntimeStore, key: Key, claim: Claim, database: Database) -> HeldLease:
    return HeldLease(runtime=store, key=key, claim=claim, ttl_s=TTL_S, is_claim_current=database)


@pytest.mark.proves("R4.13")
async def test_a_lease_is_kept_for_as_long_as_the_work_takes(place: Place) -> None:
    key, claim, database = a_key(), a_claim(), Database(in_force=False)
    async with place.opened(RuntimeLimits(lease_ttl_s=TTL_S)) as store:
        await store.acquire_lease(key, claim)

        async def work() -> str:
            await asyncio.sleep(2 * TTL_S)
            assert await store.acquire_lease(key, a_claim()) == claim.run_id
            return "done"

        assert await held(store, key, claim, database).run(work) == "done"
        assert database.asked_count == 0
        await store.cleanup_execution(key, claim)


@pytest.mark.proves("R4.13")
async def test_a_lost_lease_stops_the_work(runtime: Runtime, another: Runtime) -> None:
    key, claim, database = a_key(), a_claim(), Database(in_force=False)
    await runtime.acquire_lease(key, claim)
    stopped: list[str] = []
    with pytest.raises(LeaseLost, match=f"run {claim.run_id} has lost the lease of key"):
        await held(runtime, key, claim, database).run(
            _lose_and_wait(lambda: another.release_lease(key, claim), stopped)
        )
    assert stopped == ["cancelled"]
    assert database.asked_count == 1


@pytest.mark.proves("I22")
async def test_a_lease_that_is_lost_while_the_claim_stands_is_taken_again(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim, database = a_key(), a_claim(), Database(in_force=True)
    await runtime.acquire_lease(key, claim)

    async def work() -> None:
        await another.release_lease(key, claim)
        await until(lambda: another.renew_lease(key, claim), what="the lease is taken again")

    await held(runtime, key, claim, database).run(work)
    assert database.asked_count == 1


@pytest.mark.proves("R4.15")
@pytest.mark.parametrize("fault", ["fails", "hangs"])
@pytest.mark.parametrize("in_force", [True, False])
async def test_a_renewal_that_fails_or_hangs_is_lost_after_the_deadline(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, fault: str, in_force: bool
) -> None:
    key, claim, database = a_key(), a_claim(), Database(in_force=in_force)

    async def renew(_key: Key, _claim: Claim) -> bool:
        if fault == "hangs":
            await asyncio.Event().wait()
        raise RuntimeUnavailable("nowhere", "it is away")

    async def work() -> str:
        await until(lambda: database.asked_count > 0, what="the database is asked")
        await asyncio.sleep(0 if in_force else 30)
        return "done"

    await runtime.acquire_lease(key, claim)
    monkeypatch.setattr(runtime, "renew_lease", renew)
    running = held(runtime, key, claim, database).run(work)
    if in_force:
        assert await running == "done"
    else:
        with pytest.raises(LeaseLost):
            await running


async def test_what_the_work_raises_goes_through(runtime: Runtime) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)

    async def work() -> None:
        raise KeyError("of the work")

    with pytest.raises(ExceptionGroup) as raised:
        await held(runtime, key, claim, Database(in_force=True)).run(work)
    assert raised.group_contains(KeyError)


@pytest.mark.proves("R4.13")
@pytest.mark.parametrize("backend", SHARED, indirect=True)
async def test_a_second_holder_finds_the_first_stopped(place: Place, runtime: Runtime) -> None:
    """The lease expires because nobody renews it; the holder is told when it asks again."""
    key, claim, heir = a_key(), a_claim(), a_claim()
    async with place.opened(RuntimeLimits(lease_ttl_s=0.05)) as frozen:
        await frozen.acquire_lease(key, claim)

        async def taken() -> bool:
            return await runtime.acquire_lease(key, heir) is None

        await until(taken, what="the lease has expired")
        stopped: list[str] = []
        with pytest.raises(LeaseLost):
            await held(frozen, key, claim, Database(in_force=False)).run(
                _lose_and_wait(None, stopped)
            )
        assert stopped == ["cancelled"]
    await runtime.cleanup_execution(key, heir)


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
