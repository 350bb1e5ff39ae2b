"""One call of one receiver, by HTTP. The address that was looked at is the one that is called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ssl import SSLContext
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import httpx2

from master.core.webhooks.retries import Answer, Failure
from master.webhooks.targets import Refused, Targets

TIMEOUT_S = 10.0
"""Of a whole call."""


class Caller(Protocol):
    async def __call__(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Answer | Failure: ...


class HttpCaller:
    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._authorities: SSLContext | None = None
        """Whom to trust: read once, that takes a tenth of a second of CPU."""

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer | Failure:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._call(url, body, headers)
        except TimeoutError:
            return Failure(f"no answer within {TIMEOUT_S:.0f} s")
        except Refused as refused:
            return Failure(str(refused), is_final=True)
        except OSError as error:
            return Failure(f"cannot be reached: {error}")
        except httpx2.HTTPError as error:
            return Failure(f"cannot be reached: {error or type(error).__name__}")

    async def _call(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        endpoint, parts = await self._targets.resolve(url), urlsplit(url)
        address = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
        at = urlunsplit(parts._replace(netloc=f"{address}:{endpoint.port}"))
        host = parts.hostname or ""
        request = httpx2.Request(
            "POST",
            at,
            content=body,
            headers={**headers, "Host": parts.netloc},
            extensions={"sni_hostname": host},
        )
        # Proxies of the environment would look the host up themselves.
        if self._authorities is None:
            self._authorities = await asyncio.to_thread(httpx2.create_ssl_context, trust_env=False)
        async with httpx2.AsyncClient(
            trust_env=False, timeout=TIMEOUT_S, verify=self._authorities
        ) as client:
            answer = await client.send(request, stream=True, follow_redirects=False)
            await answer.aclose()  # whatever it says, however long: the status is all that counts
        return Answer(answer.status_code, answer.headers.get("Retry-After", ""))
