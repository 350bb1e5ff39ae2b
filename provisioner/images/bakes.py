"""Bakes: one machine is set up as those of its pool, its disk becomes an image, and it is ended. Pure.

    INSTALLING --> IMAGING --> ENDING --> READY
         |            |
         +------------+------> CLEANING --> FAILED

The machine is that of a launch whose intent has the id of the bake, so that it is called, listed, ended and paid for as
every other; it is no capacity, and counts against budgets only. INSTALLING ends when the machine says that it has all;
from the commit of IMAGING on an image may exist. A bake is FAILED only when its machine is gone and nothing of an
image was found, twice; a cancelled one fails, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from provisioner.fleet.builder import FleetStateBuilder
from provisioner.fleet.instances import BootNote, EndKind, EndRequest, InstanceRecord, InstanceState
from provisioner.fleet.launches import PassLaunches
from provisioner.fleet.state import ImageAnswered, ImageRemoved
from provisioner.images.records import BakeRecord, BakeState
from provisioner.providers.images import ImageState, is_bake

INSTALL_WITHIN_S = 3600.0
"""From the launch until the machine says that it has all: so long its token is good."""
IMAGE_WITHIN_S = 2 * 3600.0
"""From then until the image can be used: large disks take long."""
LOOK_EVERY_S = 5.0
IMAGE_GRACE_S = 60.0
"""A call whose answer was lost may still be carried out, and lists may miss what is young: for so long."""
REMOVE_RETRY_CAP_S = 600.0
"""Between two tries to remove an image that may not be removed."""
REMOVING = "removing what there is of the image"
KEPT = 20
"""Bakes that are over are remembered for people: the newest."""


class PassBakes:
    """The bakes of one pass."""

    def __init__(self, builder: FleetStateBuilder, launches: PassLaunches) -> None:
        self.builder = builder
        self._launches = launches
        self.asked: list[BakeRecord] = []
        """Whose launch is to be decided in this pass."""
        self.wishes: list[EndRequest] = []
        self.stopped: set[str] = set()
        """Bakes whose machine was listed as stopped."""

    def ask(self, bake: BakeRecord) -> None:
        """One at a time in each pool: of two that were asked for together the second is dropped."""
        if any(each.pool == bake.pool and not each.is_over for each in self._all()):
            return
        self.builder.bakes[bake.id] = bake
        self.asked.append(bake)

    def installed(self, instance_id: str) -> None:
        """The machine says that it has all. It may say so again."""
        record = self.builder.instances.get(instance_id)
        bake = self.builder.bakes.get(record.intent_id) if record is not None else None
        if bake is not None and bake.state is BakeState.INSTALLING:
            self._put(
                bake,
                state=BakeState.IMAGING,
                instance_id=instance_id,
                installed_at=self.builder.now,
            )

    def cancel(self, bake_id: str, why: str) -> None:
        bake = self.builder.bakes.get(bake_id)
        if bake is not None and bake.state in (BakeState.INSTALLING, BakeState.IMAGING):
            self._fail(bake, why)

    def image_answered(self, event: ImageAnswered) -> None:
        bake = self.builder.bakes.get(event.bake_id)
        if bake is None or bake.state is not BakeState.IMAGING:
            if bake is not None:
                self._put(bake, next_try_at=0.0)
            return
        if event.is_final:
            self._fail(bake, f"the image could not be made: {event.error}")
        elif event.answer is not None and event.answer.state is ImageState.READY:
            self._put(bake, state=BakeState.ENDING, image_id=event.answer.image_id, note="")
        else:
            note = event.answer.note if event.answer is not None else event.error
            self._put(bake, note=note, next_try_at=self.builder.now + LOOK_EVERY_S)

    def image_removed(self, event: ImageRemoved) -> None:
        bake = self.builder.bakes.get(event.bake_id)
        if bake is None or bake.state is not BakeState.CLEANING:
            return
        if event.error:
            wait = min(REMOVE_RETRY_CAP_S, LOOK_EVERY_S * 2.0 ** min(bake.refused_removals, 10))
            self._put(
                bake,
                note=f"its image cannot be removed: {event.error}",
                refused_removals=bake.refused_removals + 1,
                nothing_left_at=None,
                next_try_at=self.builder.now + wait,
            )
            return
        first = bake.nothing_left_at if event.nothing_left else None
        if event.nothing_left and first is None:
            first = self.builder.now
        if first is not None and self.builder.now - first >= IMAGE_GRACE_S:
            self._over(bake, BakeState.FAILED)
            return
        self._put(
            bake,
            note=REMOVING,
            refused_removals=0,
            nothing_left_at=first,
            next_try_at=self.builder.now + LOOK_EVERY_S,
        )

    def step(self, boots: Mapping[str, BootNote]) -> None:
        """After the instances of this pass were stepped."""
        new = {bake.id for bake in self.asked}
        for bake in self._all():
            if bake.id not in new and not bake.is_over:
                self._step(bake, boots)
        for intent in list(self.builder.intents.values()):
            is_unknown = is_bake(intent.id) and intent.id not in self.builder.bakes
            if is_unknown and not intent.is_finished:
                self._launches.cancel_unwanted(intent.id, "its bake is not known")
        self._end_left_over()
        over = sorted((x for x in self._all() if x.is_over), key=lambda x: -x.created_at)
        for bake in over[KEPT:]:
            del self.builder.bakes[bake.id]

    def _end_left_over(self) -> None:
        """A bake is given up while its provider is not configured: the machine ends once that is back."""
        own_rule = (InstanceState.ORPHAN, InstanceState.TERMINATING, InstanceState.GONE)
        for record in self.builder.instances.values():
            if is_bake(record.intent_id) and record.state not in own_rule:
                bake = self.builder.bakes.get(record.intent_id)
                if bake is None or bake.is_over:
                    self._end(record, "its bake is over", EndKind.BAKED)

    def _step(self, bake: BakeRecord, boots: Mapping[str, BootNote]) -> None:
        machine = self._machine(bake)
        if machine is not None:
            bake = self._put(bake, instance_id=machine.id)
            if not machine.is_alive:
                bake = self._put(bake, usd=machine.usd(self.builder.now))
        if bake.state is BakeState.ENDING:
            self._end(machine, "its image was made", EndKind.BAKED)
            if machine is None or not machine.is_alive:
                self._over(bake, BakeState.READY)
            elif not self.builder.catalogue.knows(machine.provider):
                left = (
                    f"{_not_configured(bake)}: its machine {machine.id} is ended once that is back"
                )
                self._over(self._put(bake, error=left), BakeState.READY)
            return
        if bake.state is not BakeState.CLEANING:
            why = self._failure(bake, machine, boots)
            if not why:
                return
            bake = self._fail(bake, why)
        self._clean(bake, machine)

    def _failure(
        self, bake: BakeRecord, machine: InstanceRecord | None, boots: Mapping[str, BootNote]
    ) -> str:
        """Why nothing will come of it; empty: nothing is wrong."""
        if bake.pool not in self.builder.catalogue.pools:
            return f"pool {bake.pool} is not configured any more"
        if not self.builder.catalogue.knows(bake.offer.key.provider):
            return _not_configured(bake)
        intent = self.builder.intents.get(bake.id)
        if machine is None and (intent is None or intent.is_finished):
            return (intent.message if intent is not None else "") or "its machine is gone"
        if machine is not None and machine.state in (InstanceState.TERMINATING, InstanceState.GONE):
            return machine.reason
        if bake.state is BakeState.INSTALLING and bake.id in self.stopped:
            # It stops only after its word was committed: a master that was down has not heard why.
            return "its machine stopped before everything was installed"
        since, most = bake.created_at, INSTALL_WITHIN_S
        if bake.installed_at is not None:
            since, most = bake.installed_at, IMAGE_WITHIN_S
        if self.builder.now - max(since, self.builder.state.watching_since) <= most:
            return ""
        said = boots[machine.id].words if machine is not None and machine.id in boots else ""
        if bake.state is BakeState.INSTALLING:
            return f"not installed within {most:.0f} s" + (
                f"; the last it said: {said}" * bool(said)
            )
        return f"no image within {most:.0f} s" + (f": {bake.note}" * bool(bake.note))

    def _clean(self, bake: BakeRecord, machine: InstanceRecord | None) -> None:
        kind = EndKind.BOOT if bake.installed_at is None else EndKind.BAKED
        intent = self.builder.intents.get(bake.id)
        if not self.builder.catalogue.knows(bake.offer.key.provider):
            if bake.installed_at is not None:
                left = f"image {bake.name} may be left there"
                why = _not_configured(bake)
                joint = ": " if bake.error == why else f"; {why}: "
                bake = self._put(bake, error=f"{bake.error}{joint}{left}")
            self._over(bake, BakeState.FAILED)
        elif machine is not None and machine.is_alive:
            if bake.error in machine.reason:  # with what its console said last
                bake = self._put(bake, error=machine.reason)
            self._end(machine, bake.error, kind)
        elif intent is not None and not intent.is_finished:
            self._launches.cancel_unwanted(intent.id, bake.error)
        elif bake.installed_at is None:
            self._over(bake, BakeState.FAILED)
        elif not bake.is_removing:
            self._put(
                bake,
                is_removing=True,
                next_try_at=self.builder.now,
                note=REMOVING,
            )

    def _end(self, machine: InstanceRecord | None, why: str, kind: EndKind) -> None:
        if machine is not None and machine.is_alive:
            self.wishes.append(EndRequest(instance_id=machine.id, kind=kind, why=why))

    def _machine(self, bake: BakeRecord) -> InstanceRecord | None:
        return next((x for x in self.builder.instances.values() if x.intent_id == bake.id), None)

    def _fail(self, bake: BakeRecord, why: str) -> BakeRecord:
        return self._put(bake, state=BakeState.CLEANING, error=why, note="")

    def _over(self, bake: BakeRecord, state: BakeState) -> None:
        self._put(bake, state=state, ended_at=self.builder.now, is_removing=False, note="")

    def _put(self, bake: BakeRecord, **changes: Any) -> BakeRecord:
        if any(getattr(bake, name) != value for name, value in changes.items()):
            bake = replace(bake, **changes)
            self.builder.bakes[bake.id] = bake
        return bake

    def _all(self) -> list[BakeRecord]:
        return list(self.builder.bakes.values())


def _not_configured(bake: BakeRecord) -> str:
    return f"provider {bake.offer.key.provider} is not configured any more"
