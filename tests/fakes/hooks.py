"""What a master has of webhooks, on a store: the registry, what is written down, and who delivers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select

from master.core.actor import Actor
from master.core.webhooks.types import ExperimentFacts, Source, WebhookMode, WebhookType
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.webhooks.client import Caller, HttpCaller
from master.webhooks.deliveries import Deliveries
from master.webhooks.registry import WebhookRegistry
from master.webhooks.service import NewTrigger, NewWebhook, WebhookService
from master.webhooks.targets import Targets
from windlass.base.clock import ManualClock
from windlass.base.ids import Ids

KEY = "key"
ANN = Actor(user_id=2, name="ann")
SOURCE = Source(workspace_id=1)
FACTS = ExperimentFacts(
    id=1, state="COMPLETED", name="mnist", duration_s=60, resource_pool="gpu", slots_per_trial=1
)
ENDED = NewTrigger("EXPERIMENT_STATE_CHANGE", {"state": "COMPLETED"})


class Hooks:
    """`restart` is what a new master does with what the old one has left."""

    def __init__(
        self,
        store: Store,
        clock: ManualClock,
        *,
        allowed: Sequence[str] = ("127.0.0.1",),
        caller: Caller | None = None,
    ) -> None:
        self.store, self.clock, self.ids = store, clock, Ids.seeded(1)
        self.targets = Targets(allowed)
        self._caller = caller or HttpCaller(self.targets)

    async def start(self) -> None:
        now = self.clock.now()
        unit = UnitOfWork()
        times = {"created_at": now, "modified_at": now}
        unit.insert(tables.User, {"id": 2, "username": "ann", **times})
        unit.insert(tables.Workspace, {"id": 1, "name": "w", "user_id": 2})
        await self.store.commit(unit)
        await self.restart()

    async def restart(self) -> None:
        self.registry = WebhookRegistry(self.store, self.clock, self.ids)
        await self.registry.load()
        self.deliveries = Deliveries(
            self.store, self.clock, self._caller, registry=self.registry, signing_key=KEY
        )
        self.registry.wake = self.deliveries.wake
        self.service = WebhookService(
            self.store,
            self.clock,
            self.ids,
            registry=self.registry,
            targets=self.targets,
            caller=self._caller,
            signing_key=KEY,
        )

    async def create(self, url: str, *triggers: NewTrigger) -> int:
        new = NewWebhook(
            name="chat",
            url=url,
            type=WebhookType.DEFAULT,
            mode=WebhookMode.WORKSPACE,
            workspace_id=None,
            triggers=triggers or [ENDED],
        )
        return await self.service.create(new, by=ANN)

    async def ended(self, *experiments: int) -> None:
        """One commit for each: nobody is told before."""
        for id_ in experiments:
            await self.store.commit(self.registry.state_changed(SOURCE, replace(FACTS, id=id_)))
        self.deliveries.wake()

    async def deliver(self) -> None:
        """Everything that is due now."""
        await self.deliveries.step()
        await self.deliveries.settle()

    async def events(self) -> list[tables.WebhookEvent]:
        return await self.store.read(select(tables.WebhookEvent).order_by(tables.WebhookEvent.id))
