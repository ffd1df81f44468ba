"""schemathesis over the OpenAPI document of a running server."""

import subprocess
import sys
from pathlib import Path
from typing import Final

# A schema cannot say which jobs are registered, nor which cursors were given out.
NOT_CHECKED: Final = "positive_data_acceptance"


def fuzz(address: str, *, example_count: int, folder: Path, timeout_s: float) -> list[str]:
    """The lines that tell of failures; none when every answer is as documented."""
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
            "--seed=7",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if ended.returncode == 0:
        return []
    _, _, failures = ended.stdout.partition("= FAILURES =")
    return (failures or ended.stdout + ended.stderr).splitlines()
