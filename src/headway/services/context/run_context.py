"""The context that a job receives: its parameters, reports, files, waits and children."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

from headway.core.answer_schema import find_mismatch
from headway.core.command.protocol import Command
from headway.core.command.run.interrupt import OpenInterrupt
from headway.core.command.run.report import JobEvent, SaveCheckpoint, make_job_event
from headway.core.document import encode_document
from headway.core.duration import check_seconds
from headway.core.errors import InvalidInput, RunNotActive
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import RunMode
from headway.core.run.status import RunStatus
from headway.core.secret import reveal
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.services.context.child_runs import Children
from headway.services.context.execution import Ending, Execution
from headway.services.context.inbox_reader import Inbox
from headway.services.context.interrupts import Interrupts, parse_on_shutdown
from headway.services.context.message_window import MessageWindow
from headway.services.context.output_files import Output
from headway.services.context.reporter import Reporter
from headway.services.context.run_files import FileWriter, RunFiles
from headway.services.context.slot_switch import Slot
from headway.services.retrying import retry_until_available
from headway.services.submit.job import JobFunction
from headway.services.submit.run_handle import result_or_raise

SHORT_WAIT_S: Final = 1.0
"""A shorter sleep keeps the slot, because releasing and requesting it would cost too much."""
SCHEMA_BYTE_COUNT_MAX: Final = 65_536

A = TypeVar("A")


class ChildRun:
    """A child run that a job has started: its status and its result."""

    def __init__(self, run_id: RunId, children: Children, slot: Slot) -> None:
        self.id = run_id
        self._children = children
        self._slot = slot

    def __repr__(self) -> str:
        return f"ChildRun({self.id!r})"

    async def status(self) -> RunStatus:
        """Return the current status of the child."""
        return (await self._children.record(self.id)).run.status

    async def result(self) -> Any:
        """Wait until the child run has ended, and return its result.

        Raise RunFailed if the child has no result. The parent holds no slot while it waits.
        """
        record = await self._children.record(self.id)
        if record.run.is_active:
            async with self._slot.open_wait():
                record = await self._children.wait_for_end(self.id)
        return result_or_raise(record)


class RunContext:
    """The context of one execution of a run, which its job receives as the first argument.

    While the job waits in `sleep` (a second or more), in `interrupt` or for a child, the run keeps
    its key but releases its slot. The job continues when the run has a slot again. For that slot
    the run takes precedence over runs that are only queued.

    The attributes are `run_id`, `key`, `mode` (start or continue), `params`, `checkpoint` (the last
    one of this run, or of the run that it continues), `generation` (how often the run was claimed)
    and `attempt` (1, and one more for each retry). Send `generation` to external systems that must
    reject requests of an older execution.
    """

    def __init__(
        self,
        execution: Execution,
        store: Store,
        clock: Clock,
        *,
        children: Callable[[], Children],
        output: Output,
    ) -> None:
        claimed = execution.claimed
        self._execution = execution
        self._claim = execution.claim
        self._store = store
        self._make_children = children
        self._output = output
        self._clock = clock
        self._interrupt_count = 0
        self._has_ended = False
        self.run_id: RunId = claimed.run_id
        self.key: Key = claimed.key
        self.mode: RunMode = claimed.mode
        self.generation: int = claimed.generation
        self.attempt: int = claimed.attempt
        """The number of the attempt: 1 at first, and one more for each retry."""
        self.files: RunFiles | None = None
        """The files of this execution, for the engine. None if the execution uses no files."""
        if claimed.generation > 1 or claimed.on_existing_output is not None:
            self.open_files()  # An earlier execution or run may have left files.
        self.checkpoint: Any = (
            None if claimed.checkpoint is None else json.loads(claimed.checkpoint)
        )
        """The last checkpoint of this run, or of the run that it continues."""

    # The following objects are created on first use, because most runs are short and use few.

    @cached_property
    def _slot(self) -> Slot:
        return Slot(self._execution, self._store, before_wait=self._flush)

    @cached_property
    def _children(self) -> Children:
        return self._make_children()

    @cached_property
    def _reporter(self) -> Reporter:
        return Reporter(self._store, self._claim)

    @cached_property
    def _window(self) -> MessageWindow:
        return MessageWindow(self._execution, self._store, self._clock)

    @cached_property
    def _inbox(self) -> Inbox:
        return Inbox(self._execution, self._store, before_read=self._flush)

    @cached_property
    def _interrupts(self) -> Interrupts:
        return Interrupts(
            self._execution,
            self._store,
            self._clock,
            inbox=self._inbox,
            slot=self._slot,
            flush=self._flush,
        )

    @cached_property
    def params(self) -> dict[str, Any]:
        """The parameters of the run, including defaults."""
        params: dict[str, Any] = reveal(self._execution.claimed.params)
        return params

    @property
    def canceled(self) -> bool:
        """True if the job should end. The task of an `async def` job is canceled as well."""
        return self._execution.note_ending() is not None

    @property
    def ending(self) -> str | None:
        """The reason why the job should end, or None while it may continue.

        `cancelled`: the run was canceled and ends as `canceled`. `shutdown`: the process stops, and
        the run is executed again elsewhere. `lost`: the claim of this execution is stale, and
        another process may already execute the run.
        """
        ending = self._execution.note_ending()
        return None if ending is None else ending.value

    async def progress(self, /, **fields: Any) -> None:
        """Replace the run's progress. It is stored at most ten times per second."""
        await self._reporter.set_progress(encode_document(fields, field="progress"))

    async def save_checkpoint(self, checkpoint: Any) -> None:
        """Store a checkpoint, from which later executions continue.

        Later executions are those of this run, for example after a crash, and those of later runs
        of the key in the mode `continue`.
        """
        document = encode_document(checkpoint, field="checkpoint")
        await self._apply(SaveCheckpoint(self._claim, document))
        self._execution.has_progressed = True
        self.checkpoint = checkpoint

    def file(self, path: str) -> AbstractAsyncContextManager[FileWriter]:
        """Write a file in the folder of the run's key: `async with ctx.file("photos/1.jpg") as f`.

        The file gets its name atomically when the block ends without an error. Until then its data
        is in a `.part` file, which an error or a cancel removes.
        """
        return self.open_files().open_file(path)

    async def has_file(self, path: str) -> bool:
        """Return whether any run of the key has finished a file with this path."""
        return await self.open_files().has_file(path)

    async def log(self, /, message: str, *, level: str = "info", **fields: Any) -> None:
        """Store a log line with the run.

        Adjacent lines within a tenth of a second are stored as one event. Buffered lines are
        written before a checkpoint, an interrupt, a wait and the end of the run.
        """
        line = {"level": level, "message": message, **fields}
        await self._reporter.append(JobEvent(EventType.LOG, encode_document(line, field="log")))

    async def emit(self, kind: str, payload: Any = None) -> None:
        """Store an event of a kind that the job defines. Events are buffered like log lines."""
        await self._reporter.append(make_job_event(kind, encode_document(payload, field="payload")))

    async def messages(self) -> list[Any]:
        """Return the messages sent to the run since the last call, in order.

        From the first call on, the run accepts messages for the rest of this execution, unless the
        job opens and closes the window itself with `listening()`.
        """
        messages = await self._inbox.take_messages()
        self._window.note_opened_by_reading()
        return messages

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`. A sleep of a second or more releases the slot for other runs."""
        check_seconds(seconds, field="seconds")
        if seconds < SHORT_WAIT_S:
            await self._clock.sleep(seconds)
            return
        wake_at_s = self._clock.monotonic_s() + seconds
        async with self._slot.open_wait():  # Releasing the slot takes part of `seconds`.
            await self._clock.sleep(max(0.0, wake_at_s - self._clock.monotonic_s()))

    async def interrupt(
        self,
        question: Any,
        *,
        timeout_s: float | None = None,
        default: Any = None,
        schema: dict[str, Any] | None = None,
        call_id: str | None = None,
        on_shutdown: Literal["hand_over", "deny"] = "hand_over",
    ) -> Any:
        """Ask a person, and return the answer, or `default` if there is none in time.

        With a JSON `schema` an answer that does not match is refused, and a page can show a form.
        Several interrupts may be open at once, each with its own `call_id`. Without a `call_id`
        headway chooses one. The default of `timeout_s` is the setting `permission_timeout_s`.

        If the run is canceled, the answer is `{"approved": false, "reason": "cancelled"}`. If the
        schema does not allow this answer, the job is canceled instead. When the process stops, the
        interrupt stays open, and the next execution that asks the same question waits for the same
        answer. With `on_shutdown="deny"` the answer is `{"approved": false, "reason": "shutdown"}`
        instead.
        """
        is_denied = parse_on_shutdown(on_shutdown, schema)
        asks = self._build_interrupt(
            question, timeout_s=timeout_s, default=default, schema=schema, call_id=call_id
        )
        return await self._interrupts.ask(
            asks, default=default, has_call_id=call_id is not None, denies_on_shutdown=is_denied
        )

    def _build_interrupt(
        self,
        question: Any,
        *,
        timeout_s: float | None,
        default: Any,
        schema: dict[str, Any] | None,
        call_id: str | None,
    ) -> OpenInterrupt:
        self._interrupt_count += 1
        asks = OpenInterrupt(
            self._claim,
            f"{self.generation}.{self._interrupt_count}" if call_id is None else call_id,
            encode_document(question, field="interrupt"),
            None
            if schema is None
            else encode_document(schema, field="schema", byte_count_max=SCHEMA_BYTE_COUNT_MAX),
            self._execution.timeouts.permission_timeout_s if timeout_s is None else timeout_s,
            None if default is None else encode_document(default, field="default"),
        )
        mismatch = None if schema is None or default is None else find_mismatch(schema, default)
        if mismatch is not None:
            path, problem = mismatch
            raise InvalidInput(path.replace("answer", "default", 1), problem)
        return asks

    def listening(self) -> AbstractAsyncContextManager[None]:
        """Accept messages inside the `async with` block.

        Read the messages with `messages()` at each step of the job, and once more after the block,
        because the last messages may have been accepted just before its end. After the block the
        run accepts neither a message nor a cancel, because only its result has to be stored.
        """
        return self._window.listening()

    def compacting(self, *, timeout_s: float | None = None) -> AbstractAsyncContextManager[None]:
        """Refuse messages inside the `async with` block. Senders get the refusal `compacting`.

        Raise TimeoutError if the block takes longer than `timeout_s`. The default of `timeout_s` is
        the setting `compaction_timeout_s`.
        """
        default_s = self._execution.timeouts.compaction_timeout_s
        return self._window.compacting(timeout_s=default_s if timeout_s is None else timeout_s)

    async def start(
        self,
        job: str | JobFunction,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        name: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> "ChildRun":
        """Start a run of `job` as a child of this run, once even if this run is executed again.

        `job` is the name of a job, or its function. A later execution of this run gets the same
        child for the same `name`. Without a `name` it gets the same child for the same job, key and
        parameters; the n-th such call gets the n-th such child. A retry starts failed children
        again. Children that are active when this run ends are canceled.

        Raise KeyBusy or LaneFull as for any run. Raise ChildRefused if the child could never start,
        or if this run has too many children.
        """
        run_id = await self._children.start(
            job, key=key, params=params, name=name, on_conflict=on_conflict
        )
        return ChildRun(run_id, self._children, self._slot)

    async def call(
        self,
        job: str | JobFunction,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        name: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> Any:
        """Start a child run as `start` does, wait for its end, and return its result.

        Raise RunFailed if the child has no result. This run holds no slot while it waits.
        """
        child = await self.start(job, key=key, params=params, name=name, on_conflict=on_conflict)
        return await child.result()

    @property
    def execution(self) -> Execution:
        """The state of the execution, for the engine."""
        return self._execution

    def open_files(self) -> RunFiles:
        """Return the files of this execution, for RunContext and BlockingRunContext.

        Raise RunNotActive if the execution has ended without files.
        """
        if self.files is None:
            if self._has_ended:
                raise RunNotActive(self.run_id)
            self.files = RunFiles(self._execution, self._output)
        return self.files

    async def end_files(self, *, is_released: bool) -> None:
        """Rename or remove unfinished files, and refuse new files. The engine calls this."""
        self._has_ended = True
        if self.files is not None:
            await self.files.end_parts(is_released=is_released)

    async def finish(self) -> None:
        """Write the buffered reports, or drop them if the claim is lost. The engine calls this."""
        if "_reporter" not in self.__dict__:
            return
        if self._execution.ending is Ending.LOST:
            self._reporter.discard()
        else:
            await self._reporter.finish()

    async def _flush(self) -> None:
        if "_reporter" in self.__dict__:
            await self._reporter.flush()

    async def _apply(self, command: Command[A]) -> A:
        await self._flush()
        # An outage must not fail the job. If the lease expires meanwhile, the engine ends the task.
        return await retry_until_available(lambda: self._store.apply(command))
