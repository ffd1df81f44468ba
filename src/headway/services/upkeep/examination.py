"""Check the promises on a database that others are using. It reads in pages, and changes nothing.

What is written after the beginning is left for the next time, so that there is an end.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from headway.core.doctor.finding import Finding, Severity
from headway.core.doctor.run_page import check_instances, check_page
from headway.core.doctor.slots import SlotReplay
from headway.core.doctor.stream import StreamExtent, check_events, check_extent, check_lane
from headway.core.timeouts import LEASE_TTL_S
from headway.ports.clock import Clock
from headway.ports.doctor_reader import DoctorReader
from headway.services.engine.engine import SWEEP_S

TOLERANCE_S: Final = LEASE_TTL_S + SWEEP_S
RUN_COUNT_MAX: Final = 500
EVENT_COUNT_MAX: Final = 10_000
FINDING_COUNT_MAX: Final = 1_000


@dataclass(slots=True)
class DoctorProgress:
    """How much was looked at, so far."""

    run_count: int = 0
    event_count: int = 0
    lane_count: int = 0
    done: int = 0
    """Of `total`, in no unit: how far a bar should be."""
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What the doctor found, and how much it has looked at."""

    findings: tuple[Finding, ...]
    """The first thousand; the counts are of all."""
    violation_count: int
    note_count: int
    run_count: int
    event_count: int
    lane_count: int

    @property
    def is_healthy(self) -> bool:
        """No promise is broken. A note is odd, and within the promises."""
        return self.violation_count == 0


async def run_doctor(reader: DoctorReader, clock: Clock) -> Examination:
    """All that is wrong, at once."""
    checked, counts, findings = DoctorProgress(), Counter[Severity](), list[Finding]()
    async for finding in examine(reader, clock, checked, lambda: None):
        counts[finding.severity] += 1
        if len(findings) < FINDING_COUNT_MAX:
            findings.append(finding)
    return Examination(
        findings=tuple(findings),
        violation_count=counts[Severity.VIOLATION],
        note_count=counts[Severity.NOTE],
        run_count=checked.run_count,
        event_count=checked.event_count,
        lane_count=checked.lane_count,
    )


async def examine(
    reader: DoctorReader, clock: Clock, checked: DoctorProgress, on_page: Callable[[], None]
) -> AsyncIterator[Finding]:
    """Everything that is wrong. `checked` is kept up to date; `on_page` is told when it has moved.

    Memory is that of a page, however many rows there are.
    """
    extent = await reader.extent()
    checked.total = extent.seq + extent.seq - extent.pruned_seq
    for finding in check_extent(extent):
        yield finding
    for finding in check_instances(await reader.instances(), now=clock.now(), grace_s=TOLERANCE_S):
        yield finding
    uses = await reader.lane_uses()
    for use in uses:
        checked.lane_count += 1
        for finding in check_lane(use):
            yield finding
    async for finding in _examine_runs(reader, clock, extent, checked, on_page):
        yield finding
    slots = SlotReplay([use.lane for use in uses], is_unpruned=extent.pruned_seq == 0)
    async for finding in _examine_events(reader, extent, slots, checked, on_page):
        yield finding


async def _examine_runs(
    reader: DoctorReader,
    clock: Clock,
    extent: StreamExtent,
    checked: DoctorProgress,
    on_page: Callable[[], None],
) -> AsyncIterator[Finding]:
    after_seq = 0
    while after_seq < extent.seq:
        page = await reader.run_page(after_seq=after_seq, limit=RUN_COUNT_MAX)
        for finding in check_page(page, now=clock.now(), grace_s=TOLERANCE_S):
            yield finding
        checked.run_count += len(page.runs) + len(page.unknown_values)
        after_seq = extent.seq if page.last_seq is None else page.last_seq
        checked.done = min(after_seq, extent.seq)
        on_page()


async def _examine_events(
    reader: DoctorReader,
    extent: StreamExtent,
    slots: SlotReplay,
    checked: DoctorProgress,
    on_page: Callable[[], None],
) -> AsyncIterator[Finding]:
    after_seq = extent.pruned_seq
    while after_seq < extent.seq:
        page = await reader.event_page(after_seq=after_seq, limit=EVENT_COUNT_MAX)
        for finding in check_events(page):
            yield finding
        if page.after_seq > after_seq:
            slots.reset()
        for event in page.slot_events:
            for finding in slots.apply(event):
                yield finding
        seqs = page.seqs
        checked.event_count += page.up_to_seq - page.after_seq if seqs is None else len(seqs)
        after_seq = page.up_to_seq
        checked.done = min(extent.seq + after_seq - extent.pruned_seq, checked.total)
        on_page()
