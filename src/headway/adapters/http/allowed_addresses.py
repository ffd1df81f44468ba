"""Addresses to which headway may connect (S5): loopback always, others only if listed."""

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
    """Connections to the address are not allowed."""


class AllowedAddresses(AbstractResolver):
    """Resolves host names, and returns only addresses to which the client may connect."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._networks = [_parse_network(network) for network in networks]

    def check_host(self, address: str) -> None:
        """Raise AddressNotAllowed if `address` is a numeric address that is not allowed.

        A host name is checked after it was resolved. A text such as `10.1`, which some systems
        parse as a number, is not allowed, because not all systems parse it in the same way.
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

    def make_socket(self, address_info: AddrInfoType) -> socket.socket:
        """Return a socket for the address. Raise AddressNotAllowed if the address is not allowed.

        The client makes every connection through this check.
        """
        family, kind, protocol, _, socket_address = address_info
        address = str(socket_address[0])
        try:
            number = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            raise AddressNotAllowed(f"{address} is not an IP address") from None
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
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        allowed: list[ResolveResult] = []
        for resolved_family, _, protocol, _, socket_address in infos[:ADDRESS_COUNT_MAX]:
            address = str(socket_address[0])
            try:
                self.check_host(address)
            except AddressNotAllowed:
                continue
            allowed.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=resolved_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        if not allowed:
            raise AddressNotAllowed(_not_allowed_message(host))
        return allowed

    async def close(self) -> None:
        """Do nothing. Required by `AbstractResolver`."""


def _parse_network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        problem = f"{text!r} is not a network; write it like 10.0.0.0/8"
        raise ConfigurationError(f"worker_networks: {problem}") from None


def _not_allowed_message(host: str) -> str:
    return f"{host} is not allowed; list its network in HEADWAY_WORKER_NETWORKS"
