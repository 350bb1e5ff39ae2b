"""Names of buckets that no service has: refused at submission and in master.yaml; a bucket that is missing may come."""

from __future__ import annotations

import re
from collections.abc import Iterator

from master.core.expconf.models.storage import (
    AzureStorage,
    CheckpointStorage,
    GcsStorage,
    S3Storage,
)

_PLAIN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
"""Amazon takes less in new buckets; old ones and other servers have these."""
_GOOGLE = re.compile(r"[a-z0-9]([a-z0-9._-]{0,220}[a-z0-9])?")
_AZURE = re.compile(r"\$root|[a-z0-9](-?[a-z0-9]){0,62}")
_URL = re.compile(r"https?://[^/\s]+(/\S*)?")


def name_problems(storage: CheckpointStorage, where: str) -> Iterator[str]:
    """One line each; `where` is the path of the section. A URL's query, which may hold a secret, is not shown."""
    for key, wrong in _wrong_values(storage):
        shown = str(getattr(storage, key)).partition("?")[0]
        yield f"{where}.{key}: {shown!r} {wrong}"


def _wrong_values(storage: CheckpointStorage) -> Iterator[tuple[str, str]]:
    if isinstance(storage, S3Storage):
        if not _PLAIN.fullmatch(storage.bucket):
            yield "bucket", _bucket("letters")
        if storage.endpoint_url is not None and not _URL.fullmatch(storage.endpoint_url):
            yield "endpoint_url", "is no URL: it begins with https:// or http://, then a host"
    if isinstance(storage, GcsStorage) and not _GOOGLE.fullmatch(storage.bucket):
        yield "bucket", _bucket("lower-case letters")
    if isinstance(storage, AzureStorage):
        if not _AZURE.fullmatch(storage.container):
            yield (
                "container",
                "is not the name of a container: it has only lower-case letters, digits and single '-'",
            )
        if storage.account_url is not None and not _URL.fullmatch(storage.account_url):
            yield "account_url", "is no URL: it begins with https:// or http://, then a host"


def _bucket(letters: str) -> str:
    return f"is not the name of a bucket: it has only {letters}, digits, '.', '-' and '_'; folders go into `prefix`"
