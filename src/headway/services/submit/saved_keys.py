"""Saved keys: the stored job and parameters for the next run of a key."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from headway.core.batch_state import SavedKey
from headway.core.command.admin.save_key import DeleteKey, Locked, SaveKey
from headway.core.command.protocol import RevisionMismatch
from headway.core.document import check_name, encode_document
from headway.core.errors import KeyLocked, RevisionConflict
from headway.core.ids import Key
from headway.core.secret import REDACTED, has_redacted, mark_secrets
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.submit.job import Job, JobFunction, find_job

PAGE_SIZE: Final = 1_000


async def read_saved_params(
    reader: RunReader, key: Key, *, job: str
) -> tuple[dict[str, Any] | None, int | None]:
    """Return the parameters saved for the next run of `key`, and the saved row's revision.

    Return (None, None) if nothing is saved for the key, or if the saved row is for another job.
    """
    row = await reader.saved_key(key)
    if row is None or row.job != job:
        return None, None
    return json.loads(row.params), row.revision


class Keys:
    """Lists, reads, saves and deletes the saved keys of a database (`Headway.keys`).

    Changing or deleting the row of a key raises KeyLocked while a run of the key is active.
    """

    def __init__(self, store: Store, reader: RunReader, jobs: Mapping[str, Job]) -> None:
        self._store = store
        self._reader = reader
        self._jobs = jobs

    async def list(self, *, after: str | None = None, limit: int = PAGE_SIZE) -> Sequence[SavedKey]:
        """Return at most `limit` saved keys after the key `after`, in the order of the keys."""
        return [row async for row in self.iterate(after=after, limit=limit)]

    async def iterate(self, *, after: str | None = None, limit: int) -> AsyncIterator[SavedKey]:
        """Yield the results of `list` one by one, for callers that must limit their memory."""
        after_key = None if after is None else Key(after)
        async for row in self._reader.keys(limit=limit, after=after_key):
            yield self._mark_secrets(row)

    async def get(self, key: str) -> SavedKey | None:
        row = await self._reader.saved_key(Key(key.strip()))
        return None if row is None else self._mark_secrets(row)

    def mark_secrets(self, rows: Sequence[SavedKey]) -> Sequence[SavedKey]:
        """Return the rows with the secrets in their parameters marked.

        A program in which the job is not registered may have saved them unmarked (S4).
        """
        return [self._mark_secrets(row) for row in rows]

    def _mark_secrets(self, row: SavedKey) -> SavedKey:
        if row.job not in self._jobs:
            return row
        return row._replace(params=self._jobs[row.job].parameters.mark_secrets(row.params))

    async def save(
        self,
        key: str,
        *,
        job: str | JobFunction,
        params: Mapping[str, Any] | None = None,
        expected_revision: int | None = None,
        by: str = "",
    ) -> SavedKey:
        """Save the job and parameters of the key's next run.

        A run of `job` that is submitted for the key without parameters uses the saved parameters.
        These may be incomplete, because they are validated only when the run is submitted. A
        redacted secret keeps its stored value.

        Raise RevisionConflict if the row no longer has `expected_revision`, where 0 means that
        there is no row. Raise KeyLocked while a run of the key is active.
        """
        key = check_name(key, field="key")
        # The job may be registered in another program, unless it is passed as a function.
        name = find_job(self._jobs, job).name if callable(job) else job
        job = check_name(name, field="job")
        values = params or {}
        stored: dict[str, Any] | None = None
        if has_redacted(values):
            stored, revision = await read_saved_params(self._reader, Key(key), job=job)
            expected_revision = revision if expected_revision is None else expected_revision
        if job in self._jobs:
            values = self._jobs[job].parameters.seal_secrets(values, stored=stored or {})
        elif has_redacted(values):
            redacted = [name for name, value in values.items() if value == REDACTED]
            values = mark_secrets(values, redacted, stored=stored or {})
        answer = await self._store.apply(
            SaveKey(
                key=Key(key),
                job=job,
                params=encode_document(values, field="params"),
                expected_revision=expected_revision,
                by=by,
            )
        )
        if isinstance(answer, Locked):
            raise KeyLocked(Key(key), answer.active_run_id)
        if isinstance(answer, RevisionMismatch):
            raise RevisionConflict(f"key {key!r}", answer.revision)
        return answer

    async def delete(self, key: str, *, by: str = "") -> bool:
        """Delete the saved row of a key, and return whether there was a row."""
        answer = await self._store.apply(DeleteKey(Key(key), by))
        if isinstance(answer, Locked):
            raise KeyLocked(Key(key), answer.active_run_id)
        return answer
