"""The certificate that the master serves: read from files, and refused in words where it cannot work."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

from master.tls.plain_http import MasterContext
from windlass.base.errors import InvalidConfig
from windlass.base.tls.fingerprints import fingerprint_of

CERT = "security.tls.cert"
KEY = "security.tls.key"
CA = "security.tls.ca"
MAX_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What is served, and what others are told of it."""

    names: tuple[str, ...]
    """Of hosts and addresses."""
    not_before: datetime
    not_after: datetime
    fingerprints: tuple[str, ...]
    """Of what is served, the master's own first."""
    pem: str
    """The chain, and what signs it as far as that is known: what a task must trust."""
    context: ssl.SSLContext


def read_certificate(cert: Path, key: Path, ca: Path | None, now: datetime) -> Certificate:
    """Raises InvalidConfig, with a line for the first problem: field, value and way out."""
    chain = _certificates(cert, CERT)
    private = _private_key(key)
    _require_pair(chain, private.public_key(), cert, key)
    authorities = _certificates(ca, CA) if ca is not None else []
    own = chain[0]
    _require_valid(own, cert, now)
    every = {one.public_bytes(serialization.Encoding.DER): one for one in (*chain, *authorities)}
    return Certificate(
        names=names_of(own),
        not_before=own.not_valid_before_utc,
        not_after=own.not_valid_after_utc,
        fingerprints=tuple(
            fingerprint_of(one.public_bytes(serialization.Encoding.DER)) for one in chain
        ),
        pem="".join(
            one.public_bytes(serialization.Encoding.PEM).decode() for one in every.values()
        ),
        context=_context(cert, key),
    )


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    given = extension.value
    return (
        *given.get_values_for_type(x509.DNSName),
        *map(str, given.get_values_for_type(x509.IPAddress)),
    )


def _certificates(path: Path, field: str) -> list[x509.Certificate]:
    content = _content(path, field)
    if b"BEGIN CERTIFICATE" not in content:
        holds = "a private key" if b"PRIVATE KEY" in content else "no certificate"
        raise _refused(f"{field}: {path} holds {holds}: name a file with certificates in PEM form")
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise _refused(f"{field}: a certificate in {path} is damaged: {error}") from None


def _private_key(path: Path) -> PrivateKeyTypes:
    content = _content(path, KEY)
    if b"PRIVATE KEY" not in content:
        holds = "a certificate" if b"BEGIN CERTIFICATE" in content else "no key"
        raise _refused(f"{KEY}: {path} holds {holds}: name a file with the private key in PEM form")
    try:
        return serialization.load_pem_private_key(content, None)
    except TypeError:
        raise _refused(
            f"{KEY}: the key in {path} is encrypted, and the master starts without anybody to ask: "
            f"write it without a password (openssl pkey -in {path} -out NEW, chmod 600 NEW)"
        ) from None
    except ValueError as error:
        raise _refused(f"{KEY}: the key in {path} cannot be read: {error}") from None


def _content(path: Path, field: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refused(
            f"{field}: cannot read {path}: {error.strerror}: the master's user must be able to read it"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise _refused(f"{field}: {path} is larger than {MAX_FILE_BYTES} bytes")
    return content


def _require_pair(
    chain: Sequence[x509.Certificate], public: PublicKeyTypes, cert: Path, key: Path
) -> None:
    fitting = [n for n, one in enumerate(chain) if _same(one.public_key(), public)]
    if not fitting:
        raise _refused(f"{KEY}: {key} is not the key of the certificate in {cert}")
    if fitting[0] != 0:
        raise _refused(
            f"{CERT}: the master's own certificate is number {fitting[0] + 1} in {cert}: put it first, "
            "then those that sign it"
        )


def _same(one: PublicKeyTypes, other: PublicKeyTypes) -> bool:
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return one.public_bytes(*form) == other.public_bytes(*form)


def _require_valid(own: x509.Certificate, cert: Path, now: datetime) -> None:
    if now >= own.not_valid_after_utc:
        since = _moment(own.not_valid_after_utc)
        raise _refused(f"{CERT}: the certificate in {cert} has expired on {since}: renew it")
    if now < own.not_valid_before_utc:
        raise _refused(
            f"{CERT}: the certificate in {cert} is valid only from {_moment(own.not_valid_before_utc)} on, "
            f"and now it is {_moment(now)}: wait, or set this machine's clock"
        )


def _context(cert: Path, key: Path) -> ssl.SSLContext:
    context = MasterContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise _refused(f"{CERT}: OpenSSL refuses {cert} with {key}: {reason}") from None
    except OSError as error:
        raise _refused(f"{CERT}: cannot read {cert} or {key}: {error.strerror}") from None
    return context


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _refused(problem: str) -> InvalidConfig:
    return InvalidConfig([problem], what="master configuration")
