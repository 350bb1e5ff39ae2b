"""An elastic pool without a cloud: instances are processes on this machine (`embedded_instances`).

It has what real providers have: types in zones and markets, stock that runs out, queues (`embedded_queue`), notices,
and every fault (`embedded_faults`). For demos, tests and trying settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import (
    Accepted,
    AnswersAtOnce,
    FoundGroup,
    Inventory,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
)
from provisioner.providers.embedded_faults import Call, How, SiteFaults
from provisioner.providers.embedded_instances import HOST_ARGV, Instances
from provisioner.providers.embedded_queue import QueuedLaunch, SiteQueue
from provisioner.providers.errors import Refusal, refusal_kind
from provisioner.types import Market, Offer, OfferKey, Scope
from windlass.base.clock import Clock
from windlass.base.errors import CapacityError, ProviderError, WindlassError
from windlass.base.formats.json_types import JsonMapping

REGION = "local"
"""Of every embedded offer. What costs money has another."""
BOOT_ALLOWANCE_S = 3.0
"""What starting two Python processes and connecting takes on top of the configured boot time."""
LIST_EVERY_S = 1.0
LOOK_AGAIN_S = 30.0
"""How long a queued launch is left alone at most."""
THREADS = 8
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A kind of instance that a pool can launch. Its price is invented."""

    name: str
    slots: int
    usd_per_hour: float
    boot_s: float
    available: int | None = None
    """More than so many at once are refused as a stock-out; None: no limit."""
    market: Market = Market.ON_DEMAND
    zone: str = ""
    queue_s: float = 0.0
    """Launches are accepted, and delivered so much later. 0: made at once."""
    disk_usd_per_hour: float = 0.0
    """What one costs while it is stopped."""


class EmbeddedProvider(AnswersAtOnce):
    """One site: the instances under one directory. Process and file work happens in threads."""

    list_grace_s = 0.0

    def __init__(
        self,
        *,
        root: Path,
        name: str,
        cluster_id: str,
        clock: Clock,
        types: Mapping[str, Sequence[InstanceType]],
        master_url: str,
        join_token: Callable[[LaunchIntent, Sequence[str]], str],
        host_argv: Sequence[str] = HOST_ARGV,
        master_cert: Path | None = None,
        list_every_s: float = LIST_EVERY_S,
    ) -> None:
        """`types`: what each pool may buy. `master_cert`: a file with the certificate that the master shows, for an
        https `master_url`.
        """
        self.list_every_s = list_every_s
        self._name = name
        self._cluster_id = cluster_id
        self._clock = clock
        self._master_url = master_url
        self._join_token = join_token
        self._master_cert = master_cert
        self.sell(types)
        self._instances = Instances(root, clock, host_argv)
        self._queue = SiteQueue(root)
        self._faults = SiteFaults(root)
        # Threads of its own: ending hosts may take seconds each and must not starve anybody else.
        self._threads: ThreadPoolExecutor | None = None

    def sell(self, types: Mapping[str, Sequence[InstanceType]]) -> None:
        """What each pool may buy from now on."""
        sold = [type_ for kinds in types.values() for type_ in kinds]
        self._types = {offer_of(self._name, type_).key: type_ for type_ in sold}
        self._offers = {
            pool: tuple(offer_of(self._name, type_) for type_ in kinds)
            for pool, kinds in types.items()
        }

    @property
    def name(self) -> str:
        return self._name

    def offers(self, pool: str) -> Sequence[Offer] | None:
        return self._offers.get(pool, ())

    async def open(self) -> None:
        self._threads = self._threads or ThreadPoolExecutor(
            THREADS, thread_name_prefix=f"embedded-{self._name}"
        )
        await self._call(Call.OPEN, lambda: None)

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        cert = {} if self._master_cert is None else {"master_cert": str(self._master_cert)}
        return {
            "boot_s": max(0.0, intent.offer.boot_s - BOOT_ALLOWANCE_S),
            "agent": {
                "master_url": self._master_url,
                "resource_pool": intent.pool,
                "artificial_slots": intent.offer.slots,
                "security": {"tls": cert},
            },
        }

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        return await self._call(Call.LAUNCH, partial(self._launch, intent), intent.offer.key)

    async def answer(self, handle: str) -> LaunchAnswer:
        queued = await self._in_thread(partial(self._queue.get, handle))
        if queued is None:
            raise Refusal(BlockKind.CAPACITY, "the request ended without a machine")
        key = queued.intent.offer.key
        try:
            return await self._call(Call.ANSWER, partial(self._answer, handle), key)
        except WindlassError as error:
            if refusal_kind(error) not in (None, BlockKind.THROTTLED, BlockKind.TRANSIENT):
                await self._in_thread(partial(self._queue.drop, handle))
            raise

    async def cancel(self, handle: str) -> None:
        await self._call(Call.CANCEL, partial(self._cancel, handle))

    async def list(self) -> Inventory:
        return await self._call(Call.LIST, self._list)

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        await self._call(Call.TERMINATE, lambda: None)
        await asyncio.gather(
            *(self._in_thread(partial(self._instances.terminate, id_)) for id_ in instance_ids)
        )

    async def stop(self, instance_id: str) -> None:
        await self._call(Call.STOP, partial(self._instances.stop, instance_id))

    async def start(self, instance_id: str, offer: Offer) -> None:
        await self._call(Call.START, partial(self._start, instance_id, offer), offer.key)

    def _start(self, instance_id: str, offer: Offer) -> None:
        with self._instances.lock:
            if self._instances.is_stopped(instance_id):
                self._require_capacity(replace(offer.key, stopped=False), [instance_id])
            self._instances.start(instance_id)

    async def _call(self, call: Call, work: Callable[[], _T], key: OfferKey | None = None) -> _T:
        """Carry it out, unless something is to go wrong with it."""
        fault = await self._in_thread(partial(self._faults.next, call, key))
        if fault is None:
            return await self._in_thread(work)
        match fault.how:
            case How.HANG:
                await asyncio.Event().wait()
            case How.LOSE:
                await self._in_thread(work)
                raise TimeoutError("the answer was lost")
            case How.DROP:
                raise TimeoutError("the call was lost")
        raise fault.refusal()

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        if self._threads is None:
            raise ProviderError(f"provider {self._name} is not open")
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _launch(self, intent: LaunchIntent) -> LaunchAnswer:
        with self._instances.lock:
            if self._queue.get(intent.token) is not None:
                return self._answer(intent.token)
            type_ = self._types.get(intent.offer.key)  # None: removed from the configuration since
            if type_ is None or not type_.queue_s:
                return self._make(intent)
            launch = QueuedLaunch(intent=intent, due=self._now() + type_.queue_s)
            self._queue.put(launch)
            return self._accepted(launch)

    def _make(self, intent: LaunchIntent) -> LaunchResult:
        ids = _ids(intent)
        with self._instances.lock:
            self._require_capacity(intent.offer.key, ids)
            self._instances.make(intent, ids, self._join_token(intent, ids))
        return LaunchResult(instance_ids=ids)

    def _require_capacity(self, key: OfferKey, ids: Sequence[str]) -> None:
        type_ = self._types.get(key)
        if type_ is None or type_.available is None:
            return
        running = self._instances.of_offer(key)
        if len(running | set(ids)) > type_.available:
            left = max(0, type_.available - len(running - set(ids)))
            raise CapacityError(
                f"{type_.name} is out of stock: requested {len(ids)}, available {left}"
            )

    def _answer(self, handle: str) -> LaunchAnswer:
        with self._instances.lock:
            launch = self._queue.get(handle)
            if launch is None:
                raise Refusal(BlockKind.CAPACITY, "the request ended without a machine")
            if launch.delivered:
                return LaunchResult(instance_ids=_ids(launch.intent))
            if launch.due > self._now():
                return self._accepted(launch)
            return self._deliver(launch)

    def _deliver(self, launch: QueuedLaunch) -> LaunchResult:
        # What its machines join with is good for a while from now on, however long it waited.
        since = max(launch.intent.created_at, launch.due)
        result = self._make(replace(launch.intent, created_at=since))
        self._queue.put(launch.model_copy(update={"delivered": True}))
        return result

    def _cancel(self, handle: str) -> None:
        with self._instances.lock:
            launch = self._queue.get(handle)
            if launch is None:
                return
            self._queue.drop(handle)
        for instance_id in _ids(launch.intent) if launch.delivered else ():
            self._instances.terminate(instance_id)

    def _list(self) -> Inventory:
        with self._instances.lock:
            waiting = [launch for launch in self._queue.all() if self._still_waits(launch)]
            found = self._instances.found(self._cluster_id)
        hidden = self._faults.hidden_zones()
        return Inventory(
            instances=tuple(x for x in found if x.offer_key.zone not in hidden),
            groups=tuple(
                FoundGroup.of(one.intent, self._accepted(one), one.intent.created_at)
                for one in waiting
            ),
            unseen={Scope(provider=self._name, zone=zone): why for zone, why in hidden.items()},
        )

    def _still_waits(self, launch: QueuedLaunch) -> bool:
        """The site delivers what is due whether or not anybody asks, and forgets what it delivered and is gone."""
        if launch.delivered:
            if not any(map(self._instances.exists, _ids(launch.intent))):
                self._queue.drop(launch.intent.token)
            return False
        if launch.due > self._now() or launch.intent.cluster_id != self._cluster_id:
            return launch.intent.cluster_id == self._cluster_id
        try:
            self._deliver(launch)
        except CapacityError:
            return True  # when there is room again
        return False

    def _accepted(self, launch: QueuedLaunch) -> Accepted:
        left = launch.due - self._now()
        return Accepted(
            handle=launch.intent.token,
            look_again_s=min(LOOK_AGAIN_S, max(1.0, left)),
            reason="(Resources)",
            starts_at=launch.due,
        )

    def _now(self) -> float:
        return self._clock.now().timestamp()


def offer_of(provider: str, type_: InstanceType) -> Offer:
    """What a pool may buy at a site that has that kind of instance."""
    key = OfferKey(
        provider=provider,
        region=REGION,
        zone=type_.zone,
        instance_type=type_.name,
        market=type_.market,
    )
    offer = Offer(
        key=key,
        slots=type_.slots,
        usd_per_hour=type_.usd_per_hour,
        boot_s=type_.boot_s + BOOT_ALLOWANCE_S,
        can_stop=type_.market is Market.ON_DEMAND,
        disk_usd_per_hour=type_.disk_usd_per_hour,
    )
    return replace(offer, queue_deadline_s=None) if type_.queue_s else offer


def _ids(intent: LaunchIntent) -> tuple[str, ...]:
    return tuple(f"{intent.pool}-{intent.token[:8]}-{i}" for i in range(intent.count))
