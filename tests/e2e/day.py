"""A busy day on a board, for the pictures: a past, a present, and active workers."""

from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.e2e.flows import ASK, ORDERS, REPORT
from tests.e2e.past import When, move
from tests.e2e.site import Site

KEYS: Final = ("ada", "brian", "clara", "dmitri", "edsger", "frances", "grace", "hedy")
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

# Key, downloaded count, end and when that was: the oldest first.
PAST: Final[tuple[tuple[str, int, Any, When], ...]] = (
    ("grace", 1_204, "end", When(2 * DAY + 3 * HOUR, 0.1, 22 * MINUTE)),
    ("ada", 118, "end", When(DAY + 5 * HOUR, 41, 9 * MINUTE)),
    ("dmitri", 96, "end", When(DAY + 4 * HOUR, 0.1, 3 * MINUTE + 12)),
    ("frances", 40, "cancel", When(21 * HOUR, 3.2, 74)),
    ("brian", 512, "end", When(9 * HOUR, 0.1, 14 * MINUTE)),
    ("ada", 23, {"fail": "the feed answers 503 Service Unavailable"}, When(6 * HOUR, 0.1, 8.4)),
    ("frances", 377, "end", When(5 * HOUR, 12, 6 * MINUTE + 40)),
    ("grace", 61, "end", When(3 * HOUR, 0.1, 58)),
    ("clara", 311, "end", When(100 * MINUTE, 74, 11 * MINUTE)),
    ("dmitri", 17, {"fail": "the feed answers 403 Forbidden"}, When(26 * MINUTE, 0.1, 19)),
)
TASKS: Final[tuple[tuple[str, dict[str, Any], When], ...]] = (
    ("order-0998", {"count": 3, "customer": "Ada"}, When(DAY, 0.1, 31 * MINUTE)),
    ("order-1001", {"count": 2, "customer": "Grace"}, When(4 * HOUR, 0.1, 12 * MINUTE)),
    ("order-1002", {"count": 5_000, "customer": "Jean"}, When(2 * HOUR, 0.1, 47)),
)


SCHEMA: Final = {
    "type": "object",
    "properties": {
        "tone": {"enum": ["kind", "short"], "default": "kind"},
        "sign_as": {"type": "string", "default": "The team"},
    },
}


class Day(NamedTuple):
    run: str
    """A run that is running."""
    done: str
    """A run that has ended."""
    task: str
    gate: Path
    """A worker is busy as long as there is no such file."""


def a_busy_day(site: Site, folder: Path) -> Day:
    """Create rows and tasks in every state, among them a running run and a running task."""
    site.call("PATCH", "/api/lanes/agents", {"max_concurrent": 2})
    for key in KEYS:
        site.save(key, url=f"https://example.org/{key}/feed")
    site.publish("sign up", ASK)
    site.publish("order to parcel", ASK)
    site.publish("order to parcel", ORDERS)
    site.publish("monthly report", REPORT)
    site.work()
    site.work()
    site.work(None)
    gate = folder / "gate"
    ended = [(one[-1], partial(_run_ended, site, *one)) for one in PAST]
    ended += [(one[-1], partial(_task_ended, site, *one)) for one in TASKS]
    done = {when: end() for when, end in sorted(ended, key=lambda one: -one[0].ago_s)}
    reported = site.started("monthly report", key="october", params={"month": "October"})
    site.ended(reported)
    move(site.database, reported, When(25 * MINUTE, 0.1, 4.2))
    task = _under_way_for_long(site)
    run = _under_way(site, gate)
    return Day(run, done[PAST[-2][-1]], task, gate)


def _run_ended(site: Site, key: str, downloaded: int, end: Any, when: When) -> str:
    run_id = site.begun(key, params=_params(key), on_existing_output="replace")
    page_count = 1 + downloaded // 30
    site.send(run_id, *(f"page {page} of {page_count}" for page in range(1, page_count + 1)[-12:]))
    site.send(run_id, {"file": f"photos/{downloaded}.jpg"})
    site.send(run_id, {"downloaded": downloaded, "skipped": downloaded // 8, "filtered": 3})
    if end == "cancel":
        site.until(run_id, lambda run: run["progress"] is not None)
        site.call("POST", f"/api/runs/{run_id}/cancel", {"files": "keep"})
    else:
        site.send(run_id, f"photos/{downloaded}.jpg", end)
    site.ended(run_id)
    move(site.database, run_id, when)
    return run_id


def _params(key: str) -> dict[str, Any]:
    return {"url": f"https://example.org/{key}/feed", "page_max": 12}


def _task_ended(site: Site, key: str, params: dict[str, Any], when: When) -> str:
    task_id = site.started("order to parcel", key=key, params=params)
    if params["count"] > 100:
        site.waiting(task_id, "approval")
        site.call("POST", f"/api/tasks/{task_id}/approve", {"answer": True})
    else:
        site.waiting(task_id, "event")
        site.call("POST", f"/api/tasks/{task_id}/signal", {"key": "paid", "value": True})
    site.ended(task_id)
    move(site.database, task_id, when)
    return task_id


def _under_way_for_long(site: Site) -> str:
    """Create runs that wait for people or for a signal; return the task that waits for a signal."""
    asks = site.begun("tidy-2026", job="agent", params={"goal": "Tidy up the archive"})
    tidy = {"tool": "delete_files", "folder": "/srv/archive/2019", "count": 9}
    site.send(asks, {"ask": tidy, "timeout_s": DAY})
    paid = site.started("order to parcel", key="order-1004", params={"count": 12, "each": 4})
    site.waiting(paid, "event")
    asked = {"count": 300, "customer": "Bea"}
    to_approve = site.started("order to parcel", key="order-1003", params=asked)
    site.waiting(to_approve, "approval")
    reply = site.begun("mail-118", job="agent", params={"goal": "Answer the mail"})
    how = {"title": "How shall it answer?", "from": "jo@example.org", "schema": SCHEMA}
    site.send(reply, {"ask": how, "timeout_s": 2 * HOUR})
    for run_id, minutes in ((asks, 48), (paid, 38), (to_approve, 17), (reply, 11)):
        site.until(run_id, lambda run: run["is_waiting"])
        move(site.database, run_id, When(minutes * MINUTE))
    return paid


def _under_way(site: Site, gate: Path) -> str:
    first = site.begun("ada", params=_params("ada"), on_existing_output="replace")
    site.send(first, *(f"page {number} of 12" for number in (1, 2, 3)))
    site.send(first, "photos/126.jpg", "photos/127.jpg", "page 4 of 12")
    site.send(first, {"log": "photos/97.jpg is gone", "level": "warning"}, "photos/128.jpg")
    site.send(first, {"file": "photos/126.jpg"}, {"file": "photos/127.jpg"})
    figures = {"downloaded": 128, "skipped": 12, "filtered": 3, "bytes_per_s": 1_240_000}
    site.send(first, figures)
    second = site.begun("edsger", params=_params("edsger"))
    site.send(second, {"downloaded": 42, "skipped": 5, "filtered": 0, "bytes_per_s": 86_000})
    held = {"count": 40, "customer": "Edsger", "gate": str(gate)}
    shipped = site.started("order to parcel", key="order-1005", params=held)
    site.waiting(shipped, "event")
    site.call("POST", f"/api/tasks/{shipped}/signal", {"key": "paid", "value": True})
    third = site.begun("brian", params=_params("brian"), on_existing_output="replace")
    site.send(third, {"downloaded": 7, "skipped": 0, "filtered": 1, "bytes_per_s": 310_000})
    begun = ((first, When(372, 9)), (second, When(95)), (shipped, When(52)), (third, When(41)))
    for run_id, when in begun:
        site.until(run_id, lambda run: run["progress"] is not None)
        move(site.database, run_id, when)
    for key, ago_s in (("frances", 34), ("grace", 12)):
        run_id = site.submit(key, params=_params(key), on_existing_output="replace")
        move(site.database, run_id, When(ago_s))
    return first
