"""Calls of slurmrestd: which version it serves, whose call it is, and what an answer means that is none."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

import httpx2

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S
from provisioner.batch.slurm.rest.documents import Json, errors, release
from provisioner.batch.slurm.rest.large import Pick, loaded
from provisioner.batch.slurm.rest.tokens import Tokens

KNOWN = range(36, 45)
"""Versions of the API, as v0.0.N, whose answers were read."""
_SERVED = re.compile(r"/slurm/v0\.0\.(\d+)/")
_ACCOUNTING = "/slurmdb/v0.0.{}/"
_REFUSES_TOKEN = (401, 511)
_AUTH_WORDS = ("authentication", "JWT")
_UNCLEAR = ("Unspecified error", "Unable to connect to database", "Zero Bytes were transmitted")
"""What releases before 24.05 say of an expired token; also when the controller or slurmdbd is down."""


@dataclass(frozen=True, slots=True)
class RestVersion:
    version: int
    accounting: bool
    """It also serves slurmdbd."""


@dataclass(frozen=True, slots=True)
class RestAnswer:
    status: int
    document: Json
    """Null where it is no JSON."""
    text: str
    """What went wrong, in Slurm's words; empty: nothing."""


class RestClient:
    """Connects for each call: one in some seconds."""

    def __init__(
        self,
        where: str,
        transport: Callable[[], httpx2.AsyncBaseTransport],
        *,
        base: str = "http://localhost",
        tokens: Tokens | None = None,
        user: str = "",
    ) -> None:
        """`where`: as people know it; `user`: whose tokens these are."""
        self._where = where
        self._transport = transport
        self._base = base
        self._tokens = tokens
        self._user = user
        self._served: RestVersion | None = None
        self.release = ""
        """Of Slurm, as slurmrestd is; empty: it has not said."""

    async def served(self) -> RestVersion:
        """The highest version that both sides know. Raises NoAnswer."""
        if self._served is None:
            status, text = await self._exchange("GET", "/openapi/v3")
            text = text.replace("\\/", "/")
            offered = sorted({int(one) for one in _SERVED.findall(text)})
            known = [version for version in offered if version in KNOWN]
            if not known:
                raise NoAnswer(self._no_version(offered, status, text))
            accounting = _ACCOUNTING.format(known[-1]) in text
            self._served = RestVersion(known[-1], accounting)
        return self._served

    def forget(self) -> None:
        """The site may have been upgraded: look again which versions it serves."""
        self._served = None

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        of: str = "slurm",
        pick: Pick | None = None,
        limit_s: float = COMMAND_LIMIT_S,
    ) -> RestAnswer:
        """`path` follows the version. Raises NoAnswer: then nothing is known, and it may have had its effect.

        `pick`: what to keep of each job of the answer; called in another thread.
        """
        version = (await self.served()).version
        target = f"/{of}/v0.0.{version}/{path}"
        status, text = await self._exchange(method, target, body, limit_s=limit_s)
        try:
            document = await asyncio.to_thread(loaded, text, pick) if text else None
        except ValueError:
            document = None
        if status == 404 and document is None:
            self.forget()
        self.release = release(document) or self.release
        answer = RestAnswer(status, document, "; ".join(errors(document)))
        if self._is_refused(answer):
            raise self._refused(answer)
        if document is None:
            raise NoAnswer(f"{self._name}: HTTP {status}: {text.strip()[:200] or 'no document'}")
        return answer

    async def _exchange(
        self, method: str, target: str, body: object = None, *, limit_s: float = COMMAND_LIMIT_S
    ) -> tuple[int, str]:
        headers = {}
        if self._tokens is not None:
            headers["X-SLURM-USER-TOKEN"] = await self._tokens.token()
            headers["X-SLURM-USER-NAME"] = self._user
        try:
            async with httpx2.AsyncClient(
                transport=self._transport(), base_url=self._base, timeout=limit_s
            ) as client:
                answer = await client.request(method, target, json=body, headers=headers)
        except httpx2.TimeoutException:
            text = f"{self._name} did not answer within {limit_s:g} s"
            raise NoAnswer(text, may_run=True) from None
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            text = f"{self._name} cannot be reached: {why}"
            raise NoAnswer(text, may_run=not isinstance(error, httpx2.ConnectError)) from None
        if answer.status_code == 401:
            raise self._refused(RestAnswer(401, None, ""))
        text = await asyncio.to_thread(answer.content.decode, "utf-8", "replace")
        return answer.status_code, text

    @property
    def _name(self) -> str:
        return f"slurmrestd at {self._where}"

    def _is_refused(self, answer: RestAnswer) -> bool:
        if answer.status in _REFUSES_TOKEN:
            return True
        said = answer.text
        return answer.status >= 500 and any(word in said for word in (*_AUTH_WORDS, *_UNCLEAR))

    def _refused(self, answer: RestAnswer) -> NoAnswer:
        said = answer.text or f"HTTP {answer.status}"
        is_clear = not any(word in said for word in _UNCLEAR)
        if self._tokens is not None:
            self._tokens.refused()
            down = "" if is_clear else "the controller or slurmdbd is down, or "
            return NoAnswer(
                f"{self._name}: {said}: {down}the token of user {self._user} has expired, or is not of this user and "
                f"cluster: {self._tokens.way_out}"
            )
        why = "it takes only the user who started it: give a token (api.token_file)"
        return NoAnswer(
            f"{self._name}: {said}: {why if is_clear else 'the controller does not answer'}"
        )

    def _no_version(self, offered: list[int], status: int, text: str) -> str:
        known = f"v0.0.{KNOWN[0]} to v0.0.{KNOWN[-1]}"
        if not offered:
            return f"{self._name}: HTTP {status} without a version of its API: {text.strip()[:200]}"
        said = ", ".join(f"v0.0.{version}" for version in offered)
        return f"{self._name} serves {said}; this master knows {known}: remove api, so that it uses commands"
