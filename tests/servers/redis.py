"""Throw-away Redis or Valkey: one server, or a cluster of them."""

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError

from tests.servers.folder import Folder
from tests.servers.process import START_TIMEOUT_S, Server, ServerProcess, free_port, wait_until
from tests.servers.programs import redis_program, valkey_program

ADDRESS_VARIABLE: Final = "HEADWAY_TEST_REDIS_URL"
SLOT_COUNT: Final = 16_384
_SETTINGS: Final[Mapping[str, str]] = {
    "appendonly": "no",
    "bind": "127.0.0.1",
    "protected-mode": "no",
    "save": "",
}


class RedisServer(Server):
    """One server. It persists nothing: after `kill` and `restart` it is empty."""

    def __init__(self, process: ServerProcess | None, *, url: str) -> None:
        address = urlsplit(url)
        super().__init__(process, port=address.port or 6379)
        self.host = address.hostname or "127.0.0.1"
        self.url = url
        self.version = ""

    def execute(self, *words: str) -> Any:
        with contextlib.closing(Redis.from_url(self.url, decode_responses=True)) as client:
            return client.execute_command(*words)  # type: ignore[no-untyped-call]

    def answers(self) -> bool:
        try:
            return self.execute("PING") is True
        except (RedisError, OSError):
            return False

    def read_version(self) -> None:
        server = self.execute("INFO", "server")
        self.version = str(server.get("valkey_version", server["redis_version"]))


class RedisCluster:
    def __init__(self, nodes: Sequence[RedisServer]) -> None:
        self.nodes = list(nodes)
        self.url = self.nodes[0].url

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def start_redis(*, settings: Mapping[str, str] | None = None) -> RedisServer:
    """Start a server. `settings` are those of redis.conf, and override the defaults."""
    given = os.environ.get(ADDRESS_VARIABLE)
    if given and not settings:
        server = RedisServer(None, url=given)
    else:
        server = _start_private(settings or {})
    server.read_version()
    return server


def start_valkey() -> RedisServer:
    """Start Valkey, also if Redis is installed; never use one given by its address."""
    server = _start_private({}, program=valkey_program())
    server.read_version()
    return server


def start_redis_cluster(masters: int = 3, replicas: int = 0) -> RedisCluster:
    """Start a cluster in which each master has `replicas` replicas. Return when it is complete."""
    bus_ports = [free_port() for _ in range(masters * (1 + replicas))]
    with contextlib.ExitStack() as started:
        nodes = [_start_node(bus_port, started) for bus_port in bus_ports]
        _join(nodes, bus_ports, masters=masters)
        started.pop_all()
    return RedisCluster(nodes)


def _start_node(bus_port: int, started: contextlib.ExitStack) -> RedisServer:
    node = _start_private(
        {
            "cluster-enabled": "yes",
            "cluster-node-timeout": "2000",
            "cluster-port": str(bus_port),
        }
    )
    started.callback(node.stop)
    node.read_version()
    return node


def _join(nodes: Sequence[RedisServer], bus_ports: Sequence[int], *, masters: int) -> None:
    for index, node in enumerate(nodes):
        node.execute("CLUSTER", "SET-CONFIG-EPOCH", str(index + 1))
        if index < masters:
            first, after = (SLOT_COUNT * step // masters for step in (index, index + 1))
            node.execute("CLUSTER", "ADDSLOTSRANGE", str(first), str(after - 1))
    for node, bus_port in zip(nodes[1:], bus_ports[1:], strict=True):
        nodes[0].execute("CLUSTER", "MEET", node.host, str(node.port), str(bus_port))
    _wait_for(nodes, "cluster_known_nodes", str(len(nodes)))
    for index, node in enumerate(nodes[masters:]):
        master_id = nodes[index % masters].execute("CLUSTER", "MYID")
        node.execute("CLUSTER", "REPLICATE", str(master_id))
    _wait_for(nodes, "cluster_state", "ok")
    wait_until(  # A replica that never had its master's data is not promoted.
        lambda: all(_is_in_step(node) for node in nodes[masters:]),
        what="every replica has its master's data",
        timeout_s=START_TIMEOUT_S,
    )


def _is_in_step(replica: RedisServer) -> bool:
    return bool(replica.execute("INFO", "replication").get("master_link_status") == "up")


def _wait_for(nodes: Sequence[RedisServer], field: str, value: str) -> None:
    wait_until(
        lambda: all(f"{field}:{value}" in node.execute("CLUSTER", "INFO") for node in nodes),
        what=f"every node of the cluster has {field} {value}",
        timeout_s=START_TIMEOUT_S,
    )


def _start_private(settings: Mapping[str, str], *, program: Path | None = None) -> RedisServer:
    folder, port = Folder("re"), free_port()
    options = [
        word
        for name, value in ({**_SETTINGS, **settings}).items()
        for word in (f"--{name}", *(shlex.split(value) or [""]))
    ]
    process = ServerProcess(
        [program or redis_program(), "--port", str(port), "--dir", folder.path, *options],
        folder=folder,
        is_ready=lambda: bool(server.answers()),
    )
    server = RedisServer(process, url=f"redis://127.0.0.1:{port}/0")
    try:
        process.start()
    except BaseException:
        folder.remove()
        raise
    return server
