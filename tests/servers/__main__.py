"""`python -m tests.servers up` starts every server and prints its address, until Ctrl-C."""

import contextlib
import signal
import sys
from typing import Final

from tests.servers import (
    MariaDBServer,
    Missing,
    PostgresServer,
    RedisServer,
    start_mariadb,
    start_postgres,
    start_redis,
)
from tests.servers.mariadb import ADDRESS_VARIABLE as MARIADB
from tests.servers.postgres import ADDRESS_VARIABLE as POSTGRES
from tests.servers.redis import ADDRESS_VARIABLE as REDIS

_STARTERS: Final = ((POSTGRES, start_postgres), (MARIADB, start_mariadb), (REDIS, start_redis))


def up() -> None:
    with contextlib.ExitStack() as running:
        for variable, start in _STARTERS:
            try:
                server: PostgresServer | MariaDBServer | RedisServer = start()
            except Missing as reason:
                print(f"# {reason}", flush=True)
                continue
            running.callback(server.stop)
            url = server.url if isinstance(server, RedisServer) else server.url()
            print(f"export {variable}={url}  # {server.version}", flush=True)
        print("# Press Ctrl-C to stop them and to remove their files.", flush=True)
        signal.pause()


def main() -> None:
    if sys.argv[1:] != ["up"]:
        sys.exit("usage: python -m tests.servers up")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        up()


if __name__ == "__main__":
    main()
