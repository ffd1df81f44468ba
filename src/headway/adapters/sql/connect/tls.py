"""Create a TLS context from the `ssl_*` files of a database URL.

TLS with this context is mandatory and verified.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headway.core.errors import ConfigurationError

TLS_FILES: Final = frozenset({"ssl_ca", "ssl_cert", "ssl_key"})


def load_tls_context(parameters: Mapping[str, str], label: str) -> ssl.SSLContext:
    """Return a context that verifies the server's certificate and name.

    With `ssl_ca`, only that authority is trusted. Without it, the authorities of the system are
    trusted. `label` names the URL in error messages.
    """
    files = {name: parameters[name] for name in TLS_FILES & parameters.keys()}
    if ("ssl_cert" in files) != ("ssl_key" in files):
        raise ConfigurationError(
            f"{label} has only one of 'ssl_cert' and 'ssl_key'; give both, or neither"
        )
    for name, path in sorted(files.items()):
        _check_readable(name, path, label)
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{label}: 'ssl_ca' {files['ssl_ca']!r} contains no certificate; name a PEM file"
        ) from error
    if "ssl_cert" in files:
        _load_client_certificate(context, files["ssl_cert"], files["ssl_key"], label)
    return context


def _check_readable(name: str, path: str, label: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{label}: {name!r} {path!r} cannot be read ({error.strerror}); name a PEM file"
        ) from error


def _load_client_certificate(context: ssl.SSLContext, cert: str, key: str, label: str) -> None:
    try:
        # Give an empty passphrase. Without one, OpenSSL would wait for input on the terminal.
        context.load_cert_chain(cert, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"{label}: 'ssl_cert' {cert!r} and 'ssl_key' {key!r} are not a certificate and its "
            "key without a passphrase; name two PEM files that belong together"
        ) from error
