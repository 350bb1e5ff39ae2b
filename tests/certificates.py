"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from windlass.base.tls.fingerprints import certificates_in, fingerprint_of

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """Files of one certificate."""

    cert: Path
    key: Path

    @property
    def pem(self) -> str:
        return self.cert.read_text()

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(certificates_in(self.cert.read_bytes())[0])


class Authority:
    """Signs into a folder. `root` is its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        made = _builder(self._name, self._name, self._key, _around(datetime.now(UTC)))
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False),
            critical=True,
        )
        public = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        made = made.add_extension(public, critical=False)
        self.root = folder / f"{name}.pem"
        self.root.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(certificates_in(self.root.read_bytes())[0])

    def issue(
        self,
        name: str = "master",
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        valid: tuple[datetime, datetime] | None = None,
        with_root: bool = False,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            _builder(_name(name), self._name, key, valid or _around(datetime.now(UTC)))
            .add_extension(_alternative(hosts), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        root = self.root.read_bytes() if with_root else b""
        return _written(self._folder, name, _pem(made) + root, key)


def self_signed(
    folder: Path, name: str = "master", *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")
) -> Issued:
    """As `openssl req -x509` makes them."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    made = _builder(_name(name), _name(name), key, _around(datetime.now(UTC)))
    made = made.add_extension(_alternative(hosts), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return _written(folder, name, _pem(made.sign(key, hashes.SHA256())), key)


def _around(now: datetime) -> tuple[datetime, datetime]:
    return now - DAY, now + 100 * DAY


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    valid: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    serial = x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key.public_key(), serial, *valid)


def _alternative(hosts: tuple[str, ...]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [
            x509.IPAddress(ipaddress.ip_address(host))
            if host[0].isdigit() or ":" in host
            else x509.DNSName(host)
            for host in hosts
        ]
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _written(folder: Path, name: str, pem: bytes, key: ec.EllipticCurvePrivateKey) -> Issued:
    issued = Issued(folder / f"{name}.crt", folder / f"{name}.key")
    issued.cert.write_bytes(pem)
    issued.key.write_bytes(private_pem(key))
    issued.key.chmod(0o600)
    return issued


def private_pem(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
