"""What EC2 says on the machine itself of its end: spot interruptions and planned maintenance.

The metadata service is asked every few seconds, as AWS recommends; a spot machine goes two minutes after it is told.
"""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

log = logging.getLogger(__name__)

EVERY_S = 5.0
TIMEOUT_S = 2.0
TOKEN_TTL_S = 21_600
_TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header
_MAINTENANCE_TIME = "%d %b %Y %H:%M:%S GMT"
MAX_ANSWER = 64 * 1024


class Notice(NamedTuple):
    at: datetime
    reason: str


class Metadata:
    """EC2's metadata service, asked with a session token as machines of ours demand it. Blocking."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._token = ""
        # A proxy of the environment is not on this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> str | None:
        """None: there is no such thing. Raises OSError."""
        for last in (False, True):
            self._token = self._token or self._ask("/latest/api/token", method="PUT") or ""
            try:
                return self._ask(f"/latest/meta-data/{path}")
            except urllib.error.HTTPError as error:
                self._token = ""
                if error.code != 401 or last:
                    raise
        return None

    def _ask(self, path: str, method: str = "GET") -> str | None:
        headers = {_TOKEN_HEADER: self._token} if method == "GET" else {}
        if method == "PUT":
            headers = {f"{_TOKEN_HEADER}-ttl-seconds": str(TOKEN_TTL_S)}
        asked = urllib.request.Request(self._url + path, headers=headers, method=method)  # noqa: S310
        try:
            with self._opener.open(asked, timeout=TIMEOUT_S) as answer:
                text: str = answer.read(MAX_ANSWER).decode("utf-8", "replace")
                return text
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise


def notices(metadata: Metadata) -> Iterator[Notice]:
    """What the service says now. Raises OSError."""
    interruption = metadata.get("spot/instance-action")
    if interruption:
        yield from _interruption(interruption)
    maintenance = metadata.get("events/maintenance/scheduled")
    if maintenance:
        yield from _maintenance(maintenance)


async def watch(url: str, leave: Callable[[datetime, str], Awaitable[None]]) -> None:
    """Until cancelled. `leave` may be told the same again. A service that does not answer is asked again."""
    metadata, was_silent = Metadata(url), False
    while True:
        try:
            found = await asyncio.to_thread(lambda: list(notices(metadata)))
            was_silent = False
        except OSError as error:
            found = []
            if not was_silent:
                log.warning("the metadata service %s does not answer: %s", url, error)
            was_silent = True
        for notice in found:
            await leave(notice.at, notice.reason)
        await asyncio.sleep(EVERY_S)


def _interruption(text: str) -> Iterator[Notice]:
    with suppress(ValueError, KeyError, TypeError):
        said = json.loads(text)
        at = datetime.fromisoformat(said["time"])
        yield Notice(at=at.astimezone(UTC), reason=f"spot interruption: {said['action']}")


def _maintenance(text: str) -> Iterator[Notice]:
    """Reboots, too: the work of a machine ends with its boot."""
    with suppress(ValueError, TypeError):
        for event in json.loads(text):
            with suppress(ValueError, KeyError, TypeError):
                if event["State"] != "active":
                    continue
                at = datetime.strptime(event["NotBefore"], _MAINTENANCE_TIME).replace(tzinfo=UTC)
                yield Notice(at=at, reason=f"maintenance by AWS: {event['Code']}")
