"""Check the address that a worker registers."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from headway.core.document import check_text
from headway.core.errors import InvalidInput

URL_LENGTH_MAX: Final = 500
_SCHEMES: Final = ("http", "https")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


def check_worker_url(url: str) -> str:
    """Return the URL of a worker without a trailing slash. Raise InvalidInput if it is invalid."""
    text = check_text(url, field="url", length_max=URL_LENGTH_MAX).strip().rstrip("/")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        is_address = bool(host) and parts.port != 0 and parts.scheme in _SCHEMES
    except ValueError:
        parts, host, is_address = urlsplit(""), "", False
    if not is_address:
        raise InvalidInput("url", "must be a URL such as http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("url", "must not have a user, query or fragment")
    problem = host_problem(host)
    if problem is not None:
        raise InvalidInput("url", problem)
    return text


def host_problem(host: str) -> str | None:
    """Return what is wrong with a host, or None if it is an ordinary IP address or host name.

    Systems parse `10.1`, `0x7f.1`, `2130706433` and digits of other scripts as addresses, each
    differently. Such a host is refused, because another system may read it as another address.
    """
    if not host.isascii():
        return "must be ASCII; write an international name in its xn-- form"
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        if _NUMBER.fullmatch(last):
            return f"{host} is not an IP address; write all four numbers, such as 127.0.0.1"
    return None
