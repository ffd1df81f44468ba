"""`python -m tests.torture.server [--full] [--record]`: a server under fuzzing, a stream cut."""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headway.bootstrap import upgrade_database
from tests.api.cuts import Seen, cut
from tests.api.fuzz import TOKEN, fuzz_group, groups
from tests.api.openapi import DOCUMENT_PATH
from tests.api.program import served_in_subprocess
from tests.torture.record import RECORD, Row, record_server

FULL_COUNT, SHORT_COUNT = 5_000, 500
"""The minimum number of requests to a group of operations."""
LINE_LENGTH_MAX = 400
AT_ONCE = 2
"""How many groups run at once: a single one waits for the server half of the time."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.server")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    parser.add_argument("--only", nargs="+", default=[], help="`cuts`, or groups of operations")
    wanted = parser.parse_args()
    fault_count = 0
    for row, found in _torture(wanted.only, is_full=wanted.full):
        print(" ".join(row), *map(_shortened, found), sep="\n", flush=True)
        fault_count += len(found)
        if wanted.record:  # An aborted script leaves the results so far.
            record_server(row)
    sys.exit(1 if fault_count else 0)


def _torture(only: Sequence[str], *, is_full: bool) -> Iterator[tuple[Row, list[str]]]:
    if not only or "cuts" in only:
        seen = asyncio.run(_cuts(1_000 if is_full else 200))
        counts = (
            f"{seen.cut_count:,} ({seen.event_count:,} events, {seen.resync_count:,} resyncs,"
            f" {seen.kill_count:,} servers killed)"
        )
        yield Row("cuts", "", counts, str(len(seen.errors))), seen.errors
    all_groups = groups(json.loads(DOCUMENT_PATH.read_text()))
    chosen = {name: count for name, count in all_groups.items() if not only or name in only}
    with (
        tempfile.TemporaryDirectory() as folder,
        served_in_subprocess(Path(folder), HEADWAY_TOKEN=TOKEN) as program,
    ):

        def fuzzed(group: tuple[str, int]) -> tuple[Row, list[str]]:
            name, operation_count = group
            found = fuzz_group(
                program.address,
                name,
                operation_count=operation_count,
                case_count=FULL_COUNT if is_full else SHORT_COUNT,
                folder=Path(tempfile.mkdtemp(dir=folder)),
            )
            counts = (str(operation_count), f"{found.case_count:,}", str(len(found.errors)))
            return Row(name, *counts), found.errors

        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(fuzzed, chosen.items())


async def _cuts(cut_count: int) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/headway.db"
        await upgrade_database([url])
        return await cut(url, Path(folder), cut_count=cut_count, seed=cut_count)


def _shortened(fault: str) -> str:
    """Return the text shortened. Some requests are very long."""
    return "\n".join(line[:LINE_LENGTH_MAX] for line in fault.splitlines())


if __name__ == "__main__":
    main()
