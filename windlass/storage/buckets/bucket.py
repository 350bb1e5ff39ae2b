"""A bucket that is ready to use, whosever it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from windlass.base.errors import InvalidConfig, StorageError
from windlass.storage.buckets.problems import BucketPlace
from windlass.storage.patience import Patience

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig  # noqa: TC004 - annotations only

_CA_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
"""Where other clients look for the certificate of a private authority, too."""


@dataclass(frozen=True, slots=True)
class Bucket:
    place: BucketPlace
    store: ObjectStore
    """Of the whole bucket."""
    prefix: str
    """Before every key, without "/" at its ends."""
    store_at: Callable[[str], ObjectStore]
    """A store whose object "" is the key with "/" at its end: obstore cannot name such a key, and the published client
    writes one for every directory."""
    delete_marker: Callable[[str], None] | None = None
    """Deletes the key with "/" at its end where `store_at` cannot."""

    def key(self, folder: str) -> str:
        return f"{self.prefix}/{folder}" if self.prefix else folder


def require_obstore(kind: str) -> None:
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise StorageError(
            f"checkpoint storage of type {kind} needs the package obstore: install it where this runs "
            "(pip install 'windlass-cluster[storage]', or pip install obstore)"
        ) from None


def required(config: Mapping[str, Any], key: str) -> str:
    value = str(config.get(key) or "").strip("/")
    if not value:
        raise InvalidConfig([f"{key}: is required"], what="checkpoint_storage")
    return value


def prefix_of(config: Mapping[str, Any]) -> str:
    """As the published client has it."""
    prefix = str(config.get("prefix") or "")
    parts = [part for part in prefix.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidConfig([f"prefix: {prefix!r} cannot contain /../"], what="checkpoint_storage")
    return "/".join(parts)


def quoted(key: str) -> str:
    """A key in a URL, as obstore writes it."""
    return quote(key, safe="/~")


def client_options(patience: Patience, environ: Mapping[str, str], url: str) -> ClientConfig:
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=patience.connect_s),
        "timeout": timedelta(seconds=patience.request_s),
        "allow_http": url.startswith("http://"),
    }
    for name in _CA_VARIABLES:
        if (path := environ.get(name)) and Path(path).is_file():
            options["root_certificate"] = Path(path).read_bytes()
            break
    return options


def retry_config(patience: Patience) -> RetryConfig:
    return {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=patience.retry_for_s),
    }


def shown_url(url: str) -> str:
    """For people: without a password or a signature that it may hold."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def is_http_url(text: str) -> bool:
    return re.match(r"https?://[^/\s]+", text) is not None
