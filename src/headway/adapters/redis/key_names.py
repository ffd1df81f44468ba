"""The names of things in Redis. All names of one entity share a hash tag, and so a cluster's slot.

The tag is what stands between the first `{` and the next `}`. So a key's own braces are written as
`%7B` and `%7D` (and its `%` as `%25`): two keys never share a name, and the tag is the whole key.
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
    """Where everything is told that happens to the run."""
    return _name(run_id, "interrupt_ch")


def _name(entity: str, kind: str) -> bytes:
    # Any text has a name, also text that no database would take.
    return f"{{hw:{entity.translate(_ESCAPES)}}}:{kind}".encode(errors="surrogatepass")
