"""Where a worker may be said to be."""

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
    """The address of a worker, without a slash at its end; else InvalidInput."""
    text = check_text(url, field="url", length_max=URL_LENGTH_MAX).strip().rstrip("/")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        is_address = bool(host) and parts.port != 0 and parts.scheme in _SCHEMES
    except ValueError:
        parts, host, is_address = urlsplit(""), "", False
    if not is_address:
        raise InvalidInput("url", "must be an address such as http://127.0.0.1:8080")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("url", "must have no user, query or fragment")
    problem = host_problem(host)
    if problem is not None:
        raise InvalidInput("url", problem)
    return text


def host_problem(host: str) -> str | None:
    """What is wrong with a host that is neither a plain number nor a name; None if it is one.

    Systems read `10.1`, `0x7f.1`, `2130706433` and digits of other scripts as addresses, each in
    its own way. What two may read differently cannot be checked, and nobody needs to write it so.
    """
    if not host.isascii():
        return "must be ASCII; write a name in its xn-- form"
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        if _NUMBER.fullmatch(last):
            return f"{host} is no address; write all four numbers, such as 127.0.0.1"
    return None
