"""Fuzzing with schemathesis from the OpenAPI document of a running server."""

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

# A schema cannot specify which jobs are registered, nor which cursors were issued.
NOT_CHECKED: Final = "positive_data_acceptance"
TOKEN: Final = "a-token-for-the-fuzzer"
"""The token of the server: without one, it would not authenticate as the document specifies."""
CASES: Final = re.compile(r"([\d,]+) generated")
REPORT: Final = re.compile(r"^(?=\d+\. Test Case ID)", re.MULTILINE)
HEADLINE: Final = re.compile(r"^=+ [A-Z]+ =+$", re.MULTILINE)
SEED: Final = 7
# Documented statuses that schemathesis does not expect by default. By the contract of the first
# flow centre, the status is 500 if there is no worker.
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
    errors: list[str]
    """The report of each error; empty if every answer is as documented."""


def groups(document: Mapping[str, Any]) -> Counter[str]:
    """Count the operations of each group in the OpenAPI document."""
    return Counter(
        group
        for operations in document["paths"].values()
        for operation in operations.values()
        for group in operation["tags"]
    )


def fuzz_group(
    address: str, group: str, *, operation_count: int, case_count: int, folder: Path
) -> Fuzzed:
    """Send at least `case_count` requests to a group of operations, or until an error is found."""
    total = Fuzzed(0, [])
    for seed in itertools.count(SEED):  # One seed generates too few cases for some groups.
        if total.case_count >= case_count or total.errors:
            break
        more = fuzz(
            address,
            f"--include-tag={group}",
            example_count=math.ceil(case_count / 2 / operation_count),
            seed=seed,
            folder=folder,
        )
        total = Fuzzed(total.case_count + more.case_count, more.errors)
    return total


def fuzz(
    address: str,
    *chosen: str,
    example_count: int,
    seed: int = SEED,
    folder: Path,
    timeout_s: float | None = None,
) -> Fuzzed:
    """Send `example_count` requests per phase to each of the chosen operations, or to all."""
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
    count_match = CASES.search(ended.stdout)
    case_count = int(count_match[1].replace(",", "")) if count_match else 0
    if ended.returncode == 0:
        assert case_count > 0, ended.stdout
        return Fuzzed(case_count, [])
    _, _, failures = ended.stdout.partition("= FAILURES =")
    errors = REPORT.split(HEADLINE.split(failures)[0])[1:]
    return Fuzzed(case_count, errors or [ended.stdout + ended.stderr])
