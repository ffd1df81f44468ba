"""What lanes are called. Every name that a caller gives passes here once."""

from typing import Final

from headway.core.ids import MAIN_LANE

CRON_LANE: Final = "cron"
SESSION_PREFIX: Final = "session:"
# Probes try what may well fail: their failures are no news.
PROBE_PREFIXES: Final = ("auth-probe:", "session:probe-")


def session_lane(key: str | None, session_id: str | None = None) -> str:
    """The lane of a conversation, known by its key, or else by its id, or else as `main`."""
    name = (key or session_id or "").strip() or MAIN_LANE
    return name if name.startswith(SESSION_PREFIX) else SESSION_PREFIX + name


def global_lane(name: str | None) -> str:
    """The lane of that name, trimmed; `main` if there is none."""
    return (name or "").strip() or MAIN_LANE


def is_probe_lane(name: str) -> bool:
    return name.startswith(PROBE_PREFIXES)
