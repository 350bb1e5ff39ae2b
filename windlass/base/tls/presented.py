"""The certificates that somebody presents, whoever that is. Nothing is sent to them."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from windlass.base.tls.fingerprints import certificates_in, to_pem
from windlass.base.tls.trust import unverified_context

TIMEOUT_S = 10.0


def presented_chain(
    host: str, port: int, *, name: str = "", timeout_s: float = TIMEOUT_S
) -> tuple[bytes, ...]:
    """In DER form, the peer's own first. `name`: the host to ask for. Raises OSError, ssl.SSLError among it."""
    with (
        socket.create_connection((host, port), timeout=timeout_s) as plain,
        unverified_context().wrap_socket(plain, server_hostname=name or host) as secure,
    ):
        return _chain(secure)


def _chain(secure: ssl.SSLSocket) -> tuple[bytes, ...]:
    """Public from Python 3.13 on; before, the same method is on the inner object only."""
    inner: Any = secure if hasattr(secure, "get_unverified_chain") else secure._sslobj  # type: ignore[attr-defined]
    found = [_der(one) for one in inner.get_unverified_chain() or ()]
    return tuple(found) or (secure.getpeercert(binary_form=True) or b"",)


def _der(certificate: Any) -> bytes:
    if isinstance(certificate, bytes):
        return certificate
    return certificates_in(certificate.public_bytes().encode())[0]


def names_in(host: str, port: int, chain: tuple[bytes, ...]) -> tuple[str, ...]:
    """The names in the certificate that is presented there; none if it cannot be verified even by itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=to_pem(chain[0]))
    try:
        with (
            socket.create_connection((host, port), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            found = secure.getpeercert() or {}
    except OSError:
        return ()
    named: Any = found.get("subjectAltName", ())
    return tuple(str(value) for _, value in named)
