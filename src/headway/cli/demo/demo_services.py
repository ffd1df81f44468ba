"""The services of the demo's worker, in addition to the built-in ones."""

import asyncio
from typing import Any

from headway.worker.service_registry import Call, Services

services = Services()


@services
async def stock(order: dict[str, Any]) -> str:
    await asyncio.sleep(0.6)
    return f"{len(order['items'])} items in stock"


@services
async def credit(order: dict[str, Any]) -> str:
    await asyncio.sleep(0.9)
    return f"{order['customer']} pays on time"


@services
async def price(item: dict[str, Any]) -> int:
    await asyncio.sleep(0.4)
    return int(item["count"] * item["each"])


@services
async def pack(order: dict[str, Any], params: dict[str, Any], call: Call) -> str:
    for done, _ in enumerate(order["items"], start=1):
        await asyncio.sleep(0.3)
        call.progress(packed=done, of=len(order["items"]))
    return f"a parcel for {order['customer']}, {params['wrap']}"
