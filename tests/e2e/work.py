"""The services of the workers in the page's tests, called by flows."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.worker.service_registry import Call, Services

services = Services()


def is_open(gate: str) -> bool:
    return Path(gate).exists()


@services
async def ship(given: Any, params: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """Return a parcel; with a `gate`, not before there is a file of that name."""
    gate = params.get("gate")
    boxed = 0
    while gate is not None and not is_open(gate):
        boxed += 1
        call.progress(boxed=boxed)
        await asyncio.sleep(0.1)
    total = given["total"] if isinstance(given, dict) else 0
    return {"parcel": f"P-{total}", "weight_g": 120 + total}


@services
async def label(given: Any) -> str:
    return f"To: {given}"
