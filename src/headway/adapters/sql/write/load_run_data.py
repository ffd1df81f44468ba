"""Load the inbox items, interrupts and files of the runs of a batch."""

from collections.abc import Iterable
from typing import Final

import sqlalchemy as sa

from headway.adapters.sql.statements import Query, Row, in_list, integer_param, text_param
from headway.adapters.sql.tables import inbox, interrupts, run_files
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.batch_state import BatchState, InboxItem, Interrupt
from headway.core.command.protocol import RowsNeeded
from headway.core.ids import RunId
from headway.core.stored_file import KeyOutput, StoredFile

_UNREAD: Final = Query(
    sa.select(*inbox.c)
    .where(in_list(inbox.c.run_id, "ids"), inbox.c.consumed_generation.is_(None))
    .order_by(inbox.c.run_id, inbox.c.seq)
)
_UNREAD_OF_KIND: Final = Query(
    sa.select(*inbox.c)
    .where(
        in_list(inbox.c.run_id, "ids"),
        inbox.c.kind == text_param("kind"),
        inbox.c.consumed_generation.is_(None),
    )
    .order_by(inbox.c.run_id, inbox.c.seq)
)
_CONSUMED_AFTER: Final = Query(
    sa.select(*inbox.c)
    .where(
        inbox.c.run_id == text_param("id"),
        inbox.c.seq > integer_param("seq"),
        inbox.c.consumed_generation.is_not(None),
    )
    .order_by(inbox.c.seq)
)
_INTERRUPTS: Final = Query(
    sa.select(*interrupts.c)
    .where(in_list(interrupts.c.run_id, "ids"))
    .order_by(interrupts.c.run_id, interrupts.c.asked_at, interrupts.c.call_id)
)
_FILES: Final = Query(
    sa.select(*run_files.c).where(
        run_files.c.key == text_param("key"),
        run_files.c.data_id == text_param("data_id"),
        in_list(run_files.c.path, "paths"),
    )
)
_OUTPUTS: Final = Query(
    sa.select(run_files.c.key, sa.func.count(), sa.func.min(run_files.c.path))
    .where(in_list(run_files.c.key, "keys"))
    .group_by(run_files.c.key)
)


async def load_inbox(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Load unread and consumed inbox items, and interrupts. The runs are already locked."""
    if needed.inbox_run_ids:
        rows = await link.fetch(_UNREAD, {"ids": list(needed.inbox_run_ids)})
        _add_items(batch, needed.inbox_run_ids, rows)
    for kind, run_ids in needed.inbox_kinds.items():
        ids = [run_id for run_id in run_ids if run_id not in needed.inbox_run_ids]
        rows = await link.fetch(_UNREAD_OF_KIND, {"ids": ids, "kind": kind}) if ids else ()
        _add_items(batch, ids, rows)
    for run_id, after_seq in needed.consumed_after_seqs.items():
        rows = await link.fetch(_CONSUMED_AFTER, {"id": run_id, "seq": after_seq})
        batch.consumed_items[run_id] = [InboxItem(*row) for row in rows]
    if needed.interrupt_run_ids:
        batch.interrupts = {run_id: {} for run_id in needed.interrupt_run_ids}
        for row in await link.fetch(_INTERRUPTS, {"ids": list(needed.interrupt_run_ids)}):
            interrupt = Interrupt(*row)
            batch.interrupts[interrupt.run_id][interrupt.call_id] = interrupt
            batch.loaded_interrupts.add((interrupt.run_id, interrupt.call_id))


def _add_items(batch: BatchState, run_ids: Iterable[RunId], rows: Iterable[Row]) -> None:
    for run_id in run_ids:
        batch.inbox.setdefault(run_id, [])
    for row in rows:
        item = InboxItem(*row)
        batch.inbox[item.run_id].append(item)


async def load_files(link: Link, needed: RowsNeeded, batch: BatchState) -> None:
    """Load stored files. For each output key, load the number of its files and one path.

    Called once the stream is locked. Before that, another batch could still start a run of the
    key, add a file and end the run.
    """
    for (key, data_id), paths in needed.files.items():
        for row in await link.fetch(_FILES, {"key": key, "data_id": data_id, "paths": list(paths)}):
            file = StoredFile(*row)
            batch.files[file.address] = file
    batch.loaded_files = dict(batch.files)
    if needed.output_keys:
        for key, file_count, example in await link.fetch(
            _OUTPUTS, {"keys": list(needed.output_keys)}
        ):
            batch.outputs[key] = KeyOutput(file_count, example)
