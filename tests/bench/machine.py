"""The machine of the measurement."""

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    date: str
    processor: str
    core_count: int
    load_average: float
    """The load average of the minute before the start."""
    system: str
    python: str

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("date", self.date),
            ("processor", f"{self.processor}, {self.core_count} cores"),
            ("load before", self._load()),
            ("system", self.system),
            ("Python", self.python),
        ]

    def _load(self) -> str:
        text = f"{self.load_average:.1f}"
        if self.load_average < self.core_count / 2:
            return text
        return f"{text}: others were at work, so trust the ratios more than the rates"


def this_machine() -> Machine:
    return Machine(
        date=datetime.now(UTC).date().isoformat(),
        processor=_processor(),
        core_count=os.cpu_count() or 1,
        load_average=os.getloadavg()[0],
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()
