"""Log lines under a plain handler: their format, and that values cannot forge lines (S4)."""

import io
import logging
from collections.abc import Iterator

import pytest

from headway.log import EventLog, event_log


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("headway.tests")
    logger.addHandler(handler)
    yield shown
    logger.removeHandler(handler)


@pytest.fixture
def log() -> EventLog:
    return event_log("headway.tests")


@pytest.mark.proves("S4")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("r1", "r1"),
        (7, "7"),
        (0.1234567891, "0.123457"),
        (None, "None"),
        ("two words", "'two words'"),
        ("", "''"),
        ("a=b", "'a=b'"),
        ("100 %s of it", "'100 %s of it'"),
        ("ключ", "ключ"),
        ("one\nrun_claimed run_id=r2", r"'one\nrun_claimed run_id=r2'"),
        ("\x1b[2J\x7f\x85\u202e", r"'\x1b[2J\x7f\x85\u202e'"),
        ("\ud800", r"'\ud800'"),
        ("back\\slash", r"'back\\slash'"),
    ],
)
def test_a_field_is_shown_beside_its_event_on_one_line(
    log: EventLog, lines: io.StringIO, value: object, shown: str
) -> None:
    log.warning("run_claimed", extra={"what": value})
    assert lines.getvalue() == f"run_claimed what={shown}\n"


def test_a_record_has_its_event_and_fields_as_attributes(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.warning("run_claimed", extra={"run_id": "r1"})
    log.warning("nothing_else")
    first, second = [vars(record) for record in caplog.records]
    assert (first["event"], first["run_id"], first["funcName"]) == (
        "run_claimed",
        "r1",
        "test_a_record_has_its_event_and_fields_as_attributes",
    )
    assert (second["event"], caplog.messages[1]) == ("nothing_else", "nothing_else")
