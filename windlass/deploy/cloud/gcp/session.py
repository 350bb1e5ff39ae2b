"""Google's clients for the person who deploys. Their library is of the extra `gcp`, and imported only here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from windlass.deploy.cloud.session import CloudSession, missing

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_STORAGE = "https://storage.googleapis.com/storage/v1/b"
_OTHER_STORAGE = "GOOGLE_STORAGE_CUSTOM_ENDPOINT"
"""Variables that Terraform's backend reads, too."""
_TOKEN = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - a name


class GcpSession(CloudSession):
    def __init__(self, *, keypath: Path | None = None) -> None:
        try:
            from google.api_core import exceptions
            from google.auth import exceptions as logins
            from google.cloud import compute_v1
        except ImportError:
            raise missing("gcp") from None
        self.compute = compute_v1
        self.gone: type[Exception] = exceptions.NotFound
        self._keypath = keypath
        self._errors = (exceptions.GoogleAPIError, logins.GoogleAuthError, OSError, ValueError)

    def instances(self) -> Any:
        return self._made(self.compute.InstancesClient)

    def disks(self) -> Any:
        return self._made(self.compute.DisksClient)

    def regions(self) -> Any:
        return self._made(self.compute.RegionsClient)

    def machine_types(self) -> Any:
        return self._made(self.compute.MachineTypesClient)

    def _made(self, kind: Any) -> Any:
        with self.doing("log in to Google Cloud"):
            return kind.from_service_account_file(str(self._keypath)) if self._keypath else kind()

    def storage(self) -> tuple[Any, str]:
        """Google has a client of its own for buckets; for five calls its REST API is enough: a session, and its URL."""
        import google.auth
        from google.auth.transport import requests
        from google.oauth2 import credentials, service_account

        session: Any = requests.AuthorizedSession
        by_token: Any = credentials.Credentials
        by_key: Any = service_account.Credentials.from_service_account_file
        with self.doing("log in to Google Cloud"):
            if self._keypath:
                login = by_key(str(self._keypath), scopes=[_SCOPE])
            elif token := os.environ.get(_TOKEN):
                login = by_token(token)
            else:
                login, _ = google.auth.default(scopes=[_SCOPE])
            return session(login), os.environ.get(_OTHER_STORAGE, _STORAGE).rstrip("/")
