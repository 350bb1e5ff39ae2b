"""A certificate authority of one master, for clusters without a certificate from elsewhere.

    DATA_DIR/tls/authority.pem   key and certificate, made once, good for ten years: its fingerprint is what others pin
    DATA_DIR/tls/master.pem      key and certificate, signed by it: made anew for new names, and before it ends

So a new certificate of the master changes nothing for those who trust the authority. Both files are secret.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from master.tls.certificate import names_of
from master.tls.serving import TlsFiles
from windlass.base.errors import InvalidState
from windlass.base.files import write_atomic
from windlass.base.network import parse_address

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
"""Browsers refuse more than 398 days."""
RENEW_BEFORE = timedelta(days=60)
CLOCKS_DIFFER = timedelta(hours=1)
_EVERY = ("0.0.0.0", "::")  # noqa: S104  (no names of anybody)


class OwnAuthority:
    """Files in a folder of its own. `ensure` makes what is missing or due."""

    def __init__(self, folder: Path, names: Iterable[str], *, ca: Path | None = None) -> None:
        self._folder = folder
        self._names = tuple(dict.fromkeys(names))
        self._authority = folder / "authority.pem"
        self._master = folder / "master.pem"
        self.files = TlsFiles(cert=self._master, key=self._master, ca=ca)

    def ensure(self, now: datetime) -> None:
        """Raises InvalidState for an authority that is damaged or gone: nobody would trust another one."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._authority.exists():
            if self._master.exists():
                raise InvalidState(
                    f"{self._authority} is gone, which signed {self._master}: {self._way_out()}"
                )
            write_atomic(self._authority, _new_authority(now), durable=True)
        if self._is_due(now):
            signer, key = self._read_authority()
            write_atomic(self._master, _signed(signer, key, self._names, now), durable=True)

    def _read_authority(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        content = self._authority.read_bytes()
        with suppress(ValueError, TypeError):
            signer = x509.load_pem_x509_certificate(content)
            key = serialization.load_pem_private_key(content, None)
            if (
                isinstance(key, ec.EllipticCurvePrivateKey)
                and key.public_key() == signer.public_key()
            ):
                return signer, key
        raise InvalidState(f"{self._authority} is damaged: {self._way_out()}")

    def _way_out(self) -> str:
        return (
            f"bring it back from a backup. If there is none, remove both {self._authority.name} and "
            f"{self._master.name}: the master makes another authority, and everybody who trusts the old one must be "
            "told its fingerprint"
        )

    def _is_due(self, now: datetime) -> bool:
        try:
            found = x509.load_pem_x509_certificates(self._master.read_bytes())[0]
        except (FileNotFoundError, ValueError):
            return True
        ends = found.not_valid_after_utc - RENEW_BEFORE
        return not set(self._names) <= set(names_of(found)) or now > ends


def _new_authority(now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    public = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    name = _subject(f"Windlass authority of {socket.gethostname()}"[:64])
    made = (
        _builder(name, name, key.public_key(), now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(public, critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem_key(key) + _pem(made)


def _signed(
    signer: x509.Certificate,
    signing: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
) -> bytes:
    """A new key, its certificate, and that of the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    public = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = (
        _builder(_subject("Windlass master"), signer.subject, key.public_key(), now, LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_general, names)), critical=False)
        .add_extension(public, critical=False)
        .add_extension(issuer, critical=False)
        .sign(signing, hashes.SHA256())
    )
    return _pem_key(key) + _pem(made) + _pem(signer)


def names_here(*given: str) -> tuple[str, ...]:
    """By which this machine may be called: its own names and addresses, and those given."""
    host = socket.gethostname()
    wanted = [f"*{name}" if name.startswith(".") else name for name in given if name]
    names = [*wanted, host, socket.getfqdn(), "localhost", "127.0.0.1", "::1", *_addresses(host)]
    usable = (_plain(name.lower()) for name in names if name.isascii())
    return tuple(name for name in dict.fromkeys(usable) if name not in _EVERY)


def _addresses(host: str) -> Iterator[str]:
    """Those of the host's name, and the one by which packets leave. Nothing is sent."""
    with suppress(OSError):
        yield from (str(found[4][0]) for found in socket.getaddrinfo(host, None))
    with suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        yield str(probe.getsockname()[0])


def _plain(name: str) -> str:
    address = parse_address(name)
    return str(address) if address is not None else name


def _general(name: str) -> x509.GeneralName:
    address = parse_address(name)
    return (
        x509.DNSName(name)
        if address is None
        else x509.IPAddress(ipaddress.ip_address(str(address)))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - CLOCKS_DIFFER,
        not_valid_after=now + life,
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
