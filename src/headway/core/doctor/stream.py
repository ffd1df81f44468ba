"""Check that the event stream has no gaps (I13) and lanes are within their limits (I5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headway.core.doctor.finding import Finding, note, violation
from headway.core.doctor.slots import SlotEvent
from headway.core.lane_row import LaneRow


class StreamExtent(NamedTuple):
    """The bounds of the stream: as recorded in its row, and as found in the stored events."""

    seq: int
    pruned_seq: int
    first_event_seq: int | None
    last_event_seq: int | None


@dataclass(frozen=True, slots=True)
class ExaminedEvents:
    after_seq: int
    up_to_seq: int
    seqs: Sequence[int] | None
    """The `seq`s of the page's events. None if the page has the expected number of events."""
    slot_events: Sequence[SlotEvent] = ()
    """The events of the page that give, return or limit slots, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneUsage:
    lane: LaneRow
    held_count: int
    last_taken_seq: int | None
    """The `seq` of the last event that gave a current holder its slot. None if it was pruned."""
    is_changed_since: bool
    """True if the lane's limits were changed after the event with `last_taken_seq`."""


def check_extent(extent: StreamExtent) -> Iterator[Finding]:
    first, last = extent.first_event_seq, extent.last_event_seq
    if last is not None and last > extent.seq:
        sentence = f"the stream ends at {extent.seq}, but there is an event after it"
        yield violation("I13", f"event {last}", sentence)
    if first is not None and first <= extent.pruned_seq:
        sentence = f"the stream is pruned up to {extent.pruned_seq}, but this event still exists"
        yield violation("I13", f"event {first}", sentence)


def check_events(page: ExaminedEvents) -> Iterator[Finding]:
    """Yield one finding for each gap between the events of a page, however long the gap is."""
    if page.seqs is None:
        return
    last_seq = page.after_seq
    for seq in (*page.seqs, page.up_to_seq + 1):
        if seq != last_seq + 1:
            first, last = last_seq + 1, seq - 1
            subject = f"event {first}" if first == last else f"events {first} to {last}"
            sentence = f"missing: the stream has a gap ({seq - first} events)"
            yield violation("I13", subject, sentence)
        last_seq = seq


def check_lane(usage: LaneUsage) -> Iterator[Finding]:
    """Yield a finding if more slots of a lane are held than its limit allows.

    The finding is a violation only if a slot was taken after the limit was last set. Otherwise it
    is a note: lowering a limit does not stop the runs that already hold slots.
    """
    lane = usage.lane
    if usage.held_count <= lane.max_concurrent:
        return
    subject = f"lane {lane.name!r}"
    sentence = f"{usage.held_count} slots are held, and the limit is {lane.max_concurrent}"
    is_taken_since = usage.last_taken_seq is not None and not usage.is_changed_since
    if lane.revision == 0 or is_taken_since:
        yield violation("I5", subject, sentence)
    else:
        yield note("I5", subject, f"{sentence}: it was lowered, which does not stop running runs")
