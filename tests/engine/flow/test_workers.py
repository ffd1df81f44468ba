"""Calls to workers: who is chosen, and what becomes of those who misbehave (S5, R5.7)."""

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
from tests.engine.flow.raw_worker import asked
from tests.engine.flow.scenes import a_flow, told

pytestmark = pytest.mark.backend("sqlite")


# What some system takes for an address, and `ipaddress` does not.
ALMOST_ADDRESSES = (
    *("167837955", "169.254.43518", "10.1", "0x7f.1", "0X7F000001", "0177.0.0.1", "127.0.0.1."),
    *("1.2.3.4.5", "256.1.1.1", "a.10", "\uff11\uff10.1.2.3", "127\u30020\u30020\u30021"),
)


def executor(service: str, **more: Any) -> dict[str, Any]:
    node = {"kind": "executor", "service": service, "post": {"output_key": "out"}}
    return node | more


def a_program(services: Services | None = None, *, url: str = "http://127.0.0.1:8080") -> Worker:
    return Worker(services, url=url, registry_url="http://127.0.0.1:1", drain_s=0)


def a_worker(name: str, *, load: int = 0, heard_at: int = 0) -> LiveWorker:
    return LiveWorker(name, f"http://{name}", frozenset({"sum"}), load, Instant(heard_at))


@pytest.mark.proves("R5.4")
def test_the_least_load_goes_first_and_others_in_their_turn() -> None:
    """R5.8: and who is silent for longer than the TTL takes no part."""
    workers = [a_worker("a", load=3), a_worker("b", load=1), a_worker("c", load=2)]
    now = Instant(15_000_000)

    def chosen(**more: Any) -> str | None:
        found = choose_worker(workers, "sum", now=more.pop("now", now), **more)
        return None if found is None else found.id

    assert chosen() == "b"
    assert chosen(excluded=("b",)) == "c"
    assert chosen(busy={"b": 5, "c": 4}) == "a"
    assert [chosen(is_weighted=False, turn=turn) for turn in range(4)] == ["a", "b", "c", "a"]
    assert chosen(now=Instant(15_000_001)) is None
    assert choose_worker(workers, "other", now=now) is None


@pytest.mark.proves("S5")
@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("silent", "timeout"),
        ("slow", "timeout"),
        ("endless", "bad_answer: the answer is more than 1,048,576 bytes"),
        ("headers", "bad_answer: it does not answer in HTTP"),
        ("cut", "unreachable: "),
        ("lines", "bad_answer: it reports too much progress"),
        ("redirect", "bad_answer: HTTP 302"),
        ("nan", "bad_answer: HTTP 200"),
        ("twice", "bad_answer: HTTP 200"),
        ("list", "bad_answer: HTTP 200, not an object"),
        ("text", "bad_answer: HTTP 500"),
        ("told", '{"a": 1}'),
        ("other", "bad_answer: it does not answer in HTTP"),
        ("named", "bad_answer: it answered ??, not "),
        ("good", ""),
    ],
)
async def test_whatever_a_worker_answers_the_task_goes_on(url: str, way: str, error: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw, hostile_worker() as address:
        await hw.workers.register("h", address, [way])
        late = way in ("silent", "slow")
        node = executor(way, **({"timeout_ms": 300} if late else {}))
        await hw.flows.publish("asks", a_flow({"ask": node | {"on_error": "next"}}))
        run = await hw.flows.start("asks")
        async with asyncio.timeout(20):
            await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error.startswith(error)
        assert (row.error == "") == (way == "good")
        assert late or (row.worker is not None and row.worker.id == "h")


@pytest.mark.proves("R5.4")
async def test_another_worker_is_asked_when_one_fails(url: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw, hostile_worker() as address:
        await hw.workers.register("a", address, ["text"])
        await hw.workers.register("b", "http://127.0.0.1:1", ["text"])
        node = executor("text", max_attempts=3, weighted_by_load=True)
        await hw.flows.publish("asks", a_flow({"ask": node}))
        run = await hw.flows.start("asks")
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        # Both have failed: the error of the worker that answered is the more useful one.
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
        *((one, ("0.0.0.0/0",), False) for one in ALMOST_ADDRESSES),
    ],
)
async def test_only_loopback_and_what_is_listed_is_connected_to(
    address: str, networks: tuple[str, ...], is_allowed: bool
) -> None:
    allowed = AllowedAddresses(networks)
    if is_allowed:
        allowed.check_host(address)
    else:
        with pytest.raises(AddressNotAllowed):
            allowed.check_host(address)


@pytest.mark.proves("S5")
async def test_a_name_is_checked_by_the_address_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    found = ["10.1.2.3", "127.0.0.1"]

    async def resolved(*_: object, **__: object) -> list[Any]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (address, 80)) for address in found]

    monkeypatch.setattr(loop, "getaddrinfo", resolved)
    assert [one["host"] for one in await AllowedAddresses().resolve("inside")] == ["127.0.0.1"]
    found.remove("127.0.0.1")
    with pytest.raises(AddressNotAllowed, match="HEADWAY_WORKER_NETWORKS"):
        await AllowedAddresses().resolve("inside")
    with pytest.raises(ConfigurationError, match="worker_networks"):
        AllowedAddresses(["nonsense"])


@pytest.mark.proves("S5")
@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "inside", *ALMOST_ADDRESSES])
async def test_whatever_is_taken_for_an_address_no_socket_is_made_for_it(address: str) -> None:
    """However its client comes to it: a name is none either, when it is to be connected to."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with pytest.raises(AddressNotAllowed):
            AllowedAddresses().make_socket((family, socket.SOCK_STREAM, 6, "", (address, 80)))
    found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    AllowedAddresses().make_socket(found).close()


@pytest.mark.proves("S5")
@pytest.mark.parametrize(
    "bad",
    [
        *("", "ftp://x", "http://", "http://u@x", "http://x/?a", "http://x:99999", "file:///etc"),
        *(f"http://{one}:80" for one in ALMOST_ADDRESSES),
    ],
)
async def test_what_is_no_address_is_not_registered(url: str, bad: str) -> None:
    async with Headway(url) as hw:
        with pytest.raises(InvalidInput, match="url"):
            await hw.workers.register("w", bad, ["sum"])


@pytest.mark.proves("R5.7")
async def test_a_worker_counts_its_load_and_takes_a_free_port(url: str) -> None:
    services, begun, go = Services(), asyncio.Event(), asyncio.Event()

    @services
    async def wait(given: Any, params: dict[str, Any], call: Call) -> str:
        begun.set()
        await go.wait()
        return f"{given} {params['by']} {bool(call.id)} {call.generation}"

    @services
    def shout(given: str) -> str:
        return given.upper()

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
            assert told(await hw.flows.node_runs(run.id)) == ["w[0] ok", "s[0] ok"]
    taken.close()


@pytest.mark.proves("I15")
@pytest.mark.parametrize("service", ["leaves", "leaves_too"])
async def test_a_service_that_calls_sys_exit_fails_its_call_alone(service: str) -> None:
    services = Services()

    @services
    async def leaves(_: object) -> None:
        sys.exit(3)

    @services
    def leaves_too(_: object) -> None:
        sys.exit(3)

    async with a_program(services) as worker:
        assert (await asked(worker.url, f"/exec/{service}"))[1] == {"error": "SystemExit: 3"}
        body = {"input": "here"}
        assert (await asked(worker.url, "/exec/echo", body))[1] == {"result": "here"}
        assert worker.load == 0


@pytest.mark.proves("R5.7")
def test_of_workers_that_start_at_once_one_has_the_port_and_the_other_a_free_one() -> None:
    """Also before either of them has got so far as to serve."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with a_program(url=url)._bind() as first, a_program(url=url)._bind() as second:
        assert url.endswith(f":{first.getsockname()[1]}")
        assert second.getsockname() != first.getsockname()


@pytest.mark.proves("R5.4")
async def test_each_service_takes_its_workers_in_turn(url: str) -> None:
    """Whatever other services are called in between."""
    asked_for: dict[str, list[str]] = {"heavy": [], "light": []}

    def a_set(name: str) -> Services:
        services = Services()

        @services
        def heavy(_: object) -> None:
            asked_for["heavy"].append(name)

        @services
        def light(_: object) -> None:
            asked_for["light"].append(name)

        return services

    nodes = {f"{service}{n}": executor(service) for n in range(2) for service in asked_for}
    flow = a_flow(nodes, *pairwise(nodes))
    async with Headway(url) as hw, a_program(a_set("a")) as one, a_program(a_set("b")) as other:
        for worker in (one, other):
            await hw.workers.register(worker.id, worker.url, list(asked_for))
        await hw.flows.publish("f", flow)
        await (await hw.flows.start("f")).result(20)
    assert {service: sorted(workers) for service, workers in asked_for.items()} == {
        "heavy": ["a", "b"],
        "light": ["a", "b"],
    }


@pytest.mark.proves("R5.8")
async def test_a_live_worker_is_found_by_the_clock_of_the_database(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I18: also by the first task of a program whose own clock is ahead."""
    now = SystemClock.now
    monkeypatch.setattr(SystemClock, "now", lambda self: Instant(now(self) + 20 * SECOND_US))
    async with Headway(url, stop_wait_s=0) as hw, hostile_worker() as address:
        await hw.workers.register("h", address, ["good"])
        assert [one.id for one in await hw.workers.list()] == ["h"]
        await hw.flows.publish("asks", a_flow({"ask": executor("good")}))
        assert await (await hw.flows.start("asks")).result(20) == {"out": "good"}


@pytest.mark.proves("R5.7")
@pytest.mark.parametrize(
    ("service", "given", "params", "outcome"),
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
async def test_the_built_in_services(
    url: str, service: str, given: Any, params: dict[str, Any], outcome: tuple[Any, str]
) -> None:
    async with (
        Headway(url) as hw,
        Worker(url="http://127.0.0.1:8080", registry_url="http://127.0.0.1:1") as worker,
    ):
        await hw.workers.register(worker.id, worker.url, [service])
        node = executor(service, params=params, prep={"input_key": "$params.given"})
        await hw.flows.publish("f", a_flow({"n": node}))
        run = await hw.flows.start("f", params={"given": given})
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert (row.output, row.error) == outcome


@pytest.mark.proves("R5.7")
async def test_as_many_threads_as_were_asked_for_work_at_once(url: str) -> None:
    services, count = Services(), 40
    together = threading.Barrier(count)

    @services
    def meet(given: int) -> int:
        together.wait(20)
        return given

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
async def test_a_call_is_as_large_as_a_worker_takes_or_is_not_made(
    url: str, names: str, error: str
) -> None:
    """The input and the parameters, each as large as a document may be, fit together."""
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
