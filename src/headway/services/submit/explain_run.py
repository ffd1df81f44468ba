"""Say why a run does not move: read what it may be waiting for, and let the core tell."""

from headway.core.errors import RunNotFound
from headway.core.ids import RunId
from headway.core.run.explain import Explanation, explain
from headway.ports.run_reader import RunReader


async def explain_run(reader: RunReader, run_id: RunId) -> Explanation:
    """RunNotFound: there is no such run, or it was removed after its time."""
    situation = await reader.situation(run_id)
    if situation is None:
        raise RunNotFound(run_id)
    return explain(situation, await reader.now())
