"""Every error that a caller may catch.

Error
├── InvalidInput             the caller's words cannot be taken; names the place
│   ├── TooLarge             a document over its limit
│   └── InvalidFlow          a flow definition with faults; lists every one with its place
├── ConflictError            right words, wrong moment
│   ├── KeyBusy              the key has an active run
│   ├── KeyLocked            a key's saved row cannot change while its run is active
│   ├── IdempotencyConflict  another request used this idempotency key
│   ├── OutputExists         the key has output, and nobody said what is to become of it
│   ├── RevisionConflict     somebody changed it since it was read
│   ├── QuestionNotOpen      the run does not ask this, or has been answered
│   ├── NotWaiting           the task does not wait for an approval, or has one already
│   ├── ChildRefused         a run's job may not start this child
│   ├── RunNotActive         the run is over, and takes no more messages
│   └── MessageRefused       the run is active and does not listen for messages
├── LaneFull                 the lane takes no more queued runs for now
├── InboxOverflow            the run has too many messages that it has not read
├── RunNotFound
├── FlowNotFound             there is no such flow, or no such version of it
├── ConfigurationError       what was configured cannot work; the program does not start
│   ├── SchemaMismatch       the database's schema is missing, older or newer than the program
│   └── ForeignDatabase      another program's tables have headway's names
└── InfrastructureError      something outside did not answer
    ├── DatabaseUnavailable  no address could be used; lists each one's reason
    │   └── DatabaseBehind   the only usable node lacks commits that this process has seen
    ├── DatabaseFileLost     the SQLite file was deleted or replaced while open
    ├── OutcomeUnknown       it went away while it committed; whether it did is not known
    ├── StoreFailed          the database refused the write (disk full, read-only …)
    ├── StoreOverloaded      more writes wait than the limit allows
    ├── StoreClosed
    ├── RuntimeUnavailable   the runtime store did not answer in time; the database has everything
    └── LeaseLost            another took the key's lease, or it could not be confirmed in time
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headway.core.ids import Key, LaneName, RunId

ACCEPT_PRIMARY_COMMAND: Final = "headway db accept-primary"


class Error(Exception):
    """The root of all errors that headway raises on purpose. They can be copied and pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by `__init__`: that takes the parts of the sentence, and `args` is the whole of it.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(kind: type[Error], args: tuple[Any, ...]) -> Error:
    return kind.__new__(kind, *args)


class InvalidInput(Error):
    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.field = place
        self.problem = problem


class TooLarge(InvalidInput):
    """A document is longer than it may be."""


class InvalidFlow(InvalidInput):
    """A flow definition cannot be taken. `faults` has every fault: its place and the problem."""

    def __init__(self, faults: Sequence[tuple[str, str]]) -> None:
        super().__init__(*faults[0])
        self.errors = tuple(faults)
        self.args = ("; ".join(f"{place}: {problem}" for place, problem in faults),)


class ConflictError(Error):
    """What was asked is sensible, but not now."""


class KeyBusy(ConflictError):
    def __init__(self, key: Key, active_run_id: RunId) -> None:
        super().__init__(f"key {key!r} already has an active run ({active_run_id})")
        self.key = key
        self.active_run_id = active_run_id


class KeyLocked(ConflictError):
    def __init__(self, key: Key, active_run_id: RunId) -> None:
        super().__init__(f"key {key!r} cannot change while run {active_run_id} is active")
        self.key = key
        self.active_run_id = active_run_id


class IdempotencyConflict(ConflictError):
    def __init__(self, idempotency_key: str, run_id: RunId) -> None:
        super().__init__(
            f"idempotency key {idempotency_key!r} was used with another request (run {run_id})"
        )
        self.idempotency_key = idempotency_key
        self.run_id = run_id


class OutputExists(ConflictError):
    def __init__(self, key: Key, file_count: int, example: str) -> None:
        files = "a file" if file_count == 1 else f"{file_count:,} files, such as"
        super().__init__(
            f"key {key!r} has output already ({files} {example!r}); start it with "
            "on_existing_output='replace', 'archive' or 'delete', or continue it"
        )
        self.key = key
        self.file_count = file_count
        self.example = example


class RevisionConflict(ConflictError):
    def __init__(self, what: str, revision: int) -> None:
        super().__init__(f"{what} has changed since it was read; it is at revision {revision} now")
        self.resource = what
        self.revision = revision


class RunNotActive(ConflictError):
    def __init__(self, run_id: RunId) -> None:
        super().__init__(f"run {run_id} is over or on its way to its end")
        self.run_id = run_id
        self.reason = "no_active_run"


class MessageRefused(ConflictError):
    """The run refuses the message; `reason` is a `Refusal`.

    `can_wait` is True if `deliver="when_listening"` would store it in the run's inbox.
    """

    def __init__(self, run_id: RunId, reason: str, *, can_wait: bool = False) -> None:
        problem = _REFUSAL_TEXTS.get(reason, "does not listen for messages now").format(run_id)
        remedy = "; to deliver it as soon as the run listens, send it with " + _WAIT_OPTION
        super().__init__(f"run {run_id} {problem}{remedy if can_wait else ''}")
        self.run_id = run_id
        self.reason = reason
        self.can_wait = can_wait


_REFUSAL_TEXTS: Mapping[str, str] = {
    "not_started": "has not started, and accepts no messages yet",
    "compacting": "is compacting, and accepts no messages until it has finished",
    "flow_task": (
        "is a flow task, which accepts signals instead of messages;"
        " send one with `headway task signal {0} KEY VALUE` or POST /api/tasks/{0}/signal"
    ),
}
_WAIT_OPTION = 'deliver="when_listening" (command line: --when-listening)'


class InterruptNotOpen(ConflictError):
    def __init__(
        self, run_id: RunId, call_id: str, *, is_answered: bool, open_call_ids: tuple[str, ...]
    ) -> None:
        if is_answered:
            problem = "it was answered already"
        elif open_call_ids:
            problem = f"it asks: {', '.join(open_call_ids)}"
        else:
            problem = "it asks nothing"
        super().__init__(f"run {run_id} does not ask {call_id!r} now: {problem}")
        self.run_id = run_id
        self.call_id = call_id
        self.open_call_ids = open_call_ids


class ApprovalNotOpen(ConflictError):
    def __init__(self, run_id: RunId, *, is_answered: bool, needs_signal: bool = False) -> None:
        """`is_within`: it waits for one that is only a part of what a signal would have to set."""
        problem = "it has an answer already" if is_answered else "it waits for none"
        if needs_signal:
            problem = "it waits for one that only a signal can bring; `headway explain` says which"
        super().__init__(f"task {run_id} takes no approval now: {problem}")
        self.run_id = run_id
        self.is_answered = is_answered


class ChildRefused(ConflictError):
    def __init__(self, run_id: RunId, problem: str) -> None:
        super().__init__(f"run {run_id} cannot start this child: {problem}")
        self.run_id = run_id


class InboxOverflow(Error):
    def __init__(self, run_id: RunId, unread_count_max: int) -> None:
        super().__init__(f"run {run_id} already has {unread_count_max} unread messages")
        self.run_id = run_id
        self.unread_count_max = unread_count_max


class LaneFull(Error):
    def __init__(self, lane: LaneName, queued_count_max: int) -> None:
        super().__init__(f"lane {lane!r} already has {queued_count_max} queued runs")
        self.lane = lane
        self.queued_count_max = queued_count_max


class RunNotFound(Error):
    def __init__(self, run_id: RunId, *, kind: str = "run") -> None:
        super().__init__(f"there is no {kind} {run_id!r}")
        self.run_id = run_id


class FlowNotFound(Error):
    def __init__(self, flow: str, version: int | None = None) -> None:
        wanted = "published" if version is None else f"version {version}"
        super().__init__(f"there is no flow {flow!r} ({wanted})")
        self.flow = flow
        self.version = version


class ConfigurationError(Error):
    """What was configured cannot work. One sentence: the place, and what to do."""


class SchemaMismatch(ConfigurationError):
    """The database's schema is not the one this program was written for.

    `remedy` is the command that would mend it; None: it takes another headway.
    """

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        super().__init__(
            f"{problem}; upgrade headway" if remedy is None else f"{problem}; run: {remedy}"
        )
        self.problem = problem
        self.remedy = remedy


class ForeignDatabase(ConfigurationError):
    """The database is another program's: tables with headway's names have other columns."""

    def __init__(self, database: str, evidence: str) -> None:
        super().__init__(
            f"the database {database} seems to belong to another program: {evidence}; nothing was"
            " changed; give headway a database of its own (or restore this one, if it is headway's)"
        )
        self.database = database
        self.evidence = evidence


class InfrastructureError(Error):
    """Something outside this program did not answer, or refused."""


class DatabaseUnavailable(InfrastructureError):
    def __init__(self, reasons: Mapping[str, str]) -> None:
        listed = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        super().__init__(f"no database address can be used: {listed}")
        self.reasons = dict(reasons)


class DatabaseBehind(DatabaseUnavailable):
    """No node can be used, and at least one only lacks commits that were seen before."""

    ADVICE: Final = (
        "the database was restored or failed over to a node that lacks commits which this server"
        " has seen, so it is not used; bring back the node that has them, or give them up with:"
        f" {ACCEPT_PRIMARY_COMMAND}"
    )
    """The cause and the remedy, without addresses."""


class DatabaseFileLost(InfrastructureError):
    """The SQLite file at the path is not the one that this process has open."""

    def __init__(self, what_happened: str) -> None:
        super().__init__(
            f"the database file was {what_happened} while headway used it; nothing is read or"
            " stored until the same file is back or headway is restarted"
        )
        self.change = what_happened


class OutcomeUnknown(InfrastructureError):
    """The database went away in the middle of a commit, and did not come back in time to be asked.

    What was asked for may have been done. A submission with an idempotency key can be repeated.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the database went away during a commit, which may stand ({reason})")


class StoreFailed(InfrastructureError):
    """The database refused the write; nothing of it was kept."""


class StoreOverloaded(InfrastructureError):
    def __init__(self, waiting_count: int) -> None:
        super().__init__(f"{waiting_count} writes wait already; try again in a moment")
        self.waiting_count = waiting_count


class StoreClosed(InfrastructureError):
    def __init__(self) -> None:
        super().__init__("the store is closed")


class RuntimeUnavailable(InfrastructureError):
    """Redis did not answer, or refused. What was asked may have been done, and may be repeated."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"Redis at {address} cannot be used: {reason}")
        self.address = address
        self.reason = reason


class LeaseLost(InfrastructureError):
    """The work was stopped: its process can no longer be sure that nobody else does it too."""

    def __init__(self, key: Key, run_id: RunId) -> None:
        super().__init__(f"run {run_id} has lost the lease of key {key!r}")
        self.key = key
        self.run_id = run_id
