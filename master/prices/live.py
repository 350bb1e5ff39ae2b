"""The prices that count now: the file in the data folder is read again when it changes, and taken if it is sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Protocol

import structlog

from provisioner.money import fresh_prices
from provisioner.money.fresh_prices import FreshPrice, Key, KnowsPrices
from provisioner.money.price_book import FILE_NAME, PriceBook, PriceOverride, open_book
from windlass.base.clock import Clock
from windlass.base.errors import InvalidConfig

log = structlog.get_logger(__name__)

WARNED = "prices-warned"
"""In the data folder: the day of the last warning that the price book is old."""


class UsesPrices(KnowsPrices, Protocol):
    def use(self, prices: PriceBook) -> None:
        """From now on."""
        ...


class LivePrices:
    """`look` now and then. Everything else reads `book` whenever it needs a price."""

    def __init__(self, data_dir: Path, overrides: Sequence[PriceOverride] = ()) -> None:
        """Raises InvalidConfig if the file is malformed."""
        self._file = data_dir / FILE_NAME
        self._data_dir = data_dir
        self._overrides = tuple(overrides)
        self._seen = self._mark()
        self._fresh = _kept(data_dir)
        self.book: PriceBook = replace(open_book(data_dir, self._overrides), fresh=self._fresh)
        self.sources: list[KnowsPrices] = []
        """Providers that can ask their vendors."""
        self.troubles: Mapping[str, str] = {}
        """By provider: why its vendor could not be asked last."""
        self.changed: list[Callable[[], None]] = []
        """Told when there are other prices."""
        self._is_old: Callable[[], None] = lambda: None

    def warn_daily(self, clock: Clock, stale_after: timedelta) -> None:
        """Warn of a book that is old: now and at later looks, but once a day, however often the master starts."""
        file = self._data_dir / WARNED
        last = _day_in(file)

        def warn() -> None:
            nonlocal last
            today = clock.now().date()
            if last == today:
                return
            for warning in self.book.warnings(today, stale_after):
                log.warning(warning)
            last = today
            file.write_text(today.isoformat(), encoding="utf-8")

        self._is_old = warn
        warn()

    def serve(self, providers: Sequence[UsesPrices]) -> None:
        """They are given the book whenever it changes, and asked for prices of their vendors."""

        def reprice() -> None:
            for provider in providers:
                provider.use(self.book)

        self.changed.append(reprice)
        self.sources += providers

    def look(self) -> None:
        """Take in a file that has changed. One that is malformed changes nothing, and is told once."""
        self._take_in()
        self._is_old()

    def _take_in(self) -> None:
        mark = self._mark()
        if mark == self._seen:
            return
        self._seen = mark
        try:
            book = open_book(self._data_dir, self._overrides)
        except InvalidConfig as error:
            log.error("the prices stay as they are", of=str(self.book.table.as_of), why=str(error))
            return
        if book.table == self.book.table:
            return
        log.info("other prices", of=str(book.table.as_of), file=str(book.file))
        self._change(replace(book, fresh=self._fresh))

    def keep(self, found: Sequence[FreshPrice]) -> None:
        """Write prices of a vendor down. Blocking. Raises OSError."""
        fresh_prices.write(self._data_dir, {**self._fresh, **fresh_prices.keyed(found)})

    def use(self, found: Sequence[FreshPrice]) -> None:
        """From now on."""
        fresh = {**self._fresh, **fresh_prices.keyed(found)}
        if fresh != self._fresh:
            self._fresh = fresh
            self._change(replace(self.book, fresh=fresh))

    def _change(self, book: PriceBook) -> None:
        self.book = book
        for tell in self.changed:
            tell()

    def _mark(self) -> tuple[int, int, int] | None:
        """Changes whenever the file does."""
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _day_in(file: Path) -> date | None:
    """None: no day is there, or what is there is none."""
    try:
        return date.fromisoformat(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _kept(data_dir: Path) -> Mapping[Key, FreshPrice]:
    """A file that is malformed costs only what can be asked again."""
    try:
        return fresh_prices.read(data_dir)
    except ValueError as error:
        log.error("prices of vendors are not used", why=str(error))
        return {}
