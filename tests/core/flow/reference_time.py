"""Time in the reference: what comes next, and what a crash after every commit changes of it.

Times are in milliseconds from the start. What happens at one instant comes in this order: signals,
ends of calls, alarms (an outer flow's before an inner one's).
"""

from tests.core.flow.driver import Crash
from tests.core.flow.reference_parts import (
    FOR_EVER,
    Branches,
    Event,
    OutOfTime,
    Signals,
    Stuck,
    Tie,
    Tried,
    Tries,
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
                self._let_signals_in(limit)
                raise OutOfTime(depth)
        self._let_signals_in(at)
        if at >= FOR_EVER:
            raise Stuck

    def check_no_tie(self, at: int, *others: Event) -> None:
        """Before an end or a signal at that instant. Only a crash makes a difference."""
        alarms = {limit for limit, _ in self.deadlines}
        alarms |= {event.at for event in others if event.is_alarm}
        if self.crash is not Crash.NEVER and at in alarms:
            raise Tie

    def _let_signals_in(self, at: int) -> None:
        while self.signals and self.signals[0][0] <= at:
            _, key, value = self.signals.pop(0)
            self.root[key] = value
        self.now = at

    def alone(self, tries: Tries, branches: Branches) -> Tried:
        while True:
            try:
                branches.waiting[0] = next(tries)
            except StopIteration as end:
                tried: Tried = end.value
                return tried
            self.next_of(branches)

    def next_of(self, branches: Branches) -> int:
        """Let the time pass until one of them has something to do: which one that is."""
        waiting = branches.waiting
        while True:
            self.crash_calls(branches)
            index = min(waiting, key=lambda at: (*waiting[at][:3], at))
            event = waiting[index]
            others = [one for at, one in waiting.items() if at != index]
            signal_at = self.signals[0][0] if self.signals else FOR_EVER
            if self.crash is not Crash.NEVER and signal_at <= event.at < FOR_EVER:
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
        """After a commit. A child goes on, and so does its time; that of others counts anew.

        What is only loaded again goes on; what is lost is called again.
        """
        alarms = [one.at for one in branches.waiting.values() if one.is_alarm]
        if self.crash is Crash.NEVER or (branches.is_late and self.now in alarms):
            return  # All alarms of an instant are one commit.
        calls = [one.call for one in branches.waiting.values() if one.call is not None]
        for call in sorted(calls, key=lambda one: (one.due_since, one.branch)):
            if call.is_child:
                continue
            again = call._replace(due_at=self.due(call.timeout_ms))
            if self.crash is Crash.LOSE:
                self.call_count += 1
                again = again._replace(number=self.call_count, ends_at=self.now + call.after_ms)
            branches.waiting[call.branch] = again.event()

    def due(self, timeout_ms: int) -> int:
        return self.now + timeout_ms if timeout_ms else 2 * FOR_EVER
