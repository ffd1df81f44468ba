"""Time in the reference: the next event, and how a crash after every commit changes it.

Times are in milliseconds from the start. Events of one instant come in this order: signals,
ends of calls, alarms (the alarm of an outer flow before that of an inner one).
"""

from tests.core.flow.driver import Crash
from tests.core.flow.reference_parts import (
    FOREVER_MS,
    AmbiguousOrder,
    Branches,
    Event,
    NothingPending,
    Signals,
    SubflowTimeout,
    Tries,
    TryOutcome,
)
from tests.core.flow.reference_values import Json


class Timeline:
    def __init__(self, signals: Signals, crash: Crash) -> None:
        self.signals = sorted(signals, key=lambda signal: signal[0])
        self.crash = crash
        self.now = 0
        self.root: Json = {}
        self.deadlines: list[tuple[int, int]] = []
        self.call_count = 0

    def advance(self, at: int, *, is_alarm: bool) -> None:
        for limit, depth in sorted(self.deadlines):
            if at > limit or (is_alarm and at >= limit):
                self._apply_signals(limit)
                raise SubflowTimeout(depth)
        self._apply_signals(at)
        if at >= FOREVER_MS:
            raise NothingPending

    def check_no_tie(self, at: int, *others: Event) -> None:
        """Check the order before an end or a signal at `at`; it is ambiguous only after a crash."""
        alarms = {limit for limit, _ in self.deadlines}
        alarms |= {event.at for event in others if event.is_alarm}
        if self.crash is not Crash.NEVER and at in alarms:
            raise AmbiguousOrder

    def _apply_signals(self, at: int) -> None:
        while self.signals and self.signals[0][0] <= at:
            _, key, value = self.signals.pop(0)
            self.root[key] = value
        self.now = at

    def run_alone(self, tries: Tries, branches: Branches) -> TryOutcome:
        while True:
            try:
                branches.waiting[0] = next(tries)
            except StopIteration as end:
                tried: TryOutcome = end.value
                return tried
            self.wait_for_next(branches)

    def wait_for_next(self, branches: Branches) -> int:
        """Advance the time to the next event of a branch, and return the index of that branch."""
        waiting = branches.waiting
        while True:
            self.crash_calls(branches)
            index = min(waiting, key=lambda at: (*waiting[at][:3], at))
            event = waiting[index]
            others = [waiting_event for at, waiting_event in waiting.items() if at != index]
            signal_at = self.signals[0][0] if self.signals else FOREVER_MS
            if self.crash is not Crash.NEVER and signal_at <= event.at < FOREVER_MS:
                self.check_no_tie(signal_at, event, *others)
                self.advance(signal_at, is_alarm=False)
                continue
            if not event.is_alarm:
                self.check_no_tie(event.at, *others)
            self.advance(event.at, is_alarm=event.is_alarm)
            del waiting[index]
            branches.is_late = event.is_alarm
            return index

    def crash_calls(self, branches: Branches) -> None:
        """Apply the crash that follows a commit to the calls in flight.

        A child run continues, and so does its time limit. Other time limits start again.
        With RELOAD the calls themselves continue; with LOSE they are made again.
        """
        alarms = [event.at for event in branches.waiting.values() if event.is_alarm]
        if self.crash is Crash.NEVER or (branches.is_late and self.now in alarms):
            return  # All alarms of an instant are one commit.
        calls = [event.call for event in branches.waiting.values() if event.call is not None]
        for call in sorted(calls, key=lambda call: (call.due_since, call.branch)):
            if call.is_child:
                continue
            again = call._replace(due_at=self.due_at(call.timeout_ms))
            if self.crash is Crash.LOSE:
                self.call_count += 1
                again = again._replace(number=self.call_count, ends_at=self.now + call.after_ms)
            branches.waiting[call.branch] = again.event()

    def due_at(self, timeout_ms: int) -> int:
        return self.now + timeout_ms if timeout_ms else 2 * FOREVER_MS
