"""Names of Redis keys. All names for one headway key or run are in one slot of a cluster.

Redis chooses the slot by the hash tag, the text between the first `{` and the next `}`. So braces
in a headway key are written as `%7B` and `%7D`, and `%` as `%25`: two keys never share a name, and
the tag is the whole key.
"""

from typing import Final

from headway.core.ids import Key, RunId

_ESCAPES: Final = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


def lease_name(key: Key) -> bytes:
    return _name(key, "lease")


def interactive_name(key: Key) -> bytes:
    return _name(key, "interactive")


def interrupt_name(run_id: RunId) -> bytes:
    return _name(run_id, "interrupt")


def cancel_name(run_id: RunId) -> bytes:
    return _name(run_id, "cancel")


def queue_name(run_id: RunId) -> bytes:
    return _name(run_id, "queue")


def channel_name(run_id: RunId) -> bytes:
    """Return the channel on which everything that happens to the run is published."""
    return _name(run_id, "interrupt_ch")


def _name(entity: str, kind: str) -> bytes:
    # Surrogates are encoded too: every text gets a name, also one that no database would store.
    return f"{{hw:{entity.translate(_ESCAPES)}}}:{kind}".encode(errors="surrogatepass")
