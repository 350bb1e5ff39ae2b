"""Calls to providers: each a task of its own with a deadline, whose answer goes into an inbox.

A provider that hangs, fails or cannot be opened holds up nothing but itself. The lease is looked at before a call that
changes something: a master that stood still while another took over makes none of the calls that it had written down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from provisioner.capacity.pacing import Pacing
from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.instances import InstanceRecord
from provisioner.fleet.intents import IntentRecord
from provisioner.fleet.state import (
    CallRefused,
    CancelAnswered,
    Event,
    ImageAnswered,
    ImageRemoved,
    LaunchAccepted,
    Launched,
    LaunchRefused,
    LaunchUnanswered,
    ProviderListing,
    StartAnswered,
    StopAnswered,
    TerminateAnswered,
    TokenIsSpent,
)
from provisioner.providers.base import Accepted, LaunchAnswer, LaunchIntent, LimitedCall, Provider
from provisioner.providers.errors import Refusal, TokenSpent, refusal_kind
from provisioner.providers.images import ImageOrder, MakesImages
from provisioner.types import Offer
from windlass.base.clock import Clock
from windlass.base.errors import StoreUnavailable, WindlassError

log = logging.getLogger(__name__)

CALL_DEADLINE_S = 30.0
CLOSE_DEADLINE_S = 5.0
CONSOLES_DEADLINE_S = 8.0
MOST_CONSOLES = 5
"""Read before one call that ends machines: many boots that fail at once say the same."""
REOPEN_FIRST_S = 1.0
REOPEN_CAP_S = 60.0
LEASE_RETRY_S = 1.0
"""Pause before a database that does not answer is asked again who leads."""

_ASK_AGAIN = (BlockKind.THROTTLED, BlockKind.TRANSIENT)
"""No fault of the offer: the same call is made again, and nothing is blocked."""
_MENDED_BY_PEOPLE = (*_ASK_AGAIN, BlockKind.AUTH)
"""While an image is made: renewed credentials go on with it."""


class Calls:
    """The providers of one provisioner, opened, listed and called. `wake` is called after each answer."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        clock: Clock,
        wake: Callable[[], None],
        check_lease: Callable[[], Awaitable[None]],
    ) -> None:
        """`check_lease`: as `FleetStore` has it."""
        self.inbox: list[Event] = []
        """Answers that no pass has taken in."""
        self.under_way = 0
        self._providers = providers
        self._clock = clock
        self._wake = wake
        self._check_lease = check_lease
        self._tasks: asyncio.TaskGroup | None = None
        self._pacing = {name: Pacing(p.rates, clock) for name, p in providers.items()}
        self._opened: set[str] = set()
        self._looking: set[str] = set()
        self._looked_at: dict[str, float] = {}
        self._unremoved: dict[str, str] = {}
        """Bake -> why its image cannot be removed, as was logged last."""

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

    def may(self, provider: str, api: LimitedCall) -> bool:
        """Whether that call can be made now; if so, it is counted as made."""
        return provider in self._opened and self._pacing[provider].take(api)

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
            due = last is None or now - last >= self._providers[name].list_every_s
            if due and self.may(name, LimitedCall.LIST):
                self._looking.add(name)
                self._looked_at[name] = now
                self.start(self._look(name))

    def launch(self, intent: IntentRecord, request: LaunchIntent) -> None:
        launch = partial(self._providers[intent.provider].launch, request)
        self.start(self._leading(partial(self._asked, intent, launch, first=True)))

    def answer(self, intent: IntentRecord) -> None:
        answer = partial(self._providers[intent.provider].answer, intent.handle)
        self.start(self._asked(intent, answer, first=False))

    def cancel(self, intent: IntentRecord) -> None:
        self.start(self._leading(partial(self._cancel, intent)))

    def terminate(
        self, provider: str, instance_ids: Sequence[str], *, failed_boots: Sequence[str] = ()
    ) -> None:
        """`failed_boots`: those of them whose consoles are read before."""
        end = partial(self._terminate, provider, tuple(instance_ids), failed_boots)
        self.start(self._leading(end))

    def image(self, order: ImageOrder, *, remove: bool) -> None:
        """Make it or say how far it is; or remove it."""
        call = self._remove_image if remove else self._make_image
        self.start(self._leading(partial(call, order)))

    def stop(self, record: InstanceRecord) -> None:
        self.start(self._leading(partial(self._stop, record)))

    def switch_on(self, record: InstanceRecord, offer: Offer) -> None:
        """`offer`: what its start is known by."""
        self.start(self._leading(partial(self._switch_on, record, offer)))

    async def _leading(self, call: Callable[[], Awaitable[Event]]) -> Event:
        """Raises LeaseLost instead of calling if another master leads by now."""
        while True:
            try:
                await self._check_lease()
            except StoreUnavailable as error:
                log.warning("a call waits for the database: %s", _text(error))
                await asyncio.sleep(LEASE_RETRY_S)
            else:
                return await call()

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
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                found = await self._providers[name].list()
            self._pacing[name].answered(LimitedCall.LIST)
        except Exception as error:  # noqa: BLE001 - a failing provider is an answer
            log.warning("listing provider %s failed: %s", name, _text(error))
            self._note_throttling(name, LimitedCall.LIST, error)
            return _unseen(name, self._now(), error)
        finally:
            self._looking.discard(name)
        started_at = self._now() - (self._clock.monotonic() - begun)
        return ProviderListing(provider=name, started_at=started_at, found=found)

    async def _asked(
        self, intent: IntentRecord, call: Callable[[], Awaitable[LaunchAnswer]], *, first: bool
    ) -> Event:
        """`first`: the launch itself. Later, only a refusal says that nothing will come of it."""
        provider = intent.provider
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                answer = await call()
            self._pacing[provider].answered(LimitedCall.LAUNCH)
            if isinstance(answer, Accepted):
                log.info("launch %s is queued at %s: %s", intent.id, provider, answer.reason)
                return LaunchAccepted(intent=intent, accepted=answer)
            ids = answer.instance_ids
            if len(set(ids)) != intent.count:
                raise TimeoutError(f"answered with {len(set(ids))} of {intent.count}")
        except TokenSpent as error:
            log.warning("launch %s at %s: %s", intent.id, provider, _text(error))
            return TokenIsSpent(intent=intent, message=_text(error))
        except OSError as error:  # TimeoutError is one
            log.warning("launch %s at %s unanswered: %s", intent.id, provider, _text(error))
            return LaunchUnanswered(intent=intent, message=_text(error))
        except Exception as error:  # noqa: BLE001 - unknown errors block the offer, verbatim
            return self._failed(intent, error, first=first)
        log.info("launched %s at %s", ", ".join(ids), provider)
        return Launched(intent=intent, instance_ids=ids, started_at=answer.started_at)

    async def _stop(self, record: InstanceRecord) -> Event:
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                await self._providers[record.provider].stop(record.id)
            self._pacing[record.provider].answered(LimitedCall.TERMINATE)
        except Exception as error:  # noqa: BLE001 - what cannot be stopped is ended
            log.warning("stopping %s failed: %s", record.id, _text(error))
            self._note_throttling(record.provider, LimitedCall.TERMINATE, error)
            unknown = isinstance(error, OSError) or refusal_kind(error) in _ASK_AGAIN
            refused = isinstance(error, WindlassError) and not unknown
            return StopAnswered(instance_id=record.id, error=_text(error), refused=refused)
        log.info("stopping %s at %s", record.id, record.provider)
        return StopAnswered(instance_id=record.id)

    async def _switch_on(self, record: InstanceRecord, offer: Offer) -> Event:
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                await self._providers[record.provider].start(record.id, offer)
            self._pacing[record.provider].answered(LimitedCall.LAUNCH)
        except Exception as error:  # noqa: BLE001 - unknown errors block the start, verbatim
            log.warning("starting %s failed: %s", record.id, _text(error))
            self._note_throttling(record.provider, LimitedCall.LAUNCH, error)
            if isinstance(error, OSError) or refusal_kind(error) in _ASK_AGAIN:
                return StartAnswered(instance_id=record.id, error=_text(error))
            return StartAnswered(instance_id=record.id, refusal=CallRefused(**self._said(error)))
        log.info("started %s at %s", record.id, record.provider)
        return StartAnswered(instance_id=record.id)

    def _failed(self, intent: IntentRecord, error: Exception, *, first: bool) -> Event:
        log.warning("launch %s at %s refused: %s", intent.id, intent.provider, _text(error))
        kind = refusal_kind(error)
        self._note_throttling(intent.provider, LimitedCall.LAUNCH, error)
        if kind in _ASK_AGAIN or (kind is None and not first):
            return LaunchUnanswered(
                intent=intent,
                message=_text(error),
                kind=kind or BlockKind.UNKNOWN,
                nothing_made=True,
            )
        return LaunchRefused(intent=intent, **self._said(error))

    def _said(self, error: Exception) -> dict[str, Any]:
        """As the fields of `CallRefused`."""
        said = error if isinstance(error, Refusal) else None
        wait_s = said.retry_after_s if said else None
        return {
            "kind": refusal_kind(error) or BlockKind.UNKNOWN,
            "message": _text(error),
            "scope": said.scope if said else None,
            "quota": said.quota if said else "",
            "number": said.number if said else None,
            "until": None if wait_s is None else self._now() + wait_s,
        }

    def _note_throttling(self, provider: str, api: LimitedCall, error: Exception) -> None:
        if isinstance(error, Refusal) and error.kind is BlockKind.THROTTLED:
            self._pacing[provider].throttled(api, error.retry_after_s)

    async def _cancel(self, intent: IntentRecord) -> Event:
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                await self._providers[intent.provider].cancel(intent.handle)
        except Exception as error:  # noqa: BLE001 - asked again until it is confirmed
            log.error("cancelling launch %s failed: %s", intent.handle, _text(error))
            return CancelAnswered(intent=intent, error=_text(error))
        log.info("cancelled launch %s at %s", intent.handle, intent.provider)
        return CancelAnswered(intent=intent)

    async def _make_image(self, order: ImageOrder) -> Event:
        provider = self._providers[order.key.provider]
        try:
            if not isinstance(provider, MakesImages):
                return ImageAnswered(
                    bake_id=order.bake_id, error=f"{provider.name} makes no images", is_final=True
                )
            async with asyncio.timeout(CALL_DEADLINE_S):
                answer = await provider.make_image(order)
        except Exception as error:  # noqa: BLE001 - a failing provider is an answer
            log.warning("image %s of bake %s: %s", order.name, order.bake_id, _text(error))
            self._note_throttling(provider.name, LimitedCall.LAUNCH, error)
            unknown = isinstance(error, OSError) or refusal_kind(error) in _MENDED_BY_PEOPLE
            return ImageAnswered(bake_id=order.bake_id, error=_text(error), is_final=not unknown)
        return ImageAnswered(bake_id=order.bake_id, answer=answer)

    async def _remove_image(self, order: ImageOrder) -> Event:
        provider = self._providers[order.key.provider]
        try:
            nothing_left = not isinstance(provider, MakesImages)
            if isinstance(provider, MakesImages):
                async with asyncio.timeout(CALL_DEADLINE_S):
                    nothing_left = await provider.remove_image(order)
        except Exception as error:  # noqa: BLE001 - asked again until nothing is left
            why = _text(error)
            if self._unremoved.get(order.bake_id) != why:
                log.error("still paid for: removing image %s failed: %s", order.name, why)
            self._unremoved[order.bake_id] = why
            return ImageRemoved(bake_id=order.bake_id, nothing_left=False, error=why)
        self._unremoved.pop(order.bake_id, None)
        return ImageRemoved(bake_id=order.bake_id, nothing_left=nothing_left)

    async def _terminate(
        self, provider: str, instance_ids: tuple[str, ...], failed_boots: Sequence[str]
    ) -> Event:
        listed = ", ".join(instance_ids)
        consoles = await self._consoles(provider, failed_boots[:MOST_CONSOLES])
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                await self._providers[provider].terminate(instance_ids)
            self._pacing[provider].answered(LimitedCall.TERMINATE)
        except Exception as error:  # noqa: BLE001 - asked again until it is confirmed
            log.error("still billing: terminating %s failed: %s", listed, _text(error))
            self._note_throttling(provider, LimitedCall.TERMINATE, error)
            return TerminateAnswered(
                instance_ids=instance_ids, error=_text(error), consoles=consoles
            )
        log.info("terminated %s at %s", listed, provider)
        return TerminateAnswered(instance_ids=instance_ids, consoles=consoles)

    async def _consoles(self, provider: str, instance_ids: Sequence[str]) -> Mapping[str, str]:
        """What they wrote last. They are ended whether or not it can be read."""
        found: dict[str, str] = {}
        try:
            async with asyncio.timeout(CONSOLES_DEADLINE_S):
                for instance_id in instance_ids:
                    found[instance_id] = await self._providers[provider].console(instance_id)
        except Exception as error:  # noqa: BLE001 - it would only have helped
            log.warning("consoles at %s cannot be read: %s", provider, _text(error))
        return {instance_id: said for instance_id, said in found.items() if said}

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _unseen(name: str, started_at: float, error: BaseException) -> ProviderListing:
    kind = refusal_kind(error) or BlockKind.TRANSIENT
    return ProviderListing(
        provider=name, started_at=started_at, found=None, error=_text(error), kind=kind
    )


async def _close(provider: Provider) -> None:
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await provider.close()
    except Exception as error:  # noqa: BLE001 - nobody can do anything about it
        log.warning("closing provider %s failed: %s", provider.name, _text(error))


def _text(error: BaseException) -> str:
    """One line, never empty."""
    silent = f"no answer within {CALL_DEADLINE_S:.0f} s"
    name = silent if isinstance(error, TimeoutError) else type(error).__name__
    return " ".join(str(error).split()) or name
