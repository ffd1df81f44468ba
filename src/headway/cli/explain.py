"""`headway explain`"""

import json as jsonlib
from datetime import UTC, datetime, timedelta

from headway.bootstrap import display, opened_readers
from headway.core.errors import RunNotFound
from headway.core.ids import Instant, RunId
from headway.core.run.explain import Explanation
from headway.services.explain import explain_run
from headway.settings import load_settings


async def explain(run_id: str, /, *, json: bool = False) -> None:
    """Say why a run does not move: which gate, who holds it, and what would free it.

    Parameters
    ----------
    run_id
        The run, by the id that was given when it was accepted.
    json
        Print one JSON object instead of sentences.
    """
    urls = load_settings().urls
    async with opened_readers(urls) as readers:
        try:
            found = await explain_run(readers.runs, RunId(run_id))
        except RunNotFound as error:
            error.args = (f"{error} in {display(urls)}",)
            raise
    if json:
        print(jsonlib.dumps(_presented(found)))
        return
    print(found.sentence)
    for name, value in _presented(found).items():
        if name != "sentence" and value:
            words = " ".join(value) if isinstance(value, list) else value
            print(f"{name.replace('_', ' '):9} {words}")
    print(f"{'database':9} {display(urls)}")


def _presented(found: Explanation) -> dict[str, str | int | list[str] | None]:
    return {
        "sentence": found.sentence,
        "remedy": found.remedy,
        "run_id": found.run_id,
        "status": found.status.value,
        "gate": found.gate.value,
        "since": _rfc3339(found.since),
        "held_by": list(found.held_by),
        "position": found.position,
        "until": _rfc3339(found.until),
        "parent_id": found.parent_id,
    }


def _rfc3339(instant: Instant | None) -> str | None:
    if instant is None:
        return None
    # Added up in whole microseconds: a float would lose some of them.
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=instant)
    return at.isoformat().replace("+00:00", "Z")
