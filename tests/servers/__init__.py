"""Real servers for the tests: private, throw-away processes on loopback.

Each comes from the first of these that exists: a URL in the environment
(`HEADWAY_TEST_POSTGRES_URL`, `HEADWAY_TEST_MARIADB_URL`, `HEADWAY_TEST_REDIS_URL`), the programs
installed on this machine, the wheel in the dependency group `services`. Otherwise `Missing` is
raised. They end with the process that started them, however that process ends.
"""

from tests.servers.mariadb import (
    MariaDBPair,
    MariaDBServer,
    start_mariadb,
    start_mariadb_pair,
)
from tests.servers.pgbouncer import PgBouncer, start_pgbouncer
from tests.servers.postgres import PostgresServer, start_postgres
from tests.servers.postgres_pair import PostgresPair, start_postgres_pair
from tests.servers.process import Missing
from tests.servers.redis import (
    RedisCluster,
    RedisServer,
    start_redis,
    start_redis_cluster,
    start_valkey,
)

__all__ = [
    "MariaDBPair",
    "MariaDBServer",
    "Missing",
    "PgBouncer",
    "PostgresPair",
    "PostgresServer",
    "RedisCluster",
    "RedisServer",
    "start_mariadb",
    "start_mariadb_pair",
    "start_pgbouncer",
    "start_postgres",
    "start_postgres_pair",
    "start_redis",
    "start_redis_cluster",
    "start_valkey",
]
