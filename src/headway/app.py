"""The library face: register jobs, start runs, wait for what they give."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from headway.bootstrap import Durability, SqlStore, SystemClock, SystemIds, open_store
from headway.core.command.cancel import CancelAnswer, RequestCancel
from headway.core.command.submit import Submit
from headway.core.document import check_name, encode_document
from headway.core.errors import Error, InvalidInput, RunNotFound
from headway.core.ids import MAIN_LANE, Key, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.events import Event
from headway.core.run.explain import Explanation
from headway.core.run.run import Files, Mode, RunRecord
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.services.admit import admit
from headway.services.engine import Engine
from headway.services.explain import explain_run
from headway.services.job import Job, JobFunction

POLL_S: Final = 1.0


class RunFailed(Error):
    """The run ended without a result; `status` says how and `error` why."""

    def __init__(self, run_id: RunId, status: RunStatus, error: Any) -> None:
        why = f": {error['message']}" if error else ""
        super().__init__(f"run {run_id} is {status.value}{why}")
        self.run_id = run_id
        self.status = status
        self.error = error


class RunHandle:
    """A run that was accepted. It goes on whether or not anybody holds its handle."""

    def __init__(self, run_id: RunId, store: SqlStore) -> None:
        self.id = run_id
        self._store = store

    async def record(self) -> RunRecord:
        record = await self._store.runs.run(self.id)
        if record is None:
            raise RunNotFound(self.id)
        return record

    async def status(self) -> RunStatus:
        return (await self.record()).run.status

    async def cancel(self, *, files: Files = Files.KEEP, reason: str = "") -> CancelAnswer:
        """Ask for its end; the answer tells whether it is over already or has yet to unwind."""
        return await self._store.apply(RequestCancel(run_id=self.id, files=files, reason=reason))

    async def result(self) -> Any:
        """What the job returned, once it has; RunFailed when the run ends in any other way."""
        record = await self.ended()
        if record.run.status is RunStatus.SUCCEEDED:
            assert record.result is not None
            return json.loads(record.result)
        error = None if record.error is None else json.loads(record.error)
        raise RunFailed(self.id, record.run.status, error)

    async def ended(self) -> RunRecord:
        """The run, once it is over, however it ended."""
        changed = asyncio.Event()

        def note(events: Sequence[Event]) -> None:
            if any(event.run_id == self.id for event in events):
                changed.set()

        stop_listening = self._store.listen(note)
        try:
            while True:  # Until the run ends; whoever does not want to wait sets a timeout.
                changed.clear()  # Before the look, or what happens during it would be missed.
                record = await self.record()
                if record.run.status in TERMINAL:
                    return record
                try:
                    async with asyncio.timeout(POLL_S):  # Another process may be executing it.
                        await changed.wait()
                except TimeoutError:
                    continue
        finally:
            stop_listening()


class Headway:
    """Runs jobs, one at a time per key. An async context manager: inside it, work goes on.

    When it is left, no more runs start, and those at hand have `stop_wait_s` to end (none when it
    is left by an error). What is not done by then is ready for whoever opens the database next.
    """

    def __init__(
        self, *urls: str, durability: Durability = "process", stop_wait_s: float = 10.0
    ) -> None:
        self._urls = urls or ("sqlite:///headway.db",)
        self._durability: Durability = durability
        self._stop_wait_s = stop_wait_s
        self._ids = SystemIds()
        self._jobs: dict[str, Job] = {}
        self._store: SqlStore | None = None

    def job(
        self, *, lane: str = MAIN_LANE, timeout_s: float | None = None
    ) -> Callable[[JobFunction], JobFunction]:
        """Register an async function, under its own name, as a job."""

        def register(function: JobFunction) -> JobFunction:
            name = check_name(function.__name__, place="job")
            if name in self._jobs:
                raise InvalidInput("job", f"{name!r} is registered twice")
            self._jobs[name] = Job(
                name, function, LaneName(check_name(lane, place="lane")), timeout_s
            )
            return function

        return register

    @property
    def store(self) -> SqlStore:
        if self._store is None:
            raise RuntimeError("use `async with` on Headway before you start runs")
        return self._store

    async def start(
        self,
        job: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        on_conflict: OnConflict = OnConflict.REJECT,
        mode: Mode = Mode.START,
    ) -> RunHandle:
        """Accept a run, durably. KeyBusy: its key has an active one, and the policy is `reject`."""
        if job not in self._jobs:
            known = ", ".join(sorted(self._jobs)) or "none"
            raise InvalidInput("job", f"{job!r} is not registered; registered are: {known}")
        if params is not None and not isinstance(params, dict):
            raise InvalidInput("params", "must be a dict: names and values")
        run_id = self._ids.run_id()
        submission = Submit(
            run_id=run_id,
            # A run without a key is its own key.
            key=Key(run_id if key is None else check_name(key, place="key")),
            job=job,
            lane=self._jobs[job].lane,
            params=encode_document(params or {}, place="params"),
            timeout_s=self._jobs[job].timeout_s,
            on_conflict=OnConflict(on_conflict),
            mode=Mode(mode),
        )
        return RunHandle(await admit(self.store, submission), self.store)

    async def continue_(
        self, job: str, *, key: str, params: dict[str, Any] | None = None
    ) -> RunHandle:
        """Start a run that goes on from the last checkpoint of its key."""
        return await self.start(job, key=key, params=params, mode=Mode.CONTINUE)

    async def explain(self, run_id: str) -> Explanation:
        """Why the run is where it is, and what would free it. RunNotFound: there is none."""
        return await explain_run(self.store.runs, SystemClock(), RunId(run_id))

    async def __aenter__(self) -> Self:
        if self._store is not None:
            raise RuntimeError("this Headway is open already; make another one")
        async with AsyncExitStack() as opened:
            self._store = await open_store(self._urls, durability=self._durability)
            opened.push_async_callback(self._close)
            engine = Engine(
                self._store,
                self._store.runs,
                self._ids,
                SystemClock(),
                self._jobs,
                stop_wait_s=self._stop_wait_s,
            )
            await opened.enter_async_context(engine)
            self._opened = opened.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)

    async def _close(self) -> None:
        store, self._store = self.store, None
        await store.close()
