"""Containers of Azure Blob Storage."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from windlass.base.errors import InvalidConfig
from windlass.storage.bucket import (
    Bucket,
    client_options,
    is_http_url,
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

_EMULATOR_ACCOUNT = "devstoreaccount1"
_EMULATOR_KEY = (  # the published one of every emulator
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_EMULATOR_URL = f"http://127.0.0.1:10000/{_EMULATOR_ACCOUNT}"
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


@dataclass(frozen=True, slots=True)
class Account:
    url: str
    """Of its blobs."""
    name: str
    key: str = ""
    signature: str = ""
    """A shared access signature, without "?"."""


def open_azure(
    config: Mapping[str, Any], environ: Mapping[str, str], patience: Patience
) -> ObjectStorage:
    require_obstore("azure")
    from obstore.store import AzureStore

    container, _, prefix = required(config, "container").partition("/")
    account = _account(config)
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
    return ObjectStorage(Bucket(place, store(container, account.url), prefix, store_at))


def _account(config: Mapping[str, Any]) -> Account:
    text, url = config.get("connection_string"), config.get("account_url")
    if bool(text) == bool(url):
        raise _invalid("exactly one of connection_string and account_url must be set")
    if text:
        return parse_connection_string(str(text))
    if not is_http_url(str(url)):
        raise _invalid("account_url: is no URL that begins with https:// or http://")
    parts = urlsplit(str(url))
    account = Account(f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), _name(str(url)))
    credential = str(config.get("credential") or parts.query)
    if not credential:
        return account
    if "sig=" in credential:
        return Account(account.url, account.name, signature=credential.lstrip("?"))
    return Account(account.url, account.name, key=credential)


def parse_connection_string(text: str) -> Account:
    """As Azure's portal gives it: `AccountName=...;AccountKey=...;...`. Raises InvalidConfig, without the secret."""
    pairs = [part.partition("=") for part in text.strip().strip(";").split(";")]
    values = {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}
    if values.get("usedevelopmentstorage", "").lower() == "true":
        return Account(_EMULATOR_URL, _EMULATOR_ACCOUNT, _EMULATOR_KEY)
    url, name = values.get("blobendpoint", "").rstrip("/"), values.get("accountname", "")
    if not url and name:
        scheme = values.get("defaultendpointsprotocol") or "https"
        url = f"{scheme}://{name}.blob.{values.get('endpointsuffix') or 'core.windows.net'}"
    signature = values.get("sharedaccesssignature", "").lstrip("?")
    key = values.get("accountkey", "")
    if not is_http_url(url) or not (key or signature):
        raise _invalid(
            "connection_string: needs AccountName and AccountKey, or BlobEndpoint and SharedAccessSignature "
            "(copy it whole from the storage account's page, `Access keys`)"
        )
    return Account(url, name or _name(url), key, "" if key else signature)


def _name(url: str) -> str:
    """The account of a URL: the first part of the host, or of the path where the host is an address."""
    parts = urlsplit(url)
    first = (parts.hostname or "").split(".")[0]
    path = parts.path.strip("/").split("/")[0]
    return path if path and (first.isdigit() or first == "localhost") else first


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


def _invalid(problem: str) -> InvalidConfig:
    return InvalidConfig([problem], what="checkpoint_storage")
