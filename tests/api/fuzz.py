"""schemathesis over the OpenAPI document of a running server."""

import itertools
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
FAULT: Final = re.compile(r"^(?=\d+\. Test Case ID)", re.MULTILINE)
HEADLINE: Final = re.compile(r"^=+ [A-Z]+ =+$", re.MULTILINE)
SEED: Final = 7
# Of those that the document has, these are not among what is expected by itself. And by the first
# flow centre's contract it is 500 to find no worker.
REFUSALS: Final = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415, 421, 422, 429, 431]

[[operations]]
include-path = ["/allocate", "/workers/allocate"]
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 500]
"""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    case_count: int
    faults: list[str]
    """What is told of each; none when every answer is as documented."""


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
    """At least `case_count` requests to the operations of a group, or as many as find a fault."""
    found = Fuzzed(0, [])
    for seed in itertools.count(SEED):  # What can hardly be varied takes more than one.
        if found.case_count >= case_count or found.faults:
            break
        more = fuzz(
            address,
            f"--include-tag={group}",
            example_count=math.ceil(case_count / 2 / operation_count),
            seed=seed,
            folder=folder,
        )
        found = Fuzzed(found.case_count + more.case_count, more.faults)
    return found


def fuzz(
    address: str,
    *chosen: str,
    example_count: int,
    seed: int = SEED,
    folder: Path,
    timeout_s: float | None = None,
) -> Fuzzed:
    """So many requests to each of the chosen operations, or to all, in each phase."""
    (folder / "schemathesis.toml").write_text(REFUSALS)
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
            f"--seed={seed}",
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
        assert case_count > 0, ended.stdout
        return Fuzzed(case_count, [])
    _, _, told = ended.stdout.partition("= FAILURES =")
    faults = FAULT.split(HEADLINE.split(told)[0])[1:]
    return Fuzzed(case_count, faults or [ended.stdout + ended.stderr])
