"""Names of lanes. Every name that a caller passes is normalized here once."""

from typing import Final

from headway.core.ids import MAIN_LANE

CRON_LANE: Final = "cron"
SESSION_PREFIX: Final = "session:"
# Probes are expected to fail, so their failures are not logged.
PROBE_PREFIXES: Final = ("auth-probe:", "session:probe-")


def session_lane(key: str | None, session_id: str | None = None) -> str:
    """Return the lane of a session, named after its key, else its id, else `main`."""
    name = (key or session_id or "").strip() or MAIN_LANE
    return name if name.startswith(SESSION_PREFIX) else SESSION_PREFIX + name


def global_lane(name: str | None) -> str:
    """Return the trimmed lane name, or `main` if it is empty."""
    return (name or "").strip() or MAIN_LANE


def is_probe_lane(name: str) -> bool:
    return name.startswith(PROBE_PREFIXES)
