"""Calls to Compute Engine: one attempt each, in threads of their own. Retries and rates are the provisioner's.

google-cloud-compute is imported when the first call is made: it takes seconds and 150 MB.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.errors import Refusal
from provisioner.providers.gcp.site import GcpSite
from windlass.base.formats.json_types import JsonMapping

THREADS = 8
TIMEOUT_S = 25.0
"""Below the deadline of a call, so that its thread is free again when that has passed."""
MAX_PAGES = 1_000
BILLING_URL = "https://cloudbilling.googleapis.com"
RESOURCES_URL = "https://cloudresourcemanager.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"

_R = TypeVar("_R")


class GceError(Exception):
    """What Compute Engine answered instead of a result, by HTTP or inside an operation."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        details: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        """0: inside an operation."""
        self.details = tuple(details)


class RequestPart(NamedTuple):
    """A part of a request, as JSON in the API's own names: for whatever operators may write themselves."""

    type: str
    body: JsonMapping


class GcpClient:
    """The API for one project. Replies are the vendor's messages (proto-plus)."""

    def __init__(self, site: GcpSite) -> None:
        self._site = site
        self._threads: ThreadPoolExecutor | None = None
        self._credentials: Any = None
        self._project = site.project
        self._services: dict[str, Any] = {}
        self._making = threading.Lock()

    @property
    def project(self) -> str:
        """That of the credentials, where none is configured; known after the first call."""
        return self._project

    def open(self) -> None:
        self._threads = self._threads or ThreadPoolExecutor(
            THREADS, thread_name_prefix=self._site.name
        )

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        self._services, self._credentials = {}, None

    async def call(self, service: str, method: str, **request: Any) -> Any:
        """`method` of the client `service` ("Instances"). Raises `GceError`, `Refusal` for credentials, `OSError`."""
        return await self._in_thread(partial(self._call, service, method, request))

    async def pages(self, service: str, method: str, **request: Any) -> list[Any]:
        """All of a paged list, or an error: half a list is none."""
        return await self._in_thread(partial(self._pages, service, method, request))

    async def read(
        self, service: str, method: str, read: Callable[[Any], _R], **request: Any
    ) -> list[_R]:
        """As `pages`, each read in the thread, as plain protobuf: thousands of machines would hold the event loop."""

        def call() -> list[_R]:
            return [read(type(page).pb(page)) for page in self._pages(service, method, request)]

        return await self._in_thread(call)

    async def get_all(
        self,
        path: str,
        items: str,
        read: Callable[[list[Any]], list[_R]],
        *,
        most_pages: int = 0,
        **query: Any,
    ) -> list[_R]:
        """A paged list of the billing API, read page by page in the thread: it has tens of thousands of rows.

        `most_pages`: the rest is left out; 0: all.
        """

        def call() -> list[_R]:
            found: list[_R] = []
            with self._session() as session:
                for number in range(1, MAX_PAGES + 1):
                    url = f"{self._host(BILLING_URL)}/{path}"
                    page = _answer(session.get(url, params=query, timeout=TIMEOUT_S))
                    found += read(page.get(items, []))
                    query["pageToken"] = page.get("nextPageToken", "")
                    if not query["pageToken"] or number == most_pages:
                        return found
            raise ConnectionError(f"{path} has more than {MAX_PAGES} pages")

        return await self._in_thread(call)

    async def granted(self, permissions: Sequence[str]) -> frozenset[str]:
        """Those of them, 100 at most, that the credentials have in the project. To ask needs none."""

        def call() -> frozenset[str]:
            with self._session() as session:
                url = f"{self._host(RESOURCES_URL)}/v1/projects/{self._project}:testIamPermissions"
                asked = {"permissions": list(permissions)}
                reply = _answer(session.post(url, json=asked, timeout=TIMEOUT_S))
            return frozenset(reply.get("permissions", ()))

        return await self._in_thread(call)

    def _session(self) -> Any:
        """For APIs of Google that have no client here."""
        from google.auth.transport.requests import AuthorizedSession

        with self._making:
            self._credentials = self._credentials or self._found_credentials()
        return AuthorizedSession(self._credentials)  # type: ignore[no-untyped-call]

    def _host(self, url: str) -> str:
        is_emulator = urlsplit(self._site.endpoint_url).scheme == "http"
        return self._site.endpoint_url if is_emulator else url

    async def _in_thread(self, call: Callable[[], _R]) -> _R:
        if self._threads is None:
            raise ConnectionError(f"{self._site.name} is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, partial(_translated, call)
        )

    def _call(self, service: str, method: str, request: Mapping[str, Any]) -> Any:
        made = getattr(self._service(service), method)
        parts = {key: _built(part) for key, part in request.items()}
        return made(request={"project": self._project, **parts}, retry=None, timeout=TIMEOUT_S)

    def _pages(self, service: str, method: str, request: Mapping[str, Any]) -> list[Any]:
        pages = []
        for page in self._call(service, method, request).pages:
            pages.append(page)
            if len(pages) > MAX_PAGES:
                raise ConnectionError(f"{method} has more than {MAX_PAGES} pages")
        return pages

    def _service(self, name: str) -> Any:
        with self._making:
            if name not in self._services:
                self._services[name] = self._made(name)
            return self._services[name]

    def _made(self, name: str) -> Any:
        from google.api_core.client_options import ClientOptions
        from google.cloud import compute_v1

        if self._credentials is None:
            self._credentials = self._found_credentials()
        options = ClientOptions(api_endpoint=self._site.endpoint_url or None)
        return getattr(compute_v1, f"{name}Client")(
            credentials=self._credentials, client_options=options
        )

    def _found_credentials(self) -> Any:
        """As they are found in the usual places. None are sent without TLS: that is an emulator."""
        import google.auth
        from google.auth.credentials import AnonymousCredentials

        if urlsplit(self._site.endpoint_url).scheme == "http":
            return AnonymousCredentials()  # type: ignore[no-untyped-call]
        credentials, project = google.auth.default(scopes=[SCOPE])
        self._project = self._project or project or ""
        if not self._project:
            raise Refusal(
                BlockKind.CONFIG, "no project: give provider.project, the credentials name none"
            )
        return credentials


def _built(part: Any) -> Any:
    if not isinstance(part, RequestPart):
        return part
    from google.cloud import compute_v1
    from google.protobuf.json_format import ParseError

    try:
        return getattr(compute_v1, part.type).from_json(json.dumps(part.body))
    except ParseError as error:
        raise Refusal(
            BlockKind.CONFIG, f"not what Compute Engine takes: {_text(error)}; correct base_config"
        ) from None


def _translated(call: Callable[[], _R]) -> _R:
    """Google's many errors as three."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    try:
        return call()
    except api.GoogleAPICallError as error:
        raise _gce_error(error) from None
    except auth.TransportError as error:
        raise ConnectionError(_text(error)) from None
    except auth.GoogleAuthError as error:
        raise Refusal(
            BlockKind.AUTH,
            f"no credentials for Google Cloud: {_text(error)}; give the master a service account, "
            "or renew its login (see docs/gcp.md), and check with windlass master check --cloud",
        ) from None
    except api.RetryError as error:
        raise TimeoutError(_text(error)) from None


def _gce_error(error: Any) -> GceError:
    """The reason is a word for programs; the HTTP status stands for it where there is none."""
    first = next((each for each in error.errors if isinstance(each, Mapping)), {})
    status = int(error.code or 0)
    details = [each for each in error.details if isinstance(each, Mapping)]
    message = first.get("message") or error.message
    return GceError(first.get("reason", str(status)), message, status=status, details=details)


def _answer(reply: Any) -> JsonMapping:
    if reply.status_code != 200:
        raise _http_error(reply)
    answer: JsonMapping = reply.json()
    return answer


def _http_error(reply: Any) -> GceError:
    try:
        said = reply.json()["error"]
    except (ValueError, KeyError, TypeError):
        said = {}
    status = int(reply.status_code)
    return GceError(
        said.get("status", str(status)), said.get("message", reply.reason), status=status
    )


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
