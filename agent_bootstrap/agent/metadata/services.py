"""The metadata services of EC2 and of Compute Engine, as far as an agent needs them. All calls raise OSError."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from urllib.parse import urlencode

from agent_bootstrap.agent.metadata.http1 import HttpReply, ask

TIMEOUT_S = 5.0
SESSION_S = 21_600


class Ec2Service:
    """Version 2: each question shows the token of a session, as machines of ours demand it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._token = ""

    async def get(self, path: str) -> str | None:
        """What is below meta-data. None: there is no such thing."""
        for last in (False, True):
            self._token = self._token or await self._session()
            reply = await ask(
                f"{self._url}/latest/meta-data/{path}",
                headers={"X-aws-ec2-metadata-token": self._token},
                timeout_s=TIMEOUT_S,
            )
            if reply.status != 401 or last:
                break
            self._token = ""
        return _text(reply)

    async def role(self) -> str:
        """Empty: the machine has none."""
        names = (await self.get("iam/security-credentials/") or "").split()
        return names[0] if names else ""

    async def credentials(self) -> dict[str, Any] | None:
        """Of the machine's role, as the service words them."""
        role = await self.role()
        text = await self.get(f"iam/security-credentials/{role}") if role else None
        return None if text is None else _document(text)

    async def _session(self) -> str:
        reply = await ask(
            f"{self._url}/latest/api/token",
            method="PUT",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": str(SESSION_S), "Content-Length": "0"},
            timeout_s=TIMEOUT_S,
        )
        return _text(reply) or ""


class Value(NamedTuple):
    text: str
    etag: str


class GceService:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def get(self, path: str, **query: str) -> str | None:
        """What is below computeMetadata/v1. None: there is no such thing."""
        return _text(await self._ask(path, query))

    async def value(self, path: str, *, unlike: str = "", wait_s: int = 0) -> Value | None:
        """With the etag of another value `unlike`: once it has changed, or after `wait_s`."""
        query = {"last_etag": unlike, "wait_for_change": "true", "timeout_sec": str(wait_s)}
        reply = await self._ask(path, query if unlike else {}, wait_s)
        text = _text(reply)
        return None if text is None else Value(text, reply.headers.get("etag", ""))

    async def account(self) -> dict[str, Any] | None:
        """The service account: `email`, `scopes`. None: the machine has none."""
        text = await self.get("instance/service-accounts/default/", recursive="true")
        return None if text is None else _document(text)

    async def token(self, scopes: str) -> dict[str, Any] | None:
        text = await self.get("instance/service-accounts/default/token", scopes=scopes)
        return None if text is None else _document(text)

    async def _ask(self, path: str, query: dict[str, str], wait_s: int = 0) -> HttpReply:
        words = f"?{urlencode(query)}" if query else ""
        return await ask(
            f"{self._url}/computeMetadata/v1/{path}{words}",
            headers={"Metadata-Flavor": "Google"},
            timeout_s=wait_s + TIMEOUT_S,
        )


def _text(reply: HttpReply) -> str | None:
    if reply.status == 404:
        return None
    if reply.status != 200:
        raise OSError(f"HTTP {reply.status}")
    return reply.text


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OSError(f"the metadata service does not answer in JSON: {error}") from None
    if not isinstance(found, dict):
        raise OSError("the metadata service answers with something else than an object")
    return found
