"""Buckets of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.storage.buckets.bucket import (
    Bucket,
    client_options,
    prefix_of,
    quoted,
    require_obstore,
    required,
    retry_config,
)
from windlass.storage.buckets.objects import ObjectStorage
from windlass.storage.buckets.problems import BucketPlace
from windlass.storage.patience import Patience

if TYPE_CHECKING:
    from obstore.store import GCSConfig, GCSCredential, GCSStore

_URL = "https://storage.googleapis.com"
_KEYS = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)


def open_gcs(
    config: Mapping[str, Any], environ: Mapping[str, str], patience: Patience
) -> ObjectStorage:
    """Credentials are Google's application default ones: the environment, `gcloud`'s login, the machine's account."""
    require_obstore("gcs")
    from obstore.store import GCSStore

    name, prefix = required(config, "bucket"), prefix_of(config)
    emulator = (environ.get("STORAGE_EMULATOR_HOST") or "").rstrip("/")
    url = emulator if "://" in emulator else emulator and f"http://{emulator}"
    options = client_options(patience, environ, url)
    settings: GCSConfig = {"base_url": url} if url else {}

    def store(bucket: str, more: GCSConfig) -> GCSStore:
        return GCSStore(
            bucket,
            config={**settings, **more},
            client_options=options,
            retry_config=retry_config(patience),
            credential_provider=_nobody if url else None,
        )

    def store_at(key: str) -> GCSStore:
        head, _, last = f"{name}/{key}".rpartition("/")
        return store(last, {"base_url": f"{url or _URL}/{quoted(head)}"})

    source = next((key for key in _KEYS if environ.get(key)), "of gcloud or of the machine")
    place = BucketPlace(f"gs://{name}/{prefix}".rstrip("/"), "bucket", source)
    return ObjectStorage(Bucket(place, store(name, {}), prefix, store_at))


def _nobody() -> GCSCredential:
    """An emulator asks for no credentials."""
    return {"token": "", "expires_at": None}
