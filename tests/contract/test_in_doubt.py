"""A commit whose answer is lost is looked up: what landed is accepted, and nothing else (I3)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.write import writer
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.command.run.submit import Accepted
from headway.core.errors import OutcomeUnknown
from headway.ports.run_reader import RunFilter
from headway.testing import a_submit


class Line:
    """Between a writer and its database; it is cut at the next COMMIT of a batch."""

    def __init__(self, store: SqlStore) -> None:
        self._writer = store.writer
        self._connect = self._writer._link_source.connect
        self.is_away = False
        self._lands: bool | None = None

    @contextmanager
    def held(self, monkeypatch: pytest.MonkeyPatch) -> Iterator["Line"]:
        with monkeypatch.context() as patched:
            patched.setattr(self._writer._link_source, "connect", self._connected)
            self._tap(self._writer._link)
            yield self

    def cut(self, *, lands: bool) -> None:
        self._lands = lands

    async def _connected(self) -> Link:
        if self.is_away:
            raise ConnectionError("away")
        link = await self._connect()
        self._tap(link)
        return link

    def _tap(self, link: Link) -> None:
        commit = link.commit

        async def cut_commit(notice: str | None = None, /) -> None:
            if self._writer._in_doubt is None or self._lands is None:
                await commit(notice)
                return
            lands, self._lands = self._lands, None
            await (commit(notice) if lands else link.rollback())
            raise ConnectionError("the line was cut")

        link.commit = cut_commit  # type: ignore[method-assign]


@pytest.fixture
def line(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    with Line(store).held(monkeypatch) as held:
        yield held


@pytest.mark.proves("I3")
@pytest.mark.parametrize("lands", [True, False])
async def test_an_answer_that_is_lost_is_found_again_or_made_anew(
    store: SqlStore, line: Line, lands: bool
) -> None:
    line.cut(lands=lands)
    answer = await store.apply(a_submit())
    assert isinstance(answer, Accepted)
    assert await store.runs.run(answer.run_id) is not None
    assert len([one async for one in store.runs.list_runs(RunFilter(), limit=10)]) == 1


@pytest.mark.proves("I3")
async def test_a_batch_that_did_not_land_is_not_taken_for_the_one_before_it(
    store: SqlStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which had landed, although its caller could only be told that nobody knows."""
    monkeypatch.setattr(writer, "OUTAGE_S_MAX", 0.2)
    await store.apply(a_submit("zero"))
    line.cut(lands=True)
    line.is_away = True
    with pytest.raises(OutcomeUnknown):
        await store.apply(a_submit("one"))
    line.is_away = False
    line.cut(lands=False)
    answer = await store.apply(a_submit("two"))
    assert isinstance(answer, Accepted)
    assert await store.runs.run(answer.run_id) is not None
