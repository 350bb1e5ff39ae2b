"""Containers of Azure Blob Storage."""

from __future__ import annotations

import base64
import hmac
import logging
import shutil
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx2

from windlass.base.errors import StorageError, StorageUnreachable
from windlass.storage.buckets.azure_account import AzureAccount, account_of
from windlass.storage.buckets.bucket import (
    Bucket,
    client_options,
    quoted,
    require_obstore,
    required,
    retry_config,
    shown_url,
)
from windlass.storage.buckets.objects import ObjectStorage
from windlass.storage.buckets.problems import BucketPlace
from windlass.storage.patience import Patience

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureStore

log = logging.getLogger("windlass.storage")

_VERSION = "2021-08-06"
_IDENTITIES = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
    "AZURE_USE_AZURE_CLI",
)


def open_azure(
    config: Mapping[str, Any], environ: Mapping[str, str], patience: Patience
) -> ObjectStorage:
    require_obstore("azure")
    from obstore.store import AzureStore

    container, _, prefix = required(config, "container").partition("/")
    account = account_of(config)
    source, login = _login(account, environ)
    options = client_options(patience, environ, account.url)

    def store(name: str, url: str) -> AzureStore:
        settings: AzureConfig = {"account_name": account.name, "endpoint": url, **login}
        return AzureStore(
            name,
            config=settings,
            client_options=options,
            retry_config=retry_config(patience),
        )

    def store_at(key: str) -> AzureStore:
        head, _, last = f"{container}/{key}".rpartition("/")
        return store(f"{last}/", f"{account.url}/{quoted(head)}")

    where = shown_url(f"{account.url}/{container}/{prefix}")
    place = BucketPlace(where, "container", source)

    def delete_marker(key: str) -> None:
        _delete_blob(account, container, f"{key}/", patience)

    bucket = Bucket(place, store(container, account.url), prefix, store_at, delete_marker)
    return ObjectStorage(bucket)


def _login(account: AzureAccount, environ: Mapping[str, str]) -> tuple[str, AzureConfig]:
    if account.key:
        return "checkpoint_storage", {
            "account_key": account.key,
            "credential_type": "access_key",
        }
    if account.signature:
        return "checkpoint_storage", {
            "sas_key": account.signature,
            "credential_type": "sas_token",
        }
    if any(environ.get(name) for name in _IDENTITIES):
        return "the environment", {}
    if shutil.which("az") and (Path.home() / ".azure").is_dir():
        return "the login of az", {"use_azure_cli": True}
    return "the identity of the machine", {}


def _delete_blob(account: AzureAccount, container: str, name: str, patience: Patience) -> None:
    """By the REST API: obstore deletes by batches, which cannot name a blob with "/" at its end.

    One that is gone is fine. With an identity instead of a key nothing can be signed here: it is left, and said.
    """
    url = f"{account.url}/{container}/{quote(name, safe='/~')}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
    if account.key:
        headers["Authorization"] = _shared_key(account, urlsplit(url).path, headers)
    elif account.signature:
        url += f"?{account.signature}"
    else:
        log.warning("%s/%s: the empty blob of a directory is left behind", container, name)
        return
    try:
        answer = httpx2.delete(url, headers=headers, timeout=patience.request_s)
    except httpx2.HTTPError:
        raise StorageUnreachable(f"{account.url}/{container}/{name}: no answer") from None
    if answer.status_code not in (202, 404):
        code = answer.headers.get("x-ms-error-code") or answer.status_code
        raise StorageError(f"{account.url}/{container}/{name}: could not be deleted ({code})")


def _shared_key(account: AzureAccount, path: str, headers: dict[str, str]) -> str:
    """https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key"""
    ours = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    signed = "DELETE" + "\n" * 12 + f"{ours}/{account.name}{path}"
    digest = hmac.digest(base64.b64decode(account.key), signed.encode(), "sha256")
    return f"SharedKey {account.name}:{base64.b64encode(digest).decode()}"
