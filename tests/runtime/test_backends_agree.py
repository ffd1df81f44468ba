"""Memory and Redis return the same answers to the same random calls (R4.15, I24)."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.runtime import Hint, Phase, RuntimeLimits
from tests.runtime.scenes import SHARED, Runtime, RuntimeTarget, a_key, open_runtime, text

LIMITS = RuntimeLimits(message_count_max=3, interrupt_count_max=3)
KEYS = st.sampled_from([Key("k"), Key("l}")])
RUNS = st.sampled_from([RunId("r"), RunId("{s")])
CLAIMS = st.builds(Claim, RUNS, st.sampled_from(["1", "2"]))
CALLS = st.sampled_from(["a", "b", "!", "?a"])
MESSAGES = st.integers(0, 9).map(text)


class StoreComparison(RuleBasedStateMachine):
    """Every rule makes the same call to both stores. Each machine uses its own names."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.salt = a_key("")
        self.stores: list[Runtime] = [
            self.runner.run(self.stack.enter_async_context(open_runtime(url, LIMITS)))
            for url in (None, self.url)
        ]

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()

    def compare(self, method: str, *parts: Any, **options: Any) -> None:
        salted = [self._salted(part) for part in parts]

        async def call_both() -> list[Any]:
            return [await getattr(store, method)(*salted, **options) for store in self.stores]

        in_memory, in_redis = self.runner.run(call_both())
        assert in_memory == in_redis

    def _salted(self, part: Any) -> Any:
        if isinstance(part, Claim):
            return Claim(RunId(part.run_id + self.salt), part.token)
        return part + self.salt if part in ("k", "l}", "r", "{s") else part

    @rule(key=KEYS, claim=CLAIMS)
    def acquire(self, key: Key, claim: Claim) -> None:
        self.compare("acquire_lease", key, claim)

    @rule(key=KEYS, claim=CLAIMS)
    def renew(self, key: Key, claim: Claim) -> None:
        self.compare("renew_lease", key, claim)

    @rule(key=KEYS, claim=CLAIMS)
    def release(self, key: Key, claim: Claim) -> None:
        self.compare("release_lease", key, claim)

    @rule(key=KEYS, claim=CLAIMS, phase=st.sampled_from(Phase))
    def mark(self, key: Key, claim: Claim, phase: Phase) -> None:
        self.compare("mark_interactive", key, claim, phase)

    @rule(key=KEYS, claim=CLAIMS)
    def clear(self, key: Key, claim: Claim) -> None:
        self.compare("clear_interactive", key, claim)

    @rule(key=KEYS, run_id=RUNS, message=MESSAGES)
    def inject(self, key: Key, run_id: RunId, message: str) -> None:
        self.compare("inject_message", key, run_id, message)

    @rule(claim=CLAIMS)
    def drain(self, claim: Claim) -> None:
        self.compare("drain_messages", claim)

    @rule(run_id=RUNS, call_id=CALLS)
    def create(self, run_id: RunId, call_id: str) -> None:
        self.compare("create_interrupt", run_id, call_id)

    @rule(run_id=RUNS, call_id=CALLS, answer=MESSAGES)
    def resolve(self, run_id: RunId, call_id: str, answer: str) -> None:
        self.compare("resolve_interrupt", run_id, call_id, answer)

    @rule(run_id=RUNS, call_id=CALLS)
    def wait(self, run_id: RunId, call_id: str) -> None:
        self.compare("wait_for_interrupt", run_id, call_id, timeout_s=0.001)

    @rule(run_id=RUNS)
    def cancel(self, run_id: RunId) -> None:
        self.compare("request_cancel", run_id)

    @rule(run_id=RUNS)
    def is_cancelled(self, run_id: RunId) -> None:
        self.compare("is_cancelled", run_id)

    @rule(run_id=RUNS, hint=st.sampled_from(Hint))
    def hint(self, run_id: RunId, hint: Hint) -> None:
        self.compare("publish_hint", run_id, hint)

    @rule(key=KEYS, claim=CLAIMS)
    def clean_up(self, key: Key, claim: Claim) -> None:
        self.compare("cleanup_execution", key, claim)


@pytest.mark.proves("I24")
@pytest.mark.parametrize("backend", SHARED, indirect=True)
def test_memory_and_redis_return_the_same_answers(target: RuntimeTarget) -> None:
    machine = type("StoreComparisonHere", (StoreComparison,), {"url": target.url})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
