"""`headway worker`: the services of a file of yours, for flows to call."""

from rich.console import Console

from headway.bootstrap import wait_for_stop_signal
from headway.cli.load_app import import_target
from headway.cli.output.log_format import configure_logging
from headway.core.errors import ConfigurationError
from headway.log import event_log
from headway.process import run_process
from headway.settings import load_settings
from headway.worker.program import Worker
from headway.worker.service_registry import Services

log = event_log(__name__)


def worker(
    place: str | None = None,
    /,
    *,
    url: str | None = None,
    registry: str | None = None,
) -> None:
    """Serve services until Ctrl-C; those of headway's own (transform, sum, route, echo) too.

    Parameters
    ----------
    place
        Where your services are, as `module:name`: a `Services` in a file of yours.
    url
        Where to listen, and where the engine finds it; a free port if that one is taken.
        Without it, WORKER_URL, or http://127.0.0.1:8080.
    registry
        The server to register with. Without it, REGISTRY_URL, or http://127.0.0.1:8070.
    """
    run_process(_run_worker(place, url=url, registry=registry))


async def _run_worker(place: str | None, *, url: str | None, registry: str | None) -> None:
    settings = load_settings()
    configure_logging(settings)
    services = load_services(place)
    async with Worker(services, url=url, registry_url=registry) as working:
        if settings.log_format == "json":
            log.info("worker_ready", extra={"worker_id": working.id, "url": working.url})
        else:
            console = Console(stderr=True)
            console.print(f"worker {working.id} serves [bold]{working.url}[/]")
        await wait_for_stop_signal()


def load_services(place: str | None) -> Services:
    """The Services at `module:name`; ConfigurationError says what is not there."""
    if place is None:
        return Services()
    module, name = import_target(place, label=repr(place), example="work:services")
    found = getattr(module, name, None)
    if not isinstance(found, Services):
        raise ConfigurationError(f"{place!r}: {name} is not a Services there")
    return found
