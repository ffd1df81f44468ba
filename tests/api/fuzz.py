"""schemathesis over the OpenAPI document of a running server."""

import math
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# A schema cannot say which jobs are registered, nor which cursors were given out.
NOT_CHECKED: Final = "positive_data_acceptance"
TOKEN: Final = "a-token-for-those-who-fuzz"
"""The server's: without one it would ask nobody who he is, as the document says that it does."""
CASES: Final = re.compile(r"([\d,]+) generated")


@dataclass(frozen=True, slots=True)
class Fuzzed:
    case_count: int
    failures: list[str]
    """The lines that tell of them; none when every answer is as documented."""


def groups(document: Mapping[str, Any]) -> Counter[str]:
    """How many operations each group of the OpenAPI document has."""
    return Counter(
        group
        for operations in document["paths"].values()
        for operation in operations.values()
        for group in operation["tags"]
    )


def fuzz_group(
    address: str, group: str, *, operation_count: int, case_count: int, folder: Path
) -> Fuzzed:
    """At least `case_count` requests to the operations of a group, as far as they differ."""
    each = math.ceil(case_count / operation_count)
    return fuzz(address, f"--include-tag={group}", example_count=each, folder=folder)


def fuzz(
    address: str, *chosen: str, example_count: int, folder: Path, timeout_s: float | None = None
) -> Fuzzed:
    """So many requests to each of the chosen operations, or to all."""
    ended = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            f"{address}/openapi.json",
            "--checks=all",
            f"--exclude-checks={NOT_CHECKED}",
            f"--max-examples={example_count}",
            "--suppress-health-check=all",
            "--no-color",
            f"--header=Authorization: Bearer {TOKEN}",
            "--seed=7",
            *chosen,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    said = CASES.search(ended.stdout)
    case_count = int(said[1].replace(",", "")) if said else 0
    if ended.returncode == 0:
        return Fuzzed(case_count, [])
    _, _, failures = ended.stdout.partition("= FAILURES =")
    return Fuzzed(case_count, (failures or ended.stdout + ended.stderr).splitlines())
