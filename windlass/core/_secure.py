"""The task's line to a master with TLS."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

from windlass.base.tls.trust import NO_VERIFY, Trust, read_certificates
from windlass.base.tls.words import refusal_of

CLOSED_BY_PEER = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""With a goodbye or without one. Neither is a ConnectionError."""


def connection(
    host: str, port: int | None, timeout_s: float | None, cert_file: str | None, name: str | None
) -> http.client.HTTPSConnection:
    """Not connected yet. `name`: the one in the certificate, where that is not the host."""
    return _NamedHTTPSConnection(
        host, port, timeout=timeout_s, context=tls_context(cert_file), server_name=name or host
    )


def refusal(
    problem: Exception, host: str, port: int | None, cert_file: str | None, name: str | None
) -> str:
    """Why the certificate is not accepted, if that is the problem."""
    found = refusal_of(problem, host, port or 443, name=name or "", ask=False)
    if found is None:
        return ""
    trusts = f"DET_MASTER_CERT_FILE={cert_file}" if cert_file else "public authorities"
    return f"{found.sentence}; this task trusts {trusts}"


def tls_context(cert_file: str | None) -> ssl.SSLContext:
    """The public roots plus what is in the file; "noverify" trusts anybody, as in DET_MASTER_CERT_FILE.

    Raises InvalidArgument for a file that cannot be read.
    """
    if not cert_file:
        return Trust().context()
    if cert_file.lower() == NO_VERIFY:
        return Trust(verify=False).context()
    return Trust(pem=read_certificates(Path(cert_file), "DET_MASTER_CERT_FILE")).context()


class _NamedHTTPSConnection(http.client.HTTPSConnection):
    """HTTPS to a host whose certificate carries another name (DET_MASTER_CERT_NAME)."""

    def __init__(
        self,
        host: str,
        port: int | None,
        *,
        timeout: float | None,
        context: ssl.SSLContext,
        server_name: str,
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls_context = context
        self._server_name = server_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls_context.wrap_socket(self.sock, server_hostname=self._server_name)
