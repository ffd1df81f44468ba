"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""

from headway.app import Headway, RunHandle
from headway.services.context import RunContext

__all__ = ["Headway", "RunContext", "RunHandle"]
