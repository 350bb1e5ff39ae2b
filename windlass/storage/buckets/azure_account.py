"""Which account of Azure a `checkpoint_storage` section means, and with what to log in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from windlass.base.errors import InvalidConfig
from windlass.storage.buckets.bucket import is_http_url

_EMULATOR_ACCOUNT = "devstoreaccount1"
_EMULATOR_KEY = (  # the published one of every emulator
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_EMULATOR_URL = f"http://127.0.0.1:10000/{_EMULATOR_ACCOUNT}"


@dataclass(frozen=True, slots=True)
class AzureAccount:
    url: str
    """Of its blobs."""
    name: str
    key: str = field(default="", repr=False)
    signature: str = field(default="", repr=False)
    """A shared access signature, without "?"."""


def account_of(config: Mapping[str, Any]) -> AzureAccount:
    text, url = config.get("connection_string"), config.get("account_url")
    if bool(text) == bool(url):
        raise _invalid("exactly one of connection_string and account_url must be set")
    if text:
        return parse_connection_string(str(text))
    if not is_http_url(str(url)):
        raise _invalid("account_url: is no URL that begins with https:// or http://")
    parts = urlsplit(str(url))
    account = AzureAccount(
        f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), _name(str(url))
    )
    credential = str(config.get("credential") or parts.query)
    if not credential:
        return account
    if "sig=" in credential:
        return AzureAccount(account.url, account.name, signature=credential.lstrip("?"))
    return AzureAccount(account.url, account.name, key=credential)


def parse_connection_string(text: str) -> AzureAccount:
    """As Azure's portal gives it: `AccountName=...;AccountKey=...;...`. Raises InvalidConfig, without the secret."""
    pairs = [part.partition("=") for part in text.strip().strip(";").split(";")]
    values = {key.strip().lower(): value.strip() for key, equals, value in pairs if equals}
    if values.get("usedevelopmentstorage", "").lower() == "true":
        return AzureAccount(_EMULATOR_URL, _EMULATOR_ACCOUNT, _EMULATOR_KEY)
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
    return AzureAccount(url, name or _name(url), key, "" if key else signature)


def _name(url: str) -> str:
    """The account of a URL: the first part of the host, or of the path where the host is an address."""
    parts = urlsplit(url)
    first = (parts.hostname or "").split(".")[0]
    path = parts.path.strip("/").split("/")[0]
    return path if path and (first.isdigit() or first == "localhost") else first


def _invalid(problem: str) -> InvalidConfig:
    return InvalidConfig([problem], what="checkpoint_storage")
