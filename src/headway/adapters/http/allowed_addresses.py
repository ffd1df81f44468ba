"""Which addresses may be connected to (S5): loopback always, others only if they are listed."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult

from headway.core.errors import ConfigurationError
from headway.core.worker.worker_address import host_problem

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ADDRESS_COUNT_MAX: Final = 20


class AddressNotAllowed(OSError):
    """The address is none that may be connected to."""


class AllowedAddresses(AbstractResolver):
    """Names are looked up here, and what is connected to is what was checked."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._networks = [_parse_network(one) for one in networks]

    def check_host(self, address: str) -> None:
        """NotAllowed, if `address` is a number that is not allowed; a name is checked later.

        What only looks like a number is not allowed either: each system reads it in its own way.
        """
        host = address.strip("[]")
        problem = host_problem(host)
        if problem is not None:
            raise AddressNotAllowed(problem)
        try:
            number = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return
        if not self._is_allowed(number):
            raise AddressNotAllowed(_not_allowed_message(address))

    def make_socket(self, found: AddrInfoType) -> socket.socket:
        """A socket to connect with to that address, if it is allowed (else NotAllowed).

        Nothing is connected to but through here, whatever the client takes for an address.
        """
        family, kind, protocol, _, where = found
        address = str(where[0])
        try:
            number = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            raise AddressNotAllowed(f"{address} is no address") from None
        if not self._is_allowed(number):
            raise AddressNotAllowed(_not_allowed_message(address))
        return socket.socket(family, kind, protocol)

    def _is_allowed(self, number: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is not None:
            number = number.ipv4_mapped
        return number.is_loopback or any(number in network for network in self._networks)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        allowed: list[ResolveResult] = []
        for kind, _, protocol, _, where in found[:ADDRESS_COUNT_MAX]:
            address = str(where[0])
            try:
                self.check_host(address)
            except AddressNotAllowed:
                continue
            allowed.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=kind,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        if not allowed:
            raise AddressNotAllowed(_not_allowed_message(host))
        return allowed

    async def close(self) -> None:
        """There is nothing to close."""


def _parse_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        problem = f"{text!r} is no network; write it as 10.0.0.0/8"
        raise ConfigurationError(f"worker_networks: {problem}") from None


def _not_allowed_message(host: str) -> str:
    return f"{host} is not allowed; list its network in HEADWAY_WORKER_NETWORKS"
