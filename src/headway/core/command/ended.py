"""The answer of commands that may end a run with an error though its job did not fail."""

from dataclasses import dataclass

from headway.core.ids import Key, RunId


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended by this command, and with this error."""

    run_id: RunId
    key: Key
    job: str
    error: str
