"""A bucket of Google Cloud Storage for Terraform's states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.gcp.session import GcpSession
from windlass.deploy.cloud.state_bucket import LABELS

_TIMEOUT_S = 60


class GcpBucket:
    def __init__(
        self, name: str, *, project: str = "", region: str = "", keypath: Path | None = None
    ) -> None:
        self.name = name
        self._project, self._region = project, region
        self._google = GcpSession(keypath=keypath)
        self._session, self._url = self._google.storage()

    def exists(self) -> bool:
        return self._asked("use", "get", f"{self._url}/{self.name}") is not None

    def make(self) -> None:
        if self.exists():
            return
        bucket = {
            "name": self.name,
            "location": self._region,
            "labels": LABELS,
            "versioning": {"enabled": True},
            "iamConfiguration": {
                "publicAccessPrevention": "enforced",
                "uniformBucketLevelAccess": {"enabled": True},
            },
        }
        self._asked("make", "post", self._url, params={"project": self._project}, json=bucket)

    def backend(self, folder: str) -> Mapping[str, Any]:
        return {"gcs": {"bucket": self.name, "prefix": folder}}

    def read(self, key: str) -> bytes | None:
        reply = self._asked("read", "get", self._object(key), params={"alt": "media"})
        return None if reply is None else bytes(reply.content)

    def write(self, key: str, data: bytes) -> None:
        place = f"{self._url.replace('/storage/v1/', '/upload/storage/v1/')}/{self.name}/o"
        more = {"uploadType": "media", "name": key}
        if self._asked("write to", "post", place, params=more, data=data) is None:
            raise ProviderError(f"Cannot write to bucket {self.name}: there is none")

    def remove(self, prefix: str) -> None:
        for key in self.keys(prefix):
            self._asked("remove from", "delete", self._object(key))

    def keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        more: dict[str, str] = {"prefix": prefix}
        while True:
            reply = self._asked("list", "get", f"{self._url}/{self.name}/o", params=more)
            page = {} if reply is None else reply.json()
            found += [each["name"] for each in page.get("items", ())]
            if not page.get("nextPageToken"):
                return found
            more["pageToken"] = page["nextPageToken"]

    def _object(self, key: str) -> str:
        return f"{self._url}/{self.name}/o/{quote(key, safe='')}"

    def _asked(self, doing: str, method: str, url: str, **more: Any) -> Any:
        """The reply; None: no such thing."""
        with self._google.doing(f"{doing} bucket {self.name}"):
            reply = self._session.request(method, url, timeout=_TIMEOUT_S, **more)
        if reply.status_code == 404:
            return None
        if reply.status_code == 403:
            raise ProviderError(
                f"Bucket {self.name} belongs to somebody else, or you may not {doing} it: choose another name, or ask "
                f"for the role Storage Admin on it: {_said(reply)}"
            )
        if not reply.ok:
            raise ProviderError(f"Cannot {doing} bucket {self.name}: {_said(reply)}")
        return reply


def _said(reply: Any) -> str:
    try:
        return " ".join(str(reply.json()["error"]["message"]).split())
    except (ValueError, KeyError, TypeError):
        return f"HTTP {reply.status_code}"
