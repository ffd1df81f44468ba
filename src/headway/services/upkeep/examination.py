"""The doctor: check all invariants on a database that is in use, without changing anything.

The doctor reads in pages, up to the newest row at its start, so that it ends although new rows are
written.
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
"""How long a run may be overdue before the doctor reports it.

By then a sweep must have found the run.
"""
RUN_COUNT_MAX: Final = 500
EVENT_COUNT_MAX: Final = 10_000
FINDING_COUNT_MAX: Final = 1_000


@dataclass(slots=True)
class DoctorProgress:
    """The number of rows that the doctor has checked so far."""

    run_count: int = 0
    event_count: int = 0
    lane_count: int = 0
    done: int = 0
    """The part of `total` that is done, for a progress bar. It has no unit."""
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The findings of the doctor, and the number of rows it has checked."""

    findings: tuple[Finding, ...]
    """The first FINDING_COUNT_MAX findings. The counts include all of them."""
    violation_count: int
    note_count: int
    run_count: int
    event_count: int
    lane_count: int

    @property
    def is_healthy(self) -> bool:
        """True if no invariant is violated. A note is unusual, but not a violation."""
        return self.violation_count == 0


async def run_doctor(reader: DoctorReader, clock: Clock) -> Examination:
    """Check the whole database, and return all findings together."""
    progress, counts, findings = DoctorProgress(), Counter[Severity](), list[Finding]()
    async for finding in examine(reader, clock, progress, lambda: None):
        counts[finding.severity] += 1
        if len(findings) < FINDING_COUNT_MAX:
            findings.append(finding)
    return Examination(
        findings=tuple(findings),
        violation_count=counts[Severity.VIOLATION],
        note_count=counts[Severity.NOTE],
        run_count=progress.run_count,
        event_count=progress.event_count,
        lane_count=progress.lane_count,
    )


async def examine(
    reader: DoctorReader, clock: Clock, progress: DoctorProgress, on_page: Callable[[], None]
) -> AsyncIterator[Finding]:
    """Check the whole database, and yield each finding.

    Update `progress`, and call `on_page` after each page. The check needs memory for one page,
    regardless of the number of rows.
    """
    extent = await reader.extent()
    progress.total = extent.seq + extent.seq - extent.pruned_seq
    for finding in check_extent(extent):
        yield finding
    for finding in check_instances(await reader.instances(), now=clock.now(), grace_s=TOLERANCE_S):
        yield finding
    uses = await reader.lane_uses()
    for use in uses:
        progress.lane_count += 1
        for finding in check_lane(use):
            yield finding
    async for finding in _examine_runs(reader, clock, extent, progress, on_page):
        yield finding
    slots = SlotReplay([use.lane for use in uses], is_unpruned=extent.pruned_seq == 0)
    async for finding in _examine_events(reader, extent, slots, progress, on_page):
        yield finding


async def _examine_runs(
    reader: DoctorReader,
    clock: Clock,
    extent: StreamExtent,
    progress: DoctorProgress,
    on_page: Callable[[], None],
) -> AsyncIterator[Finding]:
    after_seq = 0
    while after_seq < extent.seq:
        page = await reader.run_page(after_seq=after_seq, limit=RUN_COUNT_MAX)
        for finding in check_page(page, now=clock.now(), grace_s=TOLERANCE_S):
            yield finding
        progress.run_count += len(page.runs) + len(page.unknown_values)
        after_seq = extent.seq if page.last_seq is None else page.last_seq
        progress.done = min(after_seq, extent.seq)
        on_page()


async def _examine_events(
    reader: DoctorReader,
    extent: StreamExtent,
    slots: SlotReplay,
    progress: DoctorProgress,
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
        progress.event_count += page.up_to_seq - page.after_seq if seqs is None else len(seqs)
        after_seq = page.up_to_seq
        progress.done = min(extent.seq + after_seq - extent.pruned_seq, progress.total)
        on_page()
