"""An HTTP proxy that is itself every host behind it, over TLS, and refuses every request."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.certificates import Issued


@contextmanager
def refusing_tls(certificate: Issued, status: str, body: bytes) -> Iterator[str]:
    """Yields its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with suppress(OSError), connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    with context.wrap_socket(connection, server_side=True) as inside:
                        inside.recv(65536)
                        inside.sendall(answer.encode() + body)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
