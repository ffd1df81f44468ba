"""Calls to workers: the choice of a worker, and misbehaving workers (S5, R5.7)."""

import asyncio
import socket
import sys
import threading
from itertools import pairwise
from typing import Any

import pytest

from headway import Headway, InvalidInput
from headway.adapters.http.allowed_addresses import AddressNotAllowed, AllowedAddresses
from headway.adapters.system.system_clock import SystemClock
from headway.core.errors import ConfigurationError
from headway.core.ids import SECOND_US, Instant
from headway.core.worker.saved_worker import LiveWorker, choose_worker
from headway.worker.program import Worker
from headway.worker.service_registry import Call, Services
from tests.engine.flow.hostile import hostile_worker
from tests.engine.flow.raw_worker import post_json
from tests.engine.flow.scenes import a_flow, summarize

pytestmark = pytest.mark.backend("sqlite")


# Some systems accept these as addresses; `ipaddress` does not.
ALMOST_ADDRESSES = (
    *("167837955", "169.254.43518", "10.1", "0x7f.1", "0X7F000001", "0177.0.0.1", "127.0.0.1."),
    *("1.2.3.4.5", "256.1.1.1", "a.10", "\uff11\uff10.1.2.3", "127\u30020\u30020\u30021"),
)


def executor(service: str, **more: Any) -> dict[str, Any]:
    node = {"kind": "executor", "service": service, "post": {"output_key": "out"}}
    return node | more


def a_program(services: Services | None = None, *, url: str = "http://127.0.0.1:8080") -> Worker:
    return Worker(services, url=url, registry_url="http://127.0.0.1:1", drain_s=0)


def a_worker(name: str, *, load: int = 0, heartbeat_at: int = 0) -> LiveWorker:
    return LiveWorker(name, f"http://{name}", frozenset({"sum"}), load, Instant(heartbeat_at))


@pytest.mark.proves("R5.4")
def test_workers_are_chosen_by_least_load_or_in_turn() -> None:
    """A worker without a heartbeat for longer than the TTL is not chosen (R5.8)."""
    workers = [a_worker("a", load=3), a_worker("b", load=1), a_worker("c", load=2)]
    now = Instant(15_000_000)

    def choose(**options: Any) -> str | None:
        worker = choose_worker(workers, "sum", now=options.pop("now", now), **options)
        return None if worker is None else worker.id

    assert choose() == "b"
    assert choose(excluded=("b",)) == "c"
    assert choose(in_flight_counts={"b": 5, "c": 4}) == "a"
    assert [choose(prefers_least_load=False, turn=turn) for turn in range(4)] == [
        "a",
        "b",
        "c",
        "a",
    ]
    assert choose(now=Instant(15_000_001)) is None
    assert choose_worker(workers, "other", now=now) is None


@pytest.mark.proves("S5")
@pytest.mark.parametrize(
    ("service", "error"),
    [
        ("silent", "timeout"),
        ("slow", "timeout"),
        ("endless", "bad_answer: the answer is longer than 1,048,576 bytes"),
        ("headers", "bad_answer: the answer is not valid HTTP"),
        ("cut", "unreachable: "),
        ("lines", "bad_answer: too much progress"),
        ("redirect", "bad_answer: HTTP 302"),
        ("nan", "bad_answer: HTTP 200"),
        ("twice", "bad_answer: HTTP 200"),
        ("list", "bad_answer: HTTP 200, not an object"),
        ("text", "bad_answer: HTTP 500"),
        ("object", '{"a": 1}'),
        ("other", "bad_answer: the answer is not valid HTTP"),
        ("named", "bad_answer: the answer names ??, not call "),
        ("good", ""),
    ],
)
async def test_a_task_continues_after_any_response_from_a_worker(
    url: str, service: str, error: str
) -> None:
    async with Headway(url, stop_wait_s=0) as hw, hostile_worker() as address:
        await hw.workers.register("h", address, [service])
        is_late = service in ("silent", "slow")
        node = executor(service, **({"timeout_ms": 300} if is_late else {}))
        await hw.flows.publish("asks", a_flow({"ask": node | {"on_error": "next"}}))
        run = await hw.flows.start("asks")
        async with asyncio.timeout(20):
            await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error.startswith(error)
        assert (row.error == "") == (service == "good")
        assert is_late or (row.worker is not None and row.worker.id == "h")


@pytest.mark.proves("R5.4")
async def test_another_worker_is_called_when_the_first_one_fails(url: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw, hostile_worker() as address:
        await hw.workers.register("a", address, ["text"])
        await hw.workers.register("b", "http://127.0.0.1:1", ["text"])
        node = executor("text", max_attempts=3, weighted_by_load=True)
        await hw.flows.publish("asks", a_flow({"ask": node}))
        run = await hw.flows.start("asks")
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        # Both have failed; the error of the worker that responded is more useful.
        assert row.worker is not None
        assert (row.worker.id, row.error[:20]) == ("a", "bad_answer: HTTP 500")


@pytest.mark.proves("S5")
@pytest.mark.parametrize(
    ("address", "networks", "is_allowed"),
    [
        ("127.0.0.1", (), True),
        ("127.9.9.9", (), True),
        ("::1", (), True),
        ("::ffff:127.0.0.1", (), True),
        ("10.1.2.3", (), False),
        ("::ffff:10.1.2.3", (), False),
        ("169.254.169.254", ("10.0.0.0/8",), False),
        ("10.1.2.3", ("10.0.0.0/8",), True),
        ("::ffff:10.1.2.3", ("10.0.0.0/8",), True),
        ("192.168.0.1", (), False),
        ("fe80::1%eth0", (), False),
        *((address, ("0.0.0.0/0",), False) for address in ALMOST_ADDRESSES),
    ],
)
async def test_only_loopback_and_listed_networks_are_allowed(
    address: str, networks: tuple[str, ...], is_allowed: bool
) -> None:
    allowed = AllowedAddresses(networks)
    if is_allowed:
        allowed.check_host(address)
    else:
        with pytest.raises(AddressNotAllowed):
            allowed.check_host(address)


@pytest.mark.proves("S5")
async def test_a_host_name_is_checked_by_its_resolved_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    addresses = ["10.1.2.3", "127.0.0.1"]

    async def resolve(*_: object, **__: object) -> list[Any]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (address, 80)) for address in addresses]

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    assert [result["host"] for result in await AllowedAddresses().resolve("inside")] == [
        "127.0.0.1"
    ]
    addresses.remove("127.0.0.1")
    with pytest.raises(AddressNotAllowed, match="HEADWAY_WORKER_NETWORKS"):
        await AllowedAddresses().resolve("inside")
    with pytest.raises(ConfigurationError, match="worker_networks"):
        AllowedAddresses(["nonsense"])


@pytest.mark.proves("S5")
@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "inside", *ALMOST_ADDRESSES])
async def test_no_socket_is_made_for_a_forbidden_or_malformed_address(address: str) -> None:
    """The check is made at connect time, when a host name must already be resolved."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with pytest.raises(AddressNotAllowed):
            AllowedAddresses().make_socket((family, socket.SOCK_STREAM, 6, "", (address, 80)))
    address_info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    AllowedAddresses().make_socket(address_info).close()


@pytest.mark.proves("S5")
@pytest.mark.parametrize(
    "invalid",
    [
        *("", "ftp://x", "http://", "http://u@x", "http://x/?a", "http://x:99999", "file:///etc"),
        *(f"http://{address}:80" for address in ALMOST_ADDRESSES),
    ],
)
async def test_a_worker_with_an_invalid_url_is_refused(url: str, invalid: str) -> None:
    async with Headway(url) as hw:
        with pytest.raises(InvalidInput, match="url"):
            await hw.workers.register("w", invalid, ["sum"])


@pytest.mark.proves("R5.7")
async def test_a_worker_counts_its_calls_and_uses_a_free_port_if_its_port_is_taken(
    url: str,
) -> None:
    services, begun, go = Services(), asyncio.Event(), asyncio.Event()

    @services
    async def wait(value: Any, params: dict[str, Any], call: Call) -> str:
        begun.set()
        await go.wait()
        return f"{value} {params['by']} {bool(call.id)} {call.generation}"

    @services
    def shout(value: str) -> str:
        return value.upper()

    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    async with Headway(url) as hw:
        worker = Worker(services, url=f"http://127.0.0.1:{port}", registry_url="http://127.0.0.1:1")
        async with worker:
            assert worker.url != f"http://127.0.0.1:{port}"
            await hw.workers.register(worker.id, worker.url, services.names)
            assert {"sum", "route", "echo", "transform", "wait"} <= set(services.names)
            waits = executor("wait", params={"by": 2}, prep={"input_key": "$params.n"})
            shouts = executor("shout", prep={"input_key": "out"})
            await hw.flows.publish("f", a_flow({"w": waits, "s": shouts}, ("w", "s")))
            run = await hw.flows.start("f", params={"n": "a"})
            await begun.wait()
            assert worker.load == 1
            go.set()
            assert await run.result(20) == {"out": "A 2 TRUE 1"}
            assert worker.load == 0
            assert summarize(await hw.flows.node_runs(run.id)) == ["w[0] ok", "s[0] ok"]
    taken.close()


@pytest.mark.proves("I15")
@pytest.mark.parametrize("service", ["exits", "exits_in_thread"])
async def test_a_service_that_calls_sys_exit_fails_only_its_call(service: str) -> None:
    services = Services()

    @services
    async def exits(_: object) -> None:
        sys.exit(3)

    @services
    def exits_in_thread(_: object) -> None:
        sys.exit(3)

    async with a_program(services) as worker:
        assert (await post_json(worker.url, f"/exec/{service}"))[1] == {"error": "SystemExit: 3"}
        body = {"input": "here"}
        assert (await post_json(worker.url, "/exec/echo", body))[1] == {"result": "here"}
        assert worker.load == 0


@pytest.mark.proves("R5.7")
def test_the_second_of_two_workers_on_one_port_uses_a_free_port() -> None:
    """The port is reserved before either of them serves requests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with a_program(url=url)._bind() as first, a_program(url=url)._bind() as second:
        assert url.endswith(f":{first.getsockname()[1]}")
        assert second.getsockname() != first.getsockname()


@pytest.mark.proves("R5.4")
async def test_each_service_uses_its_workers_in_turn(url: str) -> None:
    """Calls to other services in between do not change the turn."""
    calls: dict[str, list[str]] = {"heavy": [], "light": []}

    def a_set(name: str) -> Services:
        services = Services()

        @services
        def heavy(_: object) -> None:
            calls["heavy"].append(name)

        @services
        def light(_: object) -> None:
            calls["light"].append(name)

        return services

    nodes = {f"{service}{n}": executor(service) for n in range(2) for service in calls}
    flow = a_flow(nodes, *pairwise(nodes))
    async with Headway(url) as hw, a_program(a_set("a")) as first, a_program(a_set("b")) as second:
        for worker in (first, second):
            await hw.workers.register(worker.id, worker.url, list(calls))
        await hw.flows.publish("f", flow)
        await (await hw.flows.start("f")).result(20)
    assert {service: sorted(workers) for service, workers in calls.items()} == {
        "heavy": ["a", "b"],
        "light": ["a", "b"],
    }


@pytest.mark.proves("R5.8")
async def test_the_database_clock_decides_which_workers_are_live(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes the first task of a program whose own clock is ahead (I18)."""
    now = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: Instant(now(self) + 20 * SECOND_US))
    async with Headway(url, stop_wait_s=0) as hw, hostile_worker() as address:
        await hw.workers.register("h", address, ["good"])
        assert [worker.id for worker in await hw.workers.list()] == ["h"]
        await hw.flows.publish("asks", a_flow({"ask": executor("good")}))
        assert await (await hw.flows.start("asks")).result(20) == {"out": "good"}


@pytest.mark.proves("R5.7")
@pytest.mark.parametrize(
    ("service", "value", "params", "outcome"),
    [
        ("transform", "Hi", {"op": "upper"}, ("HI", "")),
        ("transform", "Hi", {}, (None, "unsupported op")),
        ("transform", 4, {"mul": 2}, (8, "")),
        ("transform", 4, {}, (4, "")),
        ("transform", [1], {}, (None, "bad input")),
        ("sum", [1, "2", "x", None, 0.5], {}, (3.5, "")),
        ("sum", [1, "1_0", " 2 ", "nan", "inf", "-1e999", "", True, "\u0663"], {}, (1, "")),
        ("sum", ["+1", "-.5", "2.", "1e2"], {}, (102.5, "")),
        ("sum", "no", {}, (None, "bad input")),
        ("route", None, {}, ({"action": "goB"}, "")),
        ("route", None, {"action": "goC"}, ({"action": "goC"}, "")),
        ("echo", {"a": 1}, {}, ({"a": 1}, "")),
    ],
)
async def test_built_in_services_return_the_documented_results(
    url: str, service: str, value: Any, params: dict[str, Any], outcome: tuple[Any, str]
) -> None:
    async with (
        Headway(url) as hw,
        Worker(url="http://127.0.0.1:8080", registry_url="http://127.0.0.1:1") as worker,
    ):
        await hw.workers.register(worker.id, worker.url, [service])
        node = executor(service, params=params, prep={"input_key": "$params.value"})
        await hw.flows.publish("f", a_flow({"n": node}))
        run = await hw.flows.start("f", params={"value": value})
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert (row.output, row.error) == outcome


@pytest.mark.proves("R5.7")
async def test_a_worker_uses_up_to_the_configured_number_of_threads(url: str) -> None:
    services, count = Services(), 40
    together = threading.Barrier(count)

    @services
    def meet(value: int) -> int:
        together.wait(20)
        return value

    async with (
        Headway(url) as hw,
        Worker(
            services,
            url="http://127.0.0.1:8080",
            registry_url="http://127.0.0.1:1",
            thread_count_max=count,
        ) as worker,
    ):
        await hw.workers.register(worker.id, worker.url, ["meet"])
        fan = executor("meet", kind="foreach", parallel_mode="concurrent", max_parallel=count)
        fan |= {"prep": {"input_key": "$params.list"}}
        await hw.flows.publish("f", a_flow({"n": fan}))
        run = await hw.flows.start("f", params={"list": list(range(count))})
        assert await run.result(30) == {"out": list(range(count))}


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("names", "error"), [("a", ""), ("ab", "too_large: input of node 'n'")], ids=["fits", "beyond"]
)
async def test_a_call_that_is_too_large_is_not_sent(url: str, names: str, error: str) -> None:
    """Input and parameters of the maximum document size fit into one call."""
    services = Services()
    services(len, name="count")
    async with (
        Headway(url) as hw,
        Worker(services, url="http://127.0.0.1:8080", registry_url="http://127.0.0.1:1") as worker,
    ):
        await hw.workers.register(worker.id, worker.url, ["count"])
        prep = {"input_map": dict.fromkeys(names, "$params.text")}
        await hw.flows.publish("f", a_flow({"n": executor("count", prep=prep)}))
        run = await hw.flows.start("f", params={"text": "x" * 900_000})
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error.startswith(error)
        assert (row.error, row.output) == ("", 1) or error
