"""Whom a client or an agent takes for the master, as a context of `ssl`."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.base.errors import InvalidArgument, PermissionDenied
from windlass.base.tls.fingerprints import certificates_in, fingerprint_of, to_pem

NO_VERIFY = "noverify"
"""In DET_MASTER_CERT_FILE, instead of a file."""


class CertificateRefused(PermissionDenied):
    """Whoever answers at the master's address has not shown a certificate that we trust."""

    code = "certificate_refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Without anything given: the authorities of this machine."""

    pem: str = ""
    """Certificates to trust: of authorities, or the master's own."""
    alone: bool = False
    """Trust no others than those in `pem`."""
    verify: bool = True
    """False: trust anybody."""

    def context(self) -> ssl.SSLContext:
        """Raises ValueError for a `pem` without a certificate that can be read."""
        if not self.verify:
            return unverified_context()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not self.alone:
            context.load_default_certs()
        if self.pem:
            # Also one that is signed by another may be trusted by itself: the default from Python 3.13 on.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            try:
                context.load_verify_locations(cadata=self.pem)
            except ssl.SSLError as error:
                raise ValueError(
                    f"no certificate that can be read ({error.reason or error})"
                ) from None
        return context


def unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def read_certificates(path: Path, what: str) -> str:
    """A PEM file. Raises InvalidArgument, which begins with `what` ("DET_MASTER_CERT_FILE")."""
    try:
        content = path.read_bytes()
        found = certificates_in(content)
    except OSError as error:
        raise InvalidArgument(f"{what} {path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidArgument(f"{what} {path}: a certificate in it is damaged: {error}") from None
    if not found:
        raise InvalidArgument(f"{what} {path} holds no certificate in PEM form")
    return "".join(map(to_pem, found))


def pinned(chain: Sequence[bytes], fingerprints: Sequence[str], at: str) -> Trust:
    """Trust in the certificate of a chain, as somebody presented it, that has one of the fingerprints.

    It may be the master's own, or one that signs it. Raises CertificateRefused if the chain has none of them.
    """
    shown = [fingerprint_of(der) for der in chain]
    for der, fingerprint in zip(chain, shown, strict=True):
        if fingerprint in fingerprints:
            return Trust(pem=to_pem(der), alone=True)
    raise CertificateRefused(
        f"the certificate at {at} is not the expected one: expected {' or '.join(fingerprints)}, "
        f"got {', signed by '.join(shown)}. Either it was replaced (then give the new fingerprint, which "
        "`windlass master certificate` prints on the master's machine), or something else answers there"
    )
