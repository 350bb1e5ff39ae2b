"""Calls to providers: each a task of its own with a deadline, whose answer goes into an inbox.

A provider that hangs, fails or cannot be opened holds up nothing but itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from provisioner.fleet import IntentRecord
from provisioner.fleet_state import (
    Event,
    Launched,
    LaunchRefused,
    LaunchUnanswered,
    Looked,
    TerminateAnswered,
)
from provisioner.providers.base import LaunchIntent, Provider
from provisioner.refusals import BlockKind
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError, ProviderAuthError, QuotaError

log = logging.getLogger(__name__)

CALL_DEADLINE_S = 30.0
CLOSE_DEADLINE_S = 5.0
REOPEN_FIRST_S = 1.0
REOPEN_CAP_S = 60.0

_REFUSALS: Sequence[tuple[type[Exception], BlockKind]] = (
    (CapacityError, BlockKind.CAPACITY),
    (QuotaError, BlockKind.QUOTA),
    (ProviderAuthError, BlockKind.AUTH),
)


class Calls:
    """The providers of one provisioner, opened, listed and called. `wake` is called after each answer."""

    def __init__(
        self, providers: Mapping[str, Provider], clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.inbox: list[Event] = []
        """Answers that no pass has taken in."""
        self.under_way = 0
        self._providers = providers
        self._clock = clock
        self._wake = wake
        self._tasks: asyncio.TaskGroup | None = None
        self._opened: set[str] = set()
        self._looking: set[str] = set()
        self._looked_at: dict[str, float] = {}

    @property
    def is_running(self) -> bool:
        return self._tasks is not None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While inside, calls may start; leaving waits for them, an exception cancels them."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                lives = [self._tasks.create_task(self._keep_open(p)) for p in self._providers]
                try:
                    yield
                finally:
                    for life in lives:
                        life.cancel()
        finally:
            self._tasks = None
            self._opened.clear()

    def is_open(self, provider: str) -> bool:
        return provider in self._opened

    def start(self, call: Coroutine[Any, Any, Event]) -> None:
        if self._tasks is None:
            call.close()
            raise RuntimeError("a reconcile pass needs owning_calls() around it")
        self.under_way += 1
        self._tasks.create_task(self._answered(call))

    def start_looks(self) -> None:
        """List every provider that is open and may be asked again."""
        now = self._clock.monotonic()
        for name in sorted(self._opened - self._looking):
            last = self._looked_at.get(name)
            if last is None or now - last >= self._providers[name].list_every_s:
                self._looking.add(name)
                self._looked_at[name] = now
                self.start(self._look(name))

    def launch(self, intent: IntentRecord, request: LaunchIntent) -> None:
        self.start(self._launch(intent, request))

    def terminate(self, provider: str, instance_ids: Sequence[str]) -> None:
        self.start(self._terminate(provider, tuple(instance_ids)))

    async def _answered(self, call: Coroutine[Any, Any, Event]) -> None:
        try:
            self.inbox.append(await call)
        finally:
            self.under_way -= 1
        self._wake()

    async def _keep_open(self, name: str) -> None:
        """Open it, run its background work, and begin again after a failure of either."""
        provider, wait = self._providers[name], REOPEN_FIRST_S
        try:
            while True:
                started_at = self._now()
                try:
                    if name not in self._opened:
                        async with asyncio.timeout(CALL_DEADLINE_S):
                            await provider.open()
                        self._opened.add(name)
                        self._wake()
                    await provider.run()
                    await asyncio.Event().wait()  # it stays open until this is cancelled
                except Exception as error:  # noqa: BLE001 - a failing provider is an answer
                    log.warning("provider %s: %s", name, _text(error))
                    if name not in self._opened:
                        self.inbox.append(_unseen(name, started_at, error))
                        self._wake()
                await asyncio.sleep(wait)
                wait = min(REOPEN_CAP_S, 2 * wait)
        finally:
            await _close(provider)

    async def _look(self, name: str) -> Event:
        started_at = self._now()
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                found = await self._providers[name].list()
        except Exception as error:  # noqa: BLE001 - a failing provider is an answer
            log.warning("listing provider %s failed: %s", name, _text(error))
            return _unseen(name, started_at, error)
        finally:
            self._looking.discard(name)
        return Looked(provider=name, started_at=started_at, found=found)

    async def _launch(self, intent: IntentRecord, request: LaunchIntent) -> Event:
        provider = intent.provider
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                result = await self._providers[provider].launch(request)
            if len(set(result.instance_ids)) != intent.count:
                raise TimeoutError(f"answered with {len(result.instance_ids)} of {intent.count}")
        except OSError as error:  # TimeoutError is one
            log.warning("launch %s at %s unanswered: %s", intent.id, provider, _text(error))
            return LaunchUnanswered(intent=intent, message=_text(error))
        except Exception as error:  # noqa: BLE001 - unknown errors block the offer, verbatim
            log.warning("launch %s at %s refused: %s", intent.id, provider, _text(error))
            kind = next((k for t, k in _REFUSALS if isinstance(error, t)), BlockKind.UNKNOWN)
            return LaunchRefused(intent=intent, kind=kind, message=_text(error))
        log.info("launched %s at %s", ", ".join(result.instance_ids), provider)
        return Launched(intent=intent, instance_ids=result.instance_ids)

    async def _terminate(self, provider: str, instance_ids: tuple[str, ...]) -> Event:
        listed = ", ".join(instance_ids)
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                await self._providers[provider].terminate(instance_ids)
        except Exception as error:  # noqa: BLE001 - asked again until it is confirmed
            log.error("still billing: terminating %s failed: %s", listed, _text(error))
            return TerminateAnswered(instance_ids=instance_ids, error=_text(error))
        log.info("terminated %s at %s", listed, provider)
        return TerminateAnswered(instance_ids=instance_ids)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _unseen(name: str, started_at: float, error: BaseException) -> Looked:
    return Looked(provider=name, started_at=started_at, found=None, error=_text(error))


async def _close(provider: Provider) -> None:
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await provider.close()
    except Exception as error:  # noqa: BLE001 - nobody can do anything about it
        log.warning("closing provider %s failed: %s", provider.name, _text(error))


def _text(error: BaseException) -> str:
    """One line, never empty."""
    return " ".join(str(error).split()) or type(error).__name__
