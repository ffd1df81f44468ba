"""Apply the configured lane limits to the database, at the start and on each reload."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass

from headway.core.command.admin.lane_limits import ConfiguredLane, ConfigureLanes
from headway.core.errors import ConfigurationError, InfrastructureError
from headway.core.ids import LaneName
from headway.log import event_log
from headway.ports.store import Store

log = event_log(__name__)


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The outcome of a reload of the configuration."""

    lanes: tuple[ConfiguredLane, ...]
    """The lanes whose configured limit has changed, with the old and the new limit."""
    restart_to_apply: tuple[str, ...]
    """Other settings that have changed since the start, and take effect after a restart."""


async def configure_lanes(
    store: Store, limits: Mapping[LaneName, int]
) -> tuple[ConfiguredLane, ...]:
    """Apply the configured limits of lanes. Return the lanes whose limit has changed."""
    if not limits:
        return ()
    changed = await store.apply(ConfigureLanes(tuple(limits.items())))
    for lane in changed:
        fields = {"previous_limit": lane.previous_limit, "max_concurrent": lane.max_concurrent}
        log.info("lane_configured", extra={"lane": lane.name, **fields})
    return changed


@asynccontextmanager
async def reload_on_signal(
    call_on_signal: Callable[[Callable[[], None]], AbstractContextManager[None]],
    reload: Callable[[], Awaitable[ReloadResult]],
) -> AsyncIterator[None]:
    """Reload the configuration after each signal until the `async with` block ends.

    Signals during a reload cause one more reload.
    """
    requested = asyncio.Event()

    async def reload_on_request() -> None:
        while True:  # Until it is canceled.
            await requested.wait()
            requested.clear()
            await _reload_and_log(reload)

    with call_on_signal(requested.set):
        task = asyncio.create_task(reload_on_request())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


async def _reload_and_log(reload: Callable[[], Awaitable[ReloadResult]]) -> None:
    try:
        result = await reload()
    except ConfigurationError as error:
        log.error("configuration_refused", extra={"reason": f"{error}; nothing was changed"})  # noqa: TRY400
    except InfrastructureError as error:
        log.error("configuration_reload_failed", extra={"reason": str(error)})  # noqa: TRY400
    else:
        lanes = ", ".join(lane.name for lane in result.lanes)
        restart = ", ".join(result.restart_to_apply)
        log.info("configuration_reloaded", extra={"lanes": lanes, "restart_to_apply": restart})
