"""The task's own line to the master: small, thread-safe, standard library only, and patient.

A training process must outlive a restart of the master, so connection errors and "not now" answers are tried again
for minutes. By contract every POST of a task may be repeated. What only some need (TLS, logging) is imported by them:
every task waits for the rest.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from windlass.base.errors import WindlassError
from windlass.base.kept_connections import CLIENT_KEEPS_S
from windlass.core._info import ClusterInfo
from windlass.sdk.wire import (
    ALLOCATION_TOKEN_HEADER,
    RETRY_STATUSES,
    Json,
    MasterUnreachable,
    canonical_url,
    encode,
    error_from_response,
)

if TYPE_CHECKING:
    import logging

DEFAULT_TIMEOUT_S = 60.0
"""How long one answer may take. Long polls and barriers pass their own."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long one request is tried again, and how fast. `total_s` counts the pauses, not the requests."""

    total_s: float = 600.0
    first_delay_s: float = 0.5
    max_delay_s: float = 10.0
    """Short, so that work goes on soon after the master is back."""
    statuses: frozenset[int] = RETRY_STATUSES

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> RetryPolicy:
        """Read DET_RETRY_CONFIG (urllib3's names): `total` attempts and `backoff_factor` give the total time."""
        text = environ.get("DET_RETRY_CONFIG")
        if not text:
            return cls()
        config = json.loads(text)
        factor = float(config.get("backoff_factor", 0.5))
        cap = float(config.get("backoff_max", 120.0))
        attempts = int(config.get("total", 20))
        return cls(
            total_s=sum(min(cap, factor * 2**n) for n in range(min(attempts, 64))),
            first_delay_s=max(factor, 0.05),
            statuses=frozenset(config.get("status_forcelist") or RETRY_STATUSES),
        )

    def delays(self) -> Iterator[float]:
        spent, delay = 0.0, self.first_delay_s
        while spent + delay <= self.total_s:
            yield delay
            spent += delay
            delay = min(self.max_delay_s, delay * 2)


class TaskSession:
    """Requests in the name of one allocation. One kept connection per thread; any thread may call."""

    def __init__(
        self,
        master_url: str,
        token: str,
        *,
        cert_file: str | None = None,
        cert_name: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.master_url = canonical_url(master_url)
        parts = urlsplit(self.master_url)
        self._secure = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path
        self._headers = {ALLOCATION_TOKEN_HEADER: f"Bearer {token}"}
        self._tls = (cert_file, cert_name)
        self._retry = retry or RetryPolicy()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = threading.Event()

    @classmethod
    def for_task(cls, info: ClusterInfo) -> TaskSession:
        return cls(
            info.master_url,
            info.session_token,
            cert_file=info.master_cert_file,
            cert_name=info.master_cert_name,
            retry=RetryPolicy.from_env(os.environ),
        )

    def get(self, path: str, **query: str | int) -> Json:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Json:
        return self.request("POST", path, body=body)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str | int] | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        retry: bool = True,
    ) -> Json:
        """Ask until there is an answer. Returns its JSON object; raises the typed error of a refusal.

        `timeout_s=None` waits for ever, for barriers. MasterUnreachable and MasterError come only after all retries.
        """
        payload = None if body is None else encode(body)
        target = self._prefix + quote(path) + (f"?{urlencode(query)}" if query else "")
        delays = self._retry.delays() if retry else iter(())
        failing = False
        while True:
            try:
                status, data = self._exchange(method, target, payload, timeout_s)
            except (OSError, http.client.HTTPException) as problem:
                why = self._refusal(problem) or problem or type(problem).__name__
                failure: WindlassError = MasterUnreachable(
                    f"the master at {self.master_url} does not answer: {why}"
                )
            else:
                if 200 <= status < 300:
                    if failing:
                        _log().info("the master at %s answers again", self.master_url)
                    return json.loads(data) if data.strip() else {}
                failure = error_from_response(status, data, request=f"{method} {path}")
                if status not in self._retry.statuses:
                    raise failure
            delay = next(delays, None)
            if delay is None or self._closed.wait(delay):
                raise failure
            if not failing:
                _log().warning("%s; trying again for up to %.0f s", failure, self._retry.total_s)
            failing = True

    def close(self) -> None:
        """Break all connections. Requests under way in other threads fail at once."""
        self._closed.set()
        with self._lock:
            connections, self._open = self._open, set()
            for connection in connections:
                if connection not in self._busy:
                    connection.close()
                elif connection.sock is not None:
                    # Its thread is reading: that wakes up now and cleans up itself.
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def _refusal(self, problem: Exception) -> str:
        """Why the master's certificate is not accepted, if that is it. It may be renewed: that is worth another try."""
        if not self._secure:
            return ""
        from windlass.core import _secure

        cert_file, name = self._tls
        return _secure.refusal(problem, self._host, self._port, cert_file, name)

    def _exchange(
        self, method: str, target: str, payload: bytes | None, timeout_s: float | None
    ) -> tuple[int, bytes]:
        connection, kept = self._connection(timeout_s)
        try:
            return self._send(connection, method, target, payload)
        except BaseException as problem:
            self._drop(connection)
            if not (kept and self._is_closed_by_peer(problem)):
                raise
        # The master may have closed it while it was idle: that is no failure, and every request may be repeated.
        connection, _ = self._connection(timeout_s)
        try:
            return self._send(connection, method, target, payload)
        except BaseException:
            self._drop(connection)
            raise

    def _is_closed_by_peer(self, problem: BaseException) -> bool:
        if isinstance(problem, ConnectionError):  # RemoteDisconnected is one
            return True
        if not self._secure:
            return False
        from windlass.core import _secure

        return isinstance(problem, _secure.CLOSED_BY_PEER)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        payload: bytes | None,
    ) -> tuple[int, bytes]:
        headers = dict(self._headers)
        if payload is not None:
            headers["Content-Type"] = "application/json"
        with self._lock:
            self._busy.add(connection)
        try:
            connection.request(method, target, body=payload, headers=headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            with self._lock:
                self._busy.discard(connection)
        self._local.used_at = time.monotonic()
        if response.will_close or self._closed.is_set():
            self._drop(connection)
        return response.status, data

    def _connection(self, timeout_s: float | None) -> tuple[http.client.HTTPConnection, bool]:
        """This thread's connection, and whether it was used before."""
        if self._closed.is_set():
            raise ConnectionAbortedError("the session is closed")
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None and time.monotonic() > self._local.used_at + CLIENT_KEEPS_S:
            self._drop(connection)
            connection = None
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(timeout_s)
            return connection, True
        connection = self._new_connection(timeout_s)
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with self._lock:
            self._open.add(connection)
        self._local.connection = connection
        return connection, False

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._lock:
            self._open.discard(connection)
        self._local.connection = None

    def _new_connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        from windlass.core import _secure

        cert_file, cert_name = self._tls
        return _secure.connection(self._host, self._port, timeout_s, cert_file, cert_name)


def _log() -> logging.Logger:
    import logging

    return logging.getLogger("windlass.core")
