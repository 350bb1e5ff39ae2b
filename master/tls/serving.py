"""The certificate of the moment. It is read again when its files change; a bad new one leaves the old one in use."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from master.tls.certificate import Certificate, read_certificate
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig

log = structlog.get_logger(__name__)

LOOK_S = 10.0
"""How often files are looked at. SIGHUP asks for it at once."""
WARN_BEFORE = timedelta(days=14)
WARN_AGAIN = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    cert: Path
    """The master's certificate and those that sign it."""
    key: Path
    ca: Path | None = None
    """What signs the last one in `cert`, if it is not there."""

    def read(self, now: datetime) -> Certificate:
        """Raises InvalidConfig."""
        return read_certificate(self.cert, self.key, self.ca, now)

    def marks(self) -> tuple[tuple[int, ...], ...]:
        """Changes when one of the files does, also by a rename or another target of a link."""
        return tuple(_mark(path) for path in (self.cert, self.key, self.ca) if path is not None)


class ServedTls:
    """New connections get the newest certificate that works; those that are there go on."""

    def __init__(
        self, files: TlsFiles, clock: Clock, renew: Callable[[datetime], None] | None = None
    ) -> None:
        """Raises InvalidConfig for files that cannot be served. `renew` writes new ones where they are due."""
        self.files = files
        self._clock = clock
        self._renew = renew
        self._seen = files.marks()
        self._warned: datetime | None = None
        self.certificate = files.read(clock.now())

    def names(self) -> tuple[str, ...]:
        return self.certificate.names

    def pem(self) -> str:
        """What tasks must trust."""
        return self.certificate.pem

    async def look(self) -> None:
        """A step of a loop. Files are small and local: not worth a thread."""
        now = self._clock.now()
        if self._renew is not None:
            self._renew(now)
        marks = self.files.marks()
        if marks != self._seen:
            self._seen = marks
            self._read_again(now)
        self._warn(now)

    def _read_again(self, now: datetime) -> None:
        try:
            self.certificate = self.files.read(now)
        except InvalidConfig as error:
            log.error(
                "the new certificate is not used, the old one still is", problem=error.problems[0]
            )
            return
        self._warned = None
        log.info(
            "serving a new certificate",
            names=self.certificate.names,
            until=_day(self.certificate.not_after),
            fingerprint=self.certificate.fingerprints[0],
        )

    def _warn(self, now: datetime) -> None:
        left = self.certificate.not_after - now
        if left > WARN_BEFORE or (self._warned is not None and now - self._warned < WARN_AGAIN):
            return
        self._warned = now
        log.warning(
            "the certificate has expired: clients, agents and tasks refuse it"
            if left <= timedelta(0)
            else "the certificate expires soon",
            cert=str(self.files.cert),
            until=_day(self.certificate.not_after),
        )


def _mark(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116  (through links)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
