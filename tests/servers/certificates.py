"""A private certificate authority and its certificates, for tests over TLS."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID_FOR: Final = dt.timedelta(days=2)
_ADDRESSES: Final = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
)


@dataclass(frozen=True, slots=True)
class Certificates:
    folder: Path

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    def certificate_file(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key_file(self, name: str) -> Path:
        return self.folder / f"{name}.key"


def make_certificates(folder: Path, *, client: str) -> Certificates:
    """Write an authority, a certificate for the server, and one for the user named `client`."""
    made = Certificates(folder)
    authority = _Authority(ec.generate_private_key(ec.SECP256R1()), _name("headway tests"))
    _write(made.ca_file, authority.certificate())
    for name, common_name in (("server", "localhost"), ("client", client)):
        key = ec.generate_private_key(ec.SECP256R1())
        _write(made.certificate_file(name), authority.sign(common_name, key))
        _write(made.key_file(name), key)
    return made


@dataclass(frozen=True, slots=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    def certificate(self) -> x509.Certificate:
        return (
            _builder(self.name, self.name, self.key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def sign(self, common_name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            _builder(_name(common_name), self.name, key)
            .add_extension(issuer, critical=False)
            .add_extension(x509.SubjectAlternativeName(_ADDRESSES), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .sign(self.key, hashes.SHA256())
        )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID_FOR)
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _write(path: Path, content: x509.Certificate | ec.EllipticCurvePrivateKey) -> None:
    if isinstance(content, x509.Certificate):
        path.write_bytes(content.public_bytes(serialization.Encoding.PEM))
        return
    path.touch(mode=0o600)
    path.write_bytes(
        content.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
