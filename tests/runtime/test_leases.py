"""The lease of a key, and the interactive flag inside it (R4.8, R4.12, R4.13, R4.15)."""

import asyncio

import pytest

from headway.core.errors import ConfigurationError
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.runtime import InjectAnswer, Phase, RuntimeLimits
from tests.runtime.scenes import SHARED, Runtime, RuntimeTarget, a_claim, a_key, text, until

ODD_KEYS = [
    "}",
    "{",
    "{}",
    "a}b{c",
    "%7D",
    "{hw:x}:lease",
    " ",
    "账户/客户 ёж 🚂",
    "x" * 255,
    "}" * 255,
    "\ud800",
    "line\nbreak\x00",
]


@pytest.mark.proves("R4.8")
async def test_refused_lease_names_its_holder(runtime: Runtime, another: Runtime) -> None:
    key, first, second = a_key(), a_claim(), a_claim()
    assert await runtime.acquire_lease(key, first) is None
    assert await another.acquire_lease(key, second) == first.run_id
    assert await another.acquire_lease(a_key(), second) is None


@pytest.mark.proves("R4.8")
async def test_one_of_fifty_concurrent_acquirers_gets_the_lease(
    runtime: Runtime, another: Runtime
) -> None:
    key, claims = a_key(), [a_claim() for _ in range(50)]
    stores = [runtime, another] * 25
    answers = await asyncio.gather(
        *(store.acquire_lease(key, claim) for store, claim in zip(stores, claims, strict=True))
    )
    winners = [claim for claim, holder in zip(claims, answers, strict=True) if holder is None]
    assert len(winners) == 1
    assert set(answers) == {None, winners[0].run_id}


@pytest.mark.proves("R4.8")
async def test_holder_that_acquires_again_keeps_the_lease(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    assert await runtime.acquire_lease(key, claim) is None
    await runtime.mark_interactive(key, claim)
    assert await another.acquire_lease(key, claim) is None
    assert await runtime.inject_message(key, claim.run_id, text(1)) is InjectAnswer.INJECTED


@pytest.mark.proves("R4.15")
async def test_another_claim_of_the_same_run_does_not_own_the_lease(
    runtime: Runtime, another: Runtime
) -> None:
    key, old = a_key(), a_claim()
    new = a_claim(old.run_id)
    await runtime.acquire_lease(key, old)
    assert await another.acquire_lease(key, new) == old.run_id
    assert not await another.renew_lease(key, new)
    assert not await another.release_lease(key, new)
    assert not await another.mark_interactive(key, new)
    assert await runtime.renew_lease(key, old)


@pytest.mark.proves("R4.8")
async def test_only_the_owner_renews_and_releases_a_lease(
    runtime: Runtime, another: Runtime
) -> None:
    key, owner, other = a_key(), a_claim(), a_claim()
    assert not await runtime.renew_lease(key, owner)
    assert not await runtime.release_lease(key, owner)
    await runtime.acquire_lease(key, owner)
    assert not await another.renew_lease(key, other)
    assert not await another.release_lease(key, other)
    assert await runtime.renew_lease(key, owner)
    assert await another.release_lease(key, owner)  # The token counts, not the process.
    assert not await runtime.renew_lease(key, owner)
    assert await another.acquire_lease(key, other) is None


@pytest.mark.proves("R4.15")
async def test_marking_interactive_requires_the_lease(runtime: Runtime, another: Runtime) -> None:
    key, old, new = a_key(), a_claim(), a_claim()
    assert not await runtime.mark_interactive(key, old)
    await runtime.acquire_lease(key, old)
    await runtime.release_lease(key, old)
    await another.acquire_lease(key, new)
    assert not await runtime.mark_interactive(key, old)  # Its lease was lost in the meantime.
    assert await another.inject_message(key, new.run_id, text(1)) is InjectAnswer.NOT_STREAMING
    assert await another.mark_interactive(key, new)


@pytest.mark.proves("R4.8")
async def test_lease_is_held_after_the_interactive_flag_is_cleared(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    await runtime.clear_interactive(key, claim)
    # The loop has ended, but not the run: messages are refused, and no second run starts.
    refused = await another.inject_message(key, claim.run_id, text(1))
    assert refused is InjectAnswer.NOT_STREAMING
    assert await another.acquire_lease(key, a_claim()) == claim.run_id
    assert await runtime.renew_lease(key, claim)


@pytest.mark.proves("R4.8")
async def test_interactive_flag_ends_with_the_lease(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    await runtime.release_lease(key, claim)
    await runtime.acquire_lease(key, claim)
    refused = await another.inject_message(key, claim.run_id, text(1))
    assert refused is InjectAnswer.NOT_STREAMING


@pytest.mark.proves("R4.8")
async def test_only_the_owner_clears_the_interactive_flag(
    runtime: Runtime, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim)
    await runtime.inject_message(key, claim.run_id, text(1))
    assert await another.clear_interactive(key, a_claim(claim.run_id)) == ()
    assert await another.inject_message(key, claim.run_id, text(2)) is InjectAnswer.INJECTED
    assert await runtime.clear_interactive(key, claim) == (text(1), text(2))


@pytest.mark.proves("R4.8")
async def test_cleanup_removes_all_data_and_the_lease(runtime: Runtime, another: Runtime) -> None:
    key, claim = a_key(), a_claim()
    run_id = claim.run_id
    await runtime.acquire_lease(key, claim)
    await runtime.mark_interactive(key, claim, Phase.COMPACTING)
    await another.request_cancel(run_id)
    await runtime.cleanup_execution(key, claim)
    assert not await another.is_cancelled(run_id)
    assert await another.inject_message(key, run_id, text(1)) is InjectAnswer.NO_ACTIVE_RUN
    assert await another.acquire_lease(key, a_claim()) is None


@pytest.mark.proves("R4.15")
async def test_cleanup_by_a_former_claim_removes_nothing(
    runtime: Runtime, another: Runtime
) -> None:
    key, old = a_key(), a_claim()
    new = a_claim(old.run_id)
    await runtime.acquire_lease(key, old)
    await runtime.release_lease(key, old)  # As if it had expired.
    await another.acquire_lease(key, new)
    await another.mark_interactive(key, new)
    await another.inject_message(key, new.run_id, text(1))
    await another.request_cancel(new.run_id)
    await runtime.cleanup_execution(key, old)
    assert await another.is_cancelled(new.run_id)
    assert await another.drain_messages(new) == (text(1),)
    assert await another.renew_lease(key, new)


@pytest.mark.proves("R4.8")
async def test_cleanup_keeps_the_lease_of_the_next_run(runtime: Runtime, another: Runtime) -> None:
    key, old, following = a_key(), a_claim(), a_claim()
    await runtime.acquire_lease(key, old)
    await runtime.release_lease(key, old)
    await another.acquire_lease(key, following)
    await runtime.request_cancel(old.run_id)
    await runtime.cleanup_execution(key, old)
    assert not await runtime.is_cancelled(old.run_id)  # The data of the old run is removed,
    assert await another.renew_lease(key, following)  # and the next run keeps its lease.


@pytest.mark.proves("R4.12")
@pytest.mark.parametrize("name", ODD_KEYS)
async def test_any_text_can_be_a_key(runtime: Runtime, another: Runtime, name: str) -> None:
    key, claim = Key(name), Claim(RunId(name), a_claim().token)
    await runtime.acquire_lease(key, claim)
    assert await another.acquire_lease(key, a_claim()) == claim.run_id
    assert await another.mark_interactive(key, claim)
    assert await another.inject_message(key, claim.run_id, text(1)) is InjectAnswer.INJECTED
    assert await runtime.drain_messages(claim) == (text(1),)
    await another.request_cancel(claim.run_id)
    assert await runtime.wait_for_interrupt(claim.run_id, name) is not None
    await runtime.cleanup_execution(key, claim)
    assert await another.acquire_lease(key, claim) is None
    await another.release_lease(key, claim)


@pytest.mark.proves("R4.13")
@pytest.mark.parametrize("backend", SHARED, indirect=True)
async def test_lease_of_a_crashed_holder_can_be_acquired_after_it_expires(
    target: RuntimeTarget,
) -> None:
    key, dead, successor = a_key(), a_claim(), a_claim()
    limits = RuntimeLimits(lease_ttl_s=0.2)
    async with target.open(limits) as crashed:
        await crashed.acquire_lease(key, dead)
        await crashed.mark_interactive(key, dead)
    async with target.open() as survivor:
        await until(lambda: _acquires(survivor, key, successor), what="the lease expires")
        assert await survivor.inject_message(key, successor.run_id, text(1)) is (
            InjectAnswer.NOT_STREAMING
        )
        assert not await survivor.renew_lease(key, dead)


async def _acquires(store: Runtime, key: Key, claim: Claim) -> bool:
    return await store.acquire_lease(key, claim) is None


@pytest.mark.proves("R4.12")
async def test_lease_in_memory_does_not_expire() -> None:
    async with RuntimeTarget("memory", None).open(RuntimeLimits(lease_ttl_s=0.001)) as store:
        key, claim = a_key(), a_claim()
        await store.acquire_lease(key, claim)
        await asyncio.sleep(0.01)
        assert await store.renew_lease(key, claim)


@pytest.mark.proves("R4.14")
@pytest.mark.parametrize(
    ("invalid", "sentence"),
    [
        ({"lease_ttl_s": 0}, "lease_ttl_s must be a number of seconds above 0"),
        ({"execution_timeout_s": float("nan")}, "execution_timeout_s must be a number of seconds"),
        (
            {"permission_timeout_s": 1800.0},
            "permission_timeout_s (1800) must be below execution_timeout_s (1800)",
        ),
    ],
)
def test_invalid_limits_are_refused(invalid: dict[str, float], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RuntimeLimits(**invalid)  # type: ignore[arg-type]
    assert str(refused.value).startswith(sentence)


@pytest.mark.proves("R4.14")
def test_default_runtime_limits_are_90_300_and_1800_seconds() -> None:
    limits = RuntimeLimits()
    assert (limits.lease_ttl_s, limits.permission_timeout_s, limits.execution_timeout_s) == (
        90,
        300,
        1800,
    )
