"""The faults of Redis. Each function returns when the server works again."""

import random
import time
from typing import Final

from tests.servers import RedisCluster, RedisServer
from tests.servers.process import wait_until

FAULTS: Final = ("kill", "pause", "flush", "clients")
OUTAGE_S: Final = (0.2, 2.0)
FAILOVER_S_MAX: Final = 60.0


def break_server(server: RedisServer, kind: str) -> None:
    match kind:
        case "kill":  # It persists nothing: it comes back empty.
            server.kill()
            time.sleep(random.uniform(*OUTAGE_S))
            server.restart()
        case "pause":
            server.pause()
            time.sleep(random.uniform(*OUTAGE_S))
            server.resume()
        case "flush":
            server.execute("FLUSHALL")
        case "clients":
            for who in ("normal", "pubsub"):
                server.execute("CLIENT", "KILL", "TYPE", who, "SKIPME", "yes")
        case _:
            raise ValueError(kind)


def cluster_url(cluster: RedisCluster) -> str:
    nodes = ",".join(f"{node.host}:{node.port}" for node in cluster.nodes)
    return f"redis+cluster://{nodes}"


def fail_over_cluster(cluster: RedisCluster) -> None:
    """Kill a master, wait for the promotion of its replica, and bring it back as a replica."""
    master = random.choice([node for node in cluster.nodes if _role(node) == "master"])
    others = [node for node in cluster.nodes if node is not master]
    master.kill()
    wait_until(
        lambda: (
            sum(_role(node) == "master" for node in others) == len(cluster.nodes) // 2
            and all(_is_whole(node) for node in others)
        ),
        what="a replica has taken over",
        timeout_s=FAILOVER_S_MAX,
    )
    master.restart()
    wait_until(
        lambda: _role(master) == "slave" and _is_whole(master) and _is_in_step(master),
        what="the old master is a replica",
        timeout_s=FAILOVER_S_MAX,
    )


def _role(node: RedisServer) -> str:
    return str(node.execute("INFO", "replication")["role"])


def _is_whole(node: RedisServer) -> bool:
    return "cluster_state:ok" in node.execute("CLUSTER", "INFO")


def _is_in_step(node: RedisServer) -> bool:
    return bool(node.execute("INFO", "replication").get("master_link_status") == "up")
