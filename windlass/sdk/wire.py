"""What every client of the REST API shares, whatever HTTP library carries it: URLs, JSON numbers, errors.

Standard library only, because training processes import it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from windlass.base.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    WindlassError,
)

Json: TypeAlias = dict[str, Any]
"""One JSON object of the REST contract, as it came over the wire."""

ALLOCATION_TOKEN_HEADER = "Grpc-Metadata-x-allocation-token"  # noqa: S105 - the name of a header
RETRY_STATUSES = frozenset({429, 502, 503, 504})
"""Answers that mean "not now": asking again may succeed."""
MAX_ERROR_TEXT = 2000
"""An HTML error page of some proxy must not flood a terminal."""
_PASSWORD_SALT = "GubPEmmotfiK9TMD6Zdw"  # noqa: S105 - public: every client of the API has it


def hash_password(password: str) -> str:
    """What goes over the wire instead of the password. The empty password stays empty."""
    if not password:
        return ""
    return hashlib.sha512((_PASSWORD_SALT + password).encode()).hexdigest()


class MasterUnreachable(WindlassError):
    """Nothing answered at the master's address, or the connection broke."""

    code = "master_unreachable"


class MasterError(WindlassError):
    """The master answered that it failed. `status` is the HTTP status."""

    code = "master_error"

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class RemoteNotFound(NotFound):
    """A 404, with the master's own sentence."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
        self.kind = "resource"
        self.id = None


def canonical_url(url: str) -> str:
    """`host`, `host:port` or a full URL as scheme://host:port[/prefix]. Raises InvalidArgument if it cannot be one."""
    text = url.strip()
    explicit = text.startswith(("http://", "https://"))
    if not explicit and "://" in text:
        raise InvalidArgument(f'"{url}" is not a master URL: use http or https')
    try:
        parts = urlsplit(text if explicit else f"http://{text}")
    except ValueError as error:
        raise InvalidArgument(f'"{url}" is not a master URL: {error}') from None
    try:
        port = parts.port
    except ValueError:
        raise InvalidArgument(f'"{url}" is not a master URL: the port is not a number') from None
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InvalidArgument(
            f'"{url}" is not a master URL: expected http://host:8080, without user, ? or #'
        )
    default = 443 if parts.scheme == "https" else 80 if explicit else 8080
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port or default}{parts.path.rstrip('/')}"


def to_wire(value: Any) -> Any:
    """A copy that JSON can carry: NaN and infinities as strings, numbers and arrays of numpy or torch as plain ones.

    Raises TypeError for values that have no JSON form.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): to_wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_wire(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8")
    for convert in ("tolist", "item", "isoformat"):
        method = getattr(value, convert, None)
        if callable(method):
            return to_wire(method())
    raise TypeError(f"{type(value).__name__} has no JSON form: {value!r}")


def encode(body: Any) -> bytes:
    return json.dumps(to_wire(body), allow_nan=False).encode()


def error_text(body: bytes) -> str:
    """The master's sentence in any of the shapes the contract knows, else the raw text."""
    text = body.decode("utf-8", "replace").strip()[:MAX_ERROR_TEXT]
    try:
        document = json.loads(body)
    except ValueError:
        return text
    if not isinstance(document, dict):
        return text
    error = document.get("error")
    found = document.get("message")
    if isinstance(error, dict):
        found = found or error.get("error") or error.get("message")
    elif isinstance(error, str):
        found = found or error
    return str(found or text)


def error_from_response(status: int, body: bytes, *, request: str) -> WindlassError:
    """The typed error for an answer that is not a 2xx. `request` ("GET /api/v1/me") is named where it helps."""
    text = error_text(body) or f"{request} was answered with HTTP {status}"
    match status:
        case 401:
            return Unauthenticated(text)
        case 403:
            return PermissionDenied(text)
        case 404:
            return RemoteNotFound(text)
        case 409:
            return Conflict(text)
        case 400 | 413 | 422:
            return InvalidArgument(text)
        case _:
            return MasterError(f"{request} failed with HTTP {status}: {text}", status=status)
