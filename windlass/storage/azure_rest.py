"""Deleting one blob by Azure's REST API: obstore deletes by batches, which cannot name a blob with "/" at its end."""

from __future__ import annotations

import base64
import hmac
import logging
from email.utils import formatdate
from urllib.parse import quote, urlsplit

import httpx2

from windlass.base.errors import StorageError, StorageUnreachable
from windlass.storage.azure_account import Account
from windlass.storage.patience import Patience

log = logging.getLogger("windlass.storage")

_VERSION = "2021-08-06"


def delete_blob(account: Account, container: str, name: str, patience: Patience) -> None:
    """One that is gone is fine. With an identity instead of a key nothing can be signed here: it is left, and said."""
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


def _shared_key(account: Account, path: str, headers: dict[str, str]) -> str:
    """https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key"""
    ours = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    signed = "DELETE" + "\n" * 12 + f"{ours}/{account.name}{path}"
    digest = hmac.digest(base64.b64decode(account.key), signed.encode(), "sha256")
    return f"SharedKey {account.name}:{base64.b64encode(digest).decode()}"
