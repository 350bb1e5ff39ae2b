"""A user's connection to a master: httpx2 underneath, typed errors on top."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import DefaultCookiePolicy
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx2

from windlass.base.errors import Unauthenticated
from windlass.base.kept_connections import CLIENT_KEEPS_S
from windlass.base.tls.trust import CertificateRefused, Trust
from windlass.base.tls.words import TlsRefusal, refusal_of
from windlass.sdk.wire import (
    Json,
    MasterError,
    MasterUnreachable,
    canonical_url,
    encode,
    error_from_response,
    hash_password,
)

REQUEST_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
_LOST = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""A connection that ended before an answer: mostly a kept one, which the master was closing."""

SENT_AT_ONCE = 64 * 1024
"""Bytes of a body between two reports of progress."""

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")

Query = Mapping[str, Any]
OnRefusal = Callable[[TlsRefusal], Trust]
"""Asks the user, or raises CertificateRefused."""
OnProgress = Callable[[int, int], None]
"""Is told the bytes done and the bytes in all."""


class Session:
    """Requests to one master. Raises the errors of `windlass.base.errors`, MasterUnreachable and MasterError."""

    def __init__(
        self,
        base_url: str,
        token: str | None = None,
        *,
        trust: Trust | None = None,
        cert_name: str | None = None,
        on_refusal: OnRefusal | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """`trust`: whom to take for the master. `transport` is for tests."""
        self.url = canonical_url(base_url)
        self.token = token
        self.on_sent: OnProgress | None = None
        self._cert_name = cert_name or ""
        self._extensions = {"sni_hostname": cert_name} if cert_name else {}
        self._on_refusal = on_refusal
        self._timeout_s = timeout_s
        self._transport = transport
        self._client = self._new_client(trust)

    def _new_client(self, trust: Trust | None) -> httpx2.Client:
        self._trust = trust
        timeout = httpx2.Timeout(self._timeout_s, connect=min(self._timeout_s, CONNECT_TIMEOUT_S))
        client = httpx2.Client(
            base_url=self.url + "/",
            timeout=timeout,
            limits=httpx2.Limits(keepalive_expiry=CLIENT_KEEPS_S),
            verify=self._context(trust),
            transport=self._transport,
            follow_redirects=False,
        )
        # Who we are is in a header; a cookie of an earlier login would say it once more.
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        return client

    def _context(self, trust: Trust | None) -> ssl.SSLContext | bool:
        if not self.url.startswith("https:"):
            # Trusts nobody, and is not used: to read the authorities of the machine takes a while.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return True if trust is None else trust.context()

    def login(self, username: str, password: str) -> str:
        """Log in, use the token from now on, and return it. Raises Unauthenticated for a wrong password."""
        body = {"username": username, "password": hash_password(password), "isHashed": True}
        self.token = None
        try:
            self.token = str(self.post("/api/v1/auth/login", body)["token"])
        except Unauthenticated:
            raise Unauthenticated(
                f"Wrong user name or password for {username} at {self.url}"
            ) from None
        return self.token

    def get(self, path: str, query: Query | None = None) -> Json:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Json:
        return self.request("POST", path, body=body)

    def request(
        self, method: str, path: str, *, body: Any = None, query: Query | None = None
    ) -> Json:
        """One request, one JSON object."""
        response = self._send(lambda: self._build(method, path, body, query))
        if not response.is_success:
            raise error_from_response(
                response.status_code, response.content, request=f"{method} {path}"
            )
        if not response.content.strip():
            return {}
        try:
            return dict(response.json())
        except (ValueError, TypeError):
            raise MasterError(
                f"{self.url} answered {method} {path} with something that is not JSON: it may not be a master",
                status=response.status_code,
            ) from None

    def stream(self, path: str, query: Query | None = None) -> Iterator[Json]:
        """The items of a streaming answer, as they come. An error inside the stream is raised."""

        def build() -> httpx2.Request:
            request = self._build("GET", path, None, query)
            timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
            request.extensions["timeout"] = timeout.as_dict()
            return request

        response = self._send(build, stream=True)
        try:
            if not response.is_success:
                content = response.read()
                raise error_from_response(response.status_code, content, request=f"GET {path}")
            for line in response.iter_lines():
                if line.strip():
                    yield _stream_item(json.loads(line))
        except httpx2.TransportError as problem:
            raise self._unreachable(problem) from None
        finally:
            response.close()

    @contextmanager
    def raw(
        self, method: str, path: str, *, body: Any = None, accept: str = "*/*"
    ) -> Iterator[Iterator[bytes]]:
        """Any call: the body of its answer in pieces, as it comes, for as long as that takes."""

        def build() -> httpx2.Request:
            request = self._build(method, path, body, None)
            request.headers["Accept"] = accept
            timeout = httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S)
            request.extensions["timeout"] = timeout.as_dict()
            return request

        response = self._send(build, stream=True)
        try:
            if not response.is_success:
                content = response.read()
                raise error_from_response(response.status_code, content, request=f"{method} {path}")
            yield response.iter_bytes()
        except httpx2.TransportError as problem:
            raise self._unreachable(problem) from None
        finally:
            response.close()

    @contextmanager
    def download(self, path: str, *, accept: str) -> Iterator[Iterator[bytes]]:
        """The body of an answer in pieces, as it comes. Raises MasterUnreachable where it is cut short."""
        request = self._build("GET", path, None, None)
        request.headers["Accept"] = accept
        try:
            response = self._client.send(request, stream=True)
            try:
                if not response.is_success:
                    content = response.read()
                    raise error_from_response(response.status_code, content, request=f"GET {path}")
                yield response.iter_raw()
            finally:
                response.close()
        except httpx2.TransportError as problem:
            raise self._unreachable(problem) from None

    @property
    def tls(self) -> ssl.SSLContext | None:
        """For other connections to the same master; None without TLS."""
        if not self.url.startswith("https:"):
            return None
        return self._trust.context() if self._trust is not None else ssl.create_default_context()

    @property
    def cert_name(self) -> str:
        """The name that the master's certificate must be for; empty: that of its URL."""
        return self._cert_name

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _send(
        self, build: Callable[[], httpx2.Request], *, stream: bool = False
    ) -> httpx2.Response:
        """Once more if the certificate was refused, nothing was sent, and the user trusts it now."""
        try:
            return self._sent(build, stream=stream)
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            trust = self._trust_after(problem)
            if trust is None:
                raise self._unreachable(problem) from None
        self._client.close()
        self._client = self._new_client(trust)
        try:
            return self._client.send(build(), stream=stream)
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            self._trust_after(problem)
            raise self._unreachable(problem) from None

    def _sent(self, build: Callable[[], httpx2.Request], *, stream: bool) -> httpx2.Response:
        """Once more if the connection was lost, for what only reads."""
        request = build()
        try:
            return self._client.send(request, stream=stream)
        except _LOST:
            if request.method != "GET":
                raise
        return self._client.send(build(), stream=stream)

    def _trust_after(self, problem: Exception) -> Trust | None:
        """None: it is not about a certificate. Raises CertificateRefused."""
        if not self.url.startswith("https:"):
            return None
        parts = urlsplit(self.url)
        refusal = refusal_of(problem, parts.hostname or "", parts.port or 443, name=self._cert_name)
        if refusal is None:
            return None
        if self._on_refusal is None:
            raise CertificateRefused(f"Cannot connect to master at {self.url}: {refusal.sentence}")
        return self._on_refusal(refusal)

    def _build(self, method: str, path: str, body: Any, query: Query | None) -> httpx2.Request:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        content: bytes | Iterator[bytes] | None = None
        if body is not None:
            encoded = content = encode(body)
            headers["Content-Type"] = "application/json"
            if self.on_sent is not None:
                headers["Content-Length"] = str(len(encoded))
                content = _reported(encoded, self.on_sent)
        return self._client.build_request(
            method,
            path.lstrip("/"),
            content=content,
            params=_query(query),
            headers=headers,
            extensions=dict(self._extensions),
        )

    def _unreachable(self, problem: Exception) -> MasterUnreachable:
        reason = _ERRNO.sub("", str(problem)) or type(problem).__name__
        return MasterUnreachable(
            f"Cannot connect to master at {self.url}: {reason}. Set its URL with -m URL or DET_MASTER, "
            "or start one: `det deploy local cluster-up`, on a login node `windlass hpc up`"
        )


def _query(query: Query | None) -> dict[str, Any] | None:
    """None means "not given"; booleans travel as true and false."""
    if query is None:
        return None
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }


def _reported(content: bytes, report: OnProgress) -> Iterator[bytes]:
    for start in range(0, len(content), SENT_AT_ONCE):
        yield content[start : start + SENT_AT_ONCE]
        report(min(start + SENT_AT_ONCE, len(content)), len(content))


def _stream_item(document: Json) -> Json:
    error = document.get("error")
    if error is not None:
        content = json.dumps(error).encode()
        raise error_from_response(int(error.get("httpCode") or 500), content, request="the stream")
    return dict(document.get("result") or {})
