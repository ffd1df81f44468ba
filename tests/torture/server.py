"""`python -m tests.torture.server [--full]`: the server under fuzzing, and a stream that is cut."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from headway.bootstrap import upgrade_database
from tests.api.conftest import served
from tests.api.cuts import Seen, cut
from tests.api.fuzz import fuzz
from tests.api.program import served_apart

FUZZ_S_MAX = 4 * 3_600.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.server")
    parser.add_argument("--full", action="store_true", help="the long form")
    is_full = parser.parse_args().full
    seen = asyncio.run(_cuts(1_000 if is_full else 200))
    print(
        f"{seen.cut_count:,} cuts, {seen.event_count:,} events, {seen.resync_count:,} resyncs,"
        f" {len(seen.faults)} faults"
    )
    with tempfile.TemporaryDirectory() as folder, served_apart(Path(folder)) as program:
        failures = fuzz(
            program.address,
            example_count=5_000 if is_full else 100,
            folder=Path(folder),
            timeout_s=FUZZ_S_MAX,
        )
    print("\n".join([*seen.faults, *failures]))
    sys.exit(1 if seen.faults or failures else 0)


async def _cuts(cut_count: int) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/headway.db"
        await upgrade_database([url])
        return await cut(lambda: served(url), cut_count=cut_count, seed=cut_count)


if __name__ == "__main__":
    main()
