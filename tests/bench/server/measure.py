"""The measurements of the server, and their goals."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.api.program import ROOT, served_in_subprocess
from tests.bench.server.load import (
    deliveries_per_s,
    hold,
    snapshot_ms,
    submit_many,
    submits_per_s,
)

SUBMIT_RATIO_MIN: Final = 0.5
"""With fifty connections, of the rate of the framework alone."""
FAN_OUT_RATIO_MIN: Final = 0.7
LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    duration_s: float
    active_count: int
    client_count: int
    event_count: int


FULL: Final = Scale(3, 3.0, 10_000, 200, 500)
QUICK: Final = Scale(1, 1.0, 1_000, 50, 200)


@dataclass(frozen=True, slots=True)
class Served:
    """One figure of the server."""

    what: str
    headway: float
    bare: float | None
    unit: str
    ratio_min: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.bare is None else self.headway / self.bare

    @property
    def miss(self) -> str | None:
        if self.ratio is None or self.ratio_min is None or self.ratio >= self.ratio_min:
            return None
        return f"{self.what}: {self.ratio:.0%} of the framework alone, and not {self.ratio_min:.0%}"

    def as_json(self) -> dict[str, Any]:
        return {"server": self.what, **asdict(self), "ratio": self.ratio}


def measure_server(scale: Scale, step: Callable[[str], None]) -> Iterator[Served]:
    for connection_count in (1, 50):
        step(f"server: submits, {connection_count} connections")
        floor = SUBMIT_RATIO_MIN if connection_count == 50 else None

        async def submits(address: str, count: int = connection_count) -> float:
            return await submits_per_s(address, connection_count=count, duration_s=scale.duration_s)

        what = f"durable submits, {connection_count} connection(s)"
        yield _beside(what, "/s", submits, scale.rounds, floor)
    step("server: snapshot")
    yield _snapshot(scale)
    step("server: fan-out")

    async def fan_out(address: str) -> float:
        return await deliveries_per_s(
            address, client_count=scale.client_count, event_count=scale.event_count
        )

    what = f"events to {scale.client_count} clients"
    yield _beside(what, "deliveries/s", fan_out, scale.rounds, FAN_OUT_RATIO_MIN)


STEP_COUNT: Final = 4


def _beside(
    what: str, unit: str, work: Callable[[str], Any], rounds: int, ratio_min: float | None
) -> Served:
    """The medians of rounds that alternate, each with new programs."""
    ours, theirs = [], []
    for _ in range(rounds):
        with _bare() as address:
            theirs.append(asyncio.run(work(address)))
        with _headway() as address:
            ours.append(asyncio.run(work(address)))
    return Served(what, median(ours), median(theirs), unit, ratio_min)


def _snapshot(scale: Scale) -> Served:
    async def look(address: str) -> tuple[float, int]:
        await submit_many(address, scale.active_count)
        return await snapshot_ms(address)

    with _headway() as address:
        took_ms, byte_count = asyncio.run(look(address))
    what = f"snapshot of {scale.active_count:,} active runs ({byte_count / (1 << 20):.1f} MiB)"
    return Served(what, took_ms, None, "ms")


@contextmanager
def _headway() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, served_in_subprocess(Path(folder)) as program:
        asyncio.run(hold(program.address))
        yield program.address


@contextmanager
def _bare() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "address")
        serving = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.server.bare", str(place)], cwd=ROOT
        )
        try:
            while serving.poll() is None and not (place.exists() and place.read_text()):
                time.sleep(LOOK_S)
            yield place.read_text()
        finally:
            serving.terminate()
            serving.wait()
