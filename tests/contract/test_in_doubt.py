"""A commit whose answer is lost is looked up, and accepted only if it was stored (I3)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.write import writer
from headway.adapters.sql.write.links.driver_link import Commit, Link
from headway.core.command.run.submit import Accepted
from headway.core.errors import OutcomeUnknown
from headway.ports.run_reader import RunFilter
from headway.testing import a_submit


class FlakyLink:
    """Wraps the links of a writer; the connection breaks at the next COMMIT of a batch."""

    def __init__(self, store: SqlStore) -> None:
        self._writer = store.writer
        self._connect = self._writer._link_source.connect
        self.is_away = False
        self._is_next_stored: bool | None = None

    @contextmanager
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator["FlakyLink"]:
        with monkeypatch.context() as patched:
            patched.setattr(self._writer._link_source, "connect", self._open_tapped)
            self._tap(self._writer._link)
            yield self

    def break_commit(self, *, is_stored: bool) -> None:
        self._is_next_stored = is_stored

    async def _open_tapped(self) -> Link:
        if self.is_away:
            raise ConnectionError("away")
        link = await self._connect()
        self._tap(link)
        return link

    def _tap(self, link: Link) -> None:
        commit = link.commit

        async def broken_commit(batch: Commit | None = None, /) -> None:
            if self._writer._in_doubt is None or self._is_next_stored is None:
                await commit(batch)
                return
            is_stored, self._is_next_stored = self._is_next_stored, None
            await (commit(batch) if is_stored else link.rollback())
            raise ConnectionError("the connection was cut")

        link.commit = broken_commit  # type: ignore[method-assign]


@pytest.fixture
def flaky_link(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlakyLink]:
    with FlakyLink(store).installed(monkeypatch) as link:
        yield link


@pytest.mark.proves("I3")
@pytest.mark.parametrize("is_stored", [True, False])
async def test_batch_whose_answer_was_lost_is_repeated_only_if_it_was_not_stored(
    store: SqlStore, flaky_link: FlakyLink, is_stored: bool
) -> None:
    flaky_link.break_commit(is_stored=is_stored)
    answer = await store.apply(a_submit())
    assert isinstance(answer, Accepted)
    assert await store.runs.run(answer.run_id) is not None
    assert len([record async for record in store.runs.list_runs(RunFilter(), limit=10)]) == 1


@pytest.mark.proves("I3")
async def test_lost_batch_is_not_mistaken_for_the_batch_stored_before_it(
    store: SqlStore, flaky_link: FlakyLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch before the lost one was stored, although its caller got "outcome unknown"."""
    monkeypatch.setattr(writer, "OUTAGE_S_MAX", 0.2)
    await store.apply(a_submit("zero"))
    flaky_link.break_commit(is_stored=True)
    flaky_link.is_away = True
    with pytest.raises(OutcomeUnknown):
        await store.apply(a_submit("one"))
    flaky_link.is_away = False
    flaky_link.break_commit(is_stored=False)
    answer = await store.apply(a_submit("two"))
    assert isinstance(answer, Accepted)
    assert await store.runs.run(answer.run_id) is not None
