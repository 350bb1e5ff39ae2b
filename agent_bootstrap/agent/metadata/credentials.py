"""What tasks get of the machine's role, in the forms of the vendors' SDKs: fetched once for all of them.

Answers are kept until shortly before they expire. From then on, and after a failure, the metadata service is asked
every few seconds at most, however many tasks ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from agent_bootstrap.agent.metadata.services import Ec2Service, GceService
from windlass.base.clock import Clock
from windlass.base.formats.json_types import JsonMapping

AWS_EARLY = timedelta(minutes=15)
"""SDKs of AWS ask for new ones that long before the end."""
GOOGLE_EARLY = timedelta(minutes=5)
PAUSE_S = 10.0
CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
STORAGE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_STORAGE_SCOPES = "https://www.googleapis.com/auth/devstorage."


class NoRole(Exception):
    """The machine has nothing to give. Says why, and the way out."""


class Secret(NamedTuple):
    document: JsonMapping
    expires_at: datetime


class CachedAnswer:
    """The newest answer of one question."""

    def __init__(
        self, fetch: Callable[[], Awaitable[Secret]], clock: Clock, *, early: timedelta
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._early = early
        self._asking = asyncio.Lock()
        self._secret: Secret | None = None
        self._error: OSError | NoRole | None = None
        self._asked_at = float("-inf")

    async def get(self) -> Secret:
        """One that is good now. Raises OSError, NoRole."""
        async with self._asking:
            now = self._clock.now()
            kept = self._secret
            is_fresh = kept is not None and kept.expires_at - now > self._early
            if not is_fresh and self._clock.monotonic() - self._asked_at >= PAUSE_S:
                await self._ask()
            if self._secret is not None and self._secret.expires_at > now:
                return self._secret
            raise self._error or OSError("the credentials of the machine's role have expired")

    async def _ask(self) -> None:
        self._asked_at = self._clock.monotonic()
        try:
            self._secret = await self._fetch()
            self._error = None
        except (OSError, NoRole) as error:
            self._error = error


class AwsRole:
    def __init__(self, service: Ec2Service, clock: Clock) -> None:
        self._service = service
        self._kept = CachedAnswer(self._fetch, clock, early=AWS_EARLY)

    async def exists(self) -> bool:
        """Raises OSError."""
        return bool(await self._service.role())

    async def credentials(self) -> JsonMapping:
        """As containers get them. Raises OSError, NoRole."""
        return (await self._kept.get()).document

    async def _fetch(self) -> Secret:
        found = await self._service.credentials()
        if found is None:
            raise NoRole("this machine has no role: set iam_instance_profile_arn of its pool")
        try:
            kept = {name: str(found[name]) for name in _AWS_KEYS}
            return Secret(kept, datetime.fromisoformat(kept["Expiration"]).astimezone(UTC))
        except (KeyError, ValueError) as error:
            raise OSError(f"credentials that nobody understands: {error}") from None


_AWS_KEYS = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")


class GoogleAccount:
    """The service account of the machine, for storage only."""

    def __init__(self, service: GceService, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._account = CachedAnswer(self._fetch_account, clock, early=GOOGLE_EARLY)
        self._token = CachedAnswer(self._fetch_token, clock, early=GOOGLE_EARLY)
        self._project = CachedAnswer(self._fetch_project, clock, early=GOOGLE_EARLY)

    async def exists(self) -> bool:
        """Raises OSError."""
        return await self._service.account() is not None

    async def project(self) -> str:
        """Its id. Raises OSError."""
        return str((await self._project.get()).document["id"])

    async def account(self) -> JsonMapping:
        """`email`, `scopes`, `aliases`. Raises OSError, NoRole."""
        return (await self._account.get()).document

    async def token(self) -> JsonMapping:
        """Raises OSError, NoRole."""
        secret = await self._token.get()
        left = (secret.expires_at - self._clock.now()).total_seconds()
        return {**secret.document, "expires_in": max(0, int(left))}

    async def _fetch_account(self) -> Secret:
        found = await self._service.account()
        if found is None:
            raise NoRole("this machine has no service account: set service_account of its pool")
        kept: dict[str, Any] = {
            "aliases": ["default"],
            "email": str(found.get("email", "")),
            "scopes": storage_scopes([str(each) for each in found.get("scopes", ())]),
        }
        return Secret(kept, self._clock.now() + timedelta(hours=1))

    async def _fetch_project(self) -> Secret:
        id_ = await self._service.get("project/project-id") or ""
        return Secret({"id": id_}, self._clock.now() + timedelta(hours=1))

    async def _fetch_token(self) -> Secret:
        scopes = (await self.account())["scopes"]
        found = await self._service.token(",".join(scopes))
        try:
            if found is None:
                raise NoRole("Google gives this machine's service account no token for storage")
            kept = {"access_token": str(found["access_token"]), "token_type": "Bearer"}
            seconds = int(found["expires_in"])
        except (KeyError, ValueError) as error:
            raise OSError(f"a token that nobody understands: {error}") from None
        return Secret(kept, self._clock.now() + timedelta(seconds=seconds))


def storage_scopes(scopes: list[str]) -> list[str]:
    """Those of the machine that are for storage. Raises NoRole. Pure."""
    if CLOUD_SCOPE in scopes:
        return [STORAGE_SCOPE]
    found = [scope for scope in scopes if scope.startswith(_STORAGE_SCOPES)]
    if not found:
        raise NoRole(
            "the service account of this machine has no scope for storage: add cloud-platform to service_account.scopes"
        )
    return found
