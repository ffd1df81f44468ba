"""Every error that a caller may catch.

Error
├── InvalidInput             an argument is invalid; names the field
│   ├── TooLarge             a document exceeds its size limit
│   └── InvalidFlow          a flow definition is invalid; lists every error with its path
├── ConflictError            a valid request, but not in the current state
│   ├── KeyBusy              the key has an active run
│   ├── KeyLocked            the key's saved row cannot change while a run is active
│   ├── IdempotencyConflict  another request used this idempotency key
│   ├── OutputExists         the key has output, and the request does not specify what to do with it
│   ├── RevisionConflict     the row has changed since it was read
│   ├── InterruptNotOpen     the run has no such open question
│   ├── ApprovalNotOpen      the task waits for no approval, or it was already answered
│   ├── ChildRefused         a run's job may not start this child
│   ├── RunNotActive         the run has ended or is about to end, and accepts no messages
│   └── MessageRefused       the run is active but does not accept the message now
├── LaneFull                 the lane has its maximum number of queued runs
├── InboxOverflow            the run has its maximum number of unread messages
├── RunFailed                the run ended without a result
├── RunNotFound
├── FlowNotFound             there is no such flow, or no such version of it
├── ConfigurationError       the configuration is invalid; the program does not start
│   ├── SchemaMismatch       the database's schema is missing, older or newer than the program
│   └── ForeignDatabase      another program's tables have headway's names
└── InfrastructureError      an external system failed or did not respond
    ├── DatabaseUnavailable  no address could be used; has the reason for each
    │   └── DatabaseBehind   the only usable node lacks commits that this process has seen
    ├── DatabaseFileLost     the SQLite file was deleted or replaced while open
    ├── OutcomeUnknown       the connection was lost during a commit, which may have succeeded
    ├── StoreFailed          the database refused the write (disk full, read-only …)
    ├── StoreOverloaded      more writes are waiting than the limit allows
    ├── StoreClosed
    ├── RuntimeUnavailable   the runtime store did not respond in time; no data is lost
    └── LeaseLost            another run took the key's lease, or it was not confirmed in time
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from headway.core.ids import Key, LaneName, RunId
from headway.core.run.status import RunStatus

ACCEPT_PRIMARY_COMMAND: Final = "headway db accept-primary"


class Error(Exception):
    """The base class of all errors that headway raises. They can be copied and pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Bypasses `__init__`, which takes the parts of the message, while `args` is the message.
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(kind: type[Error], args: tuple[Any, ...]) -> Error:
    return kind.__new__(kind, *args)


_PREDICATE: Final = re.compile(
    r"(must|is|has|cannot|contains|does|ends|occurs|repeats|needs|calls|should)\b|['\"]"
)
"""Matches a problem that forms a sentence with its field, as in `params.url is missing`."""


def format_problem(field: str, problem: str) -> str:
    """Return a sentence: `params.url is missing`, but `answer: give --approve or --deny`."""
    separator = " " if _PREDICATE.match(problem) else ": "
    return f"{field}{separator}{problem}"


class InvalidInput(Error):
    """An argument is invalid. `field` is its name or path, `problem` what is wrong with it.

    `errors` lists all errors as pairs of a field and a problem. The first pair is `field` and
    `problem`.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(format_problem(field, problem))
        self.field = field
        self.problem = problem
        self.errors: tuple[tuple[str, str], ...] = ((field, problem),)


class TooLarge(InvalidInput):
    """A document exceeds its size limit."""


class InvalidFlow(InvalidInput):
    """A flow definition is invalid. `errors` has every error with its path."""

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__(*errors[0])
        self.errors = tuple(errors)
        self.args = ("; ".join(format_problem(path, problem) for path, problem in errors),)


class ConflictError(Error):
    """The request is valid, but not in the current state."""


class KeyBusy(ConflictError):
    def __init__(self, key: Key, active_run_id: RunId) -> None:
        super().__init__(
            f"key {key!r} already has an active run ({active_run_id}); wait until it ends, cancel"
            " it, or submit with another on_conflict policy"
        )
        self.key = key
        self.active_run_id = active_run_id


class KeyLocked(ConflictError):
    def __init__(self, key: Key, active_run_id: RunId) -> None:
        super().__init__(
            f"the saved row of key {key!r} cannot change while run {active_run_id} is active;"
            " wait until the run ends, or cancel it"
        )
        self.key = key
        self.active_run_id = active_run_id


class IdempotencyConflict(ConflictError):
    def __init__(self, idempotency_key: str, run_id: RunId) -> None:
        super().__init__(
            f"idempotency key {idempotency_key!r} was already used by a different request"
            f" (run {run_id}); use a new key for a new request"
        )
        self.idempotency_key = idempotency_key
        self.run_id = run_id


class OutputExists(ConflictError):
    def __init__(self, key: Key, file_count: int, example: str) -> None:
        files = "a file" if file_count == 1 else f"{file_count:,} files, such as"
        super().__init__(
            f"key {key!r} already has output ({files} {example!r}); start it with "
            "on_existing_output='replace', 'archive' or 'delete', or continue it"
        )
        self.key = key
        self.file_count = file_count
        self.example = example


class RevisionConflict(ConflictError):
    def __init__(self, resource: str, revision: int) -> None:
        super().__init__(
            f"{resource} has changed since it was read, and is at revision {revision} now;"
            " read it again and repeat the change"
        )
        self.resource = resource
        self.revision = revision


class RunNotActive(ConflictError):
    def __init__(self, run_id: RunId) -> None:
        super().__init__(f"run {run_id} has ended or is about to end")
        self.run_id = run_id
        self.reason = "no_active_run"


class MessageRefused(ConflictError):
    """The run refuses the message. `reason` is a `Refusal`.

    `can_wait` is True if `deliver="when_listening"` would store the message in the run's inbox.
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
            problem = "it was already answered"
        elif open_call_ids:
            problem = f"open questions: {', '.join(open_call_ids)}"
        else:
            problem = "no question is open"
        super().__init__(f"run {run_id} has no open question {call_id!r}; {problem}")
        self.run_id = run_id
        self.call_id = call_id
        self.open_call_ids = open_call_ids


class ApprovalNotOpen(ConflictError):
    def __init__(self, run_id: RunId, *, is_answered: bool, needs_signal: bool = False) -> None:
        """Make the error.

        `needs_signal` is True if the awaited value has more members than an approval would set.
        """
        problem = "it was already answered" if is_answered else "it does not wait for one"
        if needs_signal:
            problem = f"only a signal can set the value; `headway explain {run_id}` shows which"
        super().__init__(f"task {run_id} accepts no approval now: {problem}")
        self.run_id = run_id
        self.is_answered = is_answered


class ChildRefused(ConflictError):
    def __init__(self, run_id: RunId, problem: str) -> None:
        super().__init__(f"run {run_id} cannot start this child: {problem}")
        self.run_id = run_id


class InboxOverflow(Error):
    def __init__(self, run_id: RunId, unread_count_max: int) -> None:
        super().__init__(
            f"run {run_id} already has {unread_count_max} unread messages, which is the limit;"
            " try again when its job has read some"
        )
        self.run_id = run_id
        self.unread_count_max = unread_count_max


class LaneFull(Error):
    def __init__(self, lane: LaneName, queued_count_max: int) -> None:
        super().__init__(
            f"lane {lane!r} already has {queued_count_max} queued runs, which is its limit;"
            " try again later, or raise its max_queued"
        )
        self.lane = lane
        self.queued_count_max = queued_count_max


class RunFailed(Error):
    """The run ended without a result. `status` is its final status, `error` the reason or None."""

    def __init__(self, run_id: RunId, status: RunStatus, error: Any) -> None:
        reason = f": {error['message']}" if error else ""
        super().__init__(f"run {run_id} is {status.value}{reason}")
        self.run_id = run_id
        self.status = status
        self.error = error


class RunNotFound(Error):
    def __init__(self, run_id: RunId, *, kind: str = "run") -> None:
        super().__init__(f"there is no {kind} {run_id!r}")
        self.run_id = run_id


class FlowNotFound(Error):
    def __init__(self, flow: str, version: int | None = None) -> None:
        subject = "published flow" if version is None else f"version {version} of flow"
        super().__init__(f"there is no {subject} {flow!r}")
        self.flow = flow
        self.version = version


class ConfigurationError(Error):
    """The configuration is invalid. The message names the setting and the remedy."""


class SchemaMismatch(ConfigurationError):
    """The database's schema does not match this version of headway.

    `remedy` is the command that fixes this. It is None if only another version of headway helps.
    """

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        super().__init__(
            f"{problem}; upgrade headway" if remedy is None else f"{problem}; run: {remedy}"
        )
        self.problem = problem
        self.remedy = remedy


class ForeignDatabase(ConfigurationError):
    """The database seems to belong to another program.

    A table with the name of one of headway's tables has other columns.
    """

    def __init__(self, database: str, evidence: str) -> None:
        super().__init__(
            f"the database {database} seems to belong to another program: {evidence}; nothing was"
            " changed; give headway a database of its own (or restore this one, if it is headway's)"
        )
        self.database = database
        self.evidence = evidence


class InfrastructureError(Error):
    """An external system failed, refused, or did not respond."""


class DatabaseUnavailable(InfrastructureError):
    """No address of the database can be used. `reasons` has the reason for each address."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        listed = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        super().__init__(f"no database address can be used: {listed}")
        self.reasons = dict(reasons)


class DatabaseBehind(DatabaseUnavailable):
    """No node can be used, but at least one would be usable if it had all commits.

    That node lacks commits that this process has seen.
    """

    ADVICE: Final = (
        "the database was restored or failed over to a node that lacks commits which this server"
        " has seen, so it is not used; bring back the node that has them, or give them up with:"
        f" {ACCEPT_PRIMARY_COMMAND}"
    )
    """The cause and the remedy, without addresses."""


class DatabaseFileLost(InfrastructureError):
    """The SQLite file at the path is not the one that this process has open."""

    def __init__(self, change: str) -> None:
        super().__init__(
            f"the database file was {change} while headway used it; nothing is read or"
            " stored until the same file is back or headway is restarted"
        )
        self.change = change


class OutcomeUnknown(InfrastructureError):
    """The connection was lost during a commit, and the database was not back in time.

    The change may have been stored. A submission with an idempotency key can be repeated safely.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            "the database connection was lost during a commit, so the change may or may not be"
            f" stored ({reason}); check before you repeat it"
        )


class StoreFailed(InfrastructureError):
    """The database refused the write. No part of it was stored."""


class StoreOverloaded(InfrastructureError):
    def __init__(self, waiting_count: int) -> None:
        super().__init__(f"{waiting_count} writes are already waiting; try again in a moment")
        self.waiting_count = waiting_count


class StoreClosed(InfrastructureError):
    def __init__(self) -> None:
        super().__init__("the store is closed")


class RuntimeUnavailable(InfrastructureError):
    """Redis did not respond, or refused the request.

    The request may have been executed. It can be repeated safely.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"Redis at {address} cannot be used: {reason}")
        self.address = address
        self.reason = reason


class LeaseLost(InfrastructureError):
    """The work was stopped, because another process may have taken over the key."""

    def __init__(self, key: Key, run_id: RunId) -> None:
        super().__init__(f"run {run_id} has lost the lease of key {key!r}")
        self.key = key
        self.run_id = run_id
