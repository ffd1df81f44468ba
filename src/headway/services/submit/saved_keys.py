"""Keys, as people see them: what their next run will be, saved until it is started."""

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
    """What was saved for the next run of `key`, if that is to be one of `job`; the revision too."""
    row = await reader.saved_key(key)
    if row is None or row.job != job:
        return None, None
    return json.loads(row.params), row.revision


class Keys:
    """While a run of a key is active, its row can be neither changed nor deleted (KeyLocked)."""

    def __init__(self, store: Store, reader: RunReader, jobs: Mapping[str, Job]) -> None:
        self._store = store
        self._reader = reader
        self._jobs = jobs

    async def list(self, *, after: str | None = None, limit: int = PAGE_SIZE) -> Sequence[SavedKey]:
        """The saved rows by key; the last one's key is where the next page begins."""
        return [row async for row in self.iterate(after=after, limit=limit)]

    async def iterate(self, *, after: str | None = None, limit: int) -> AsyncIterator[SavedKey]:
        """The same one by one, for whoever has no room for all of them."""
        beyond = None if after is None else Key(after)
        async for row in self._reader.keys(limit=limit, after=beyond):
            yield self._mark_secrets(row)

    async def get(self, key: str) -> SavedKey | None:
        row = await self._reader.saved_key(Key(key.strip()))
        return None if row is None else self._mark_secrets(row)

    def mark_secrets(self, rows: Sequence[SavedKey]) -> Sequence[SavedKey]:
        """The rows, their secrets marked: whoever saved them may not have known the job (S4)."""
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
        """Keep what the key's next run is to be; revision 0 means that there is no row yet.

        A run of `job` that is started for the key without parameters takes these.

        What is kept may be half done: the parameters are checked when the run is started.
        A secret of which is only said that it is set stays as it was.
        """
        key = check_name(key, field="key")
        # A row may be for a job of another program, so only a function must be registered here.
        name = find_job(self._jobs, job).name if callable(job) else job
        job = check_name(name, field="job")
        values = params or {}
        kept: dict[str, Any] | None = None
        if has_redacted(values):
            kept, revision = await read_saved_params(self._reader, Key(key), job=job)
            expected_revision = revision if expected_revision is None else expected_revision
        if job in self._jobs:
            values = self._jobs[job].parameters.seal_secrets(values, stored=kept or {})
        elif has_redacted(values):
            only_shown = [name for name, value in values.items() if value == REDACTED]
            values = mark_secrets(values, only_shown, stored=kept or {})
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
        """Whether there was a row."""
        answer = await self._store.apply(DeleteKey(Key(key), by))
        if isinstance(answer, Locked):
            raise KeyLocked(Key(key), answer.active_run_id)
        return answer
