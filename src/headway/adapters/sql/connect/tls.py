"""The `ssl_*` files of a database URL as one context: definite, verified TLS."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headway.core.errors import ConfigurationError

TLS_FILES: Final = frozenset({"ssl_ca", "ssl_cert", "ssl_key"})


def load_tls_context(parameters: Mapping[str, str], place: str) -> ssl.SSLContext:
    """A context that verifies the server's certificate and name.

    With `ssl_ca` only that authority is trusted; without it, those of the system.
    """
    files = {name: parameters[name] for name in TLS_FILES & parameters.keys()}
    if ("ssl_cert" in files) != ("ssl_key" in files):
        raise ConfigurationError(
            f"{place} has only one of 'ssl_cert' and 'ssl_key'; give both, or neither"
        )
    for name, path in sorted(files.items()):
        _check_readable(name, path, place)
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{place}: 'ssl_ca' {files['ssl_ca']!r} holds no certificate; name a PEM file"
        ) from error
    if "ssl_cert" in files:
        _load_client_certificate(context, files["ssl_cert"], files["ssl_key"], place)
    return context


def _check_readable(name: str, path: str, place: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{place}: {name!r} {path!r} cannot be read ({error.strerror}); name a PEM file"
        ) from error


def _load_client_certificate(context: ssl.SSLContext, cert: str, key: str, place: str) -> None:
    try:
        # An empty passphrase, or OpenSSL would ask for one on a terminal that nobody watches.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"{place}: 'ssl_cert' {cert!r} and 'ssl_key' {key!r} are not a certificate and its "
            "key without a passphrase; name two PEM files that belong together"
        ) from error
