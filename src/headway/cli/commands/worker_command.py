"""`headway worker`: serve the user's services, which flows call."""

from rich.console import Console

from headway.bootstrap import wait_for_stop_signal
from headway.cli.load_app import import_target
from headway.cli.output.log_format import configure_logging
from headway.core.errors import ConfigurationError
from headway.log import event_log
from headway.process.dedicated import run_process
from headway.settings import load_settings
from headway.worker.program import Worker
from headway.worker.service_registry import Services

log = event_log(__name__)


def worker(
    services: str | None = None,
    /,
    *,
    url: str | None = None,
    registry: str | None = None,
) -> None:
    """Serve your services and the built-in ones (transform, sum, route, echo) until Ctrl-C.

    Parameters
    ----------
    services
        Your `Services`, as `module:name`. Without it, only the built-in services are offered.
    url
        The URL to listen on, at which the server calls the worker. If its port is in use, a free
        one is chosen. Default: WORKER_URL, or http://127.0.0.1:8080.
    registry
        The server to register with. Default: REGISTRY_URL, or http://127.0.0.1:8070.
    """
    run_process(_run_worker(services, url=url, registry=registry))


async def _run_worker(target: str | None, *, url: str | None, registry: str | None) -> None:
    settings = load_settings()
    configure_logging(settings)
    services = load_services(target)
    async with Worker(services, url=url, registry_url=registry) as running:
        if settings.log_format == "json":
            log.info("worker_ready", extra={"worker_id": running.id, "url": running.url})
        else:
            console = Console(stderr=True)
            console.print(f"worker {running.id} serves [bold]{running.url}[/]")
        await wait_for_stop_signal()


def load_services(target: str | None) -> Services:
    """Return the Services at `module:name`, or an empty one if `target` is None.

    Raise ConfigurationError if there is no Services at that target.
    """
    if target is None:
        return Services()
    module, name = import_target(target, label=repr(target), example="work:services")
    services = getattr(module, name, None)
    if not isinstance(services, Services):
        raise ConfigurationError(f"{target!r}: {name} is not a Services object")
    return services
