"""Containers of Azure Blob Storage."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.storage.azure_account import Account, account_of
from windlass.storage.azure_rest import delete_blob
from windlass.storage.bucket import (
    Bucket,
    client_options,
    quoted,
    require_obstore,
    required,
    retry_config,
    shown_url,
)
from windlass.storage.objects import ObjectStorage
from windlass.storage.patience import Patience
from windlass.storage.problems import Place

if TYPE_CHECKING:
    from obstore.store import AzureConfig, AzureStore

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
    place = Place(where, "container", source)

    def delete_marker(key: str) -> None:
        delete_blob(account, container, f"{key}/", patience)

    bucket = Bucket(place, store(container, account.url), prefix, store_at, delete_marker)
    return ObjectStorage(bucket)


def _login(account: Account, environ: Mapping[str, str]) -> tuple[str, AzureConfig]:
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
