"""A reconcile pass without its I/O: what the answers of providers mean, and what follows from a plan. Pure.

    absorb(events) -> plan_input -> plan() -> apply(plan), end(wishes) -> commit -> due calls -> events -> ...

The order keeps the promises: an intent is in the committed state before its call is due, an instance is TERMINATING
there before its call is due, and a machine that is gone stays there until everybody who must know was told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from provisioner.fleet import (
    UNHEALTHY_WINDOW_S,
    EndKind,
    InstanceRecord,
    InstanceState,
    IntentRecord,
    IntentState,
    Listing,
    Observation,
    Rules,
    Wish,
    launch_token,
    may_end_lost,
    step,
    terminating,
)
from provisioner.fleet_state import (
    Agents,
    Catalogue,
    Event,
    FleetState,
    Launched,
    LaunchRefused,
    LaunchUnanswered,
    Looked,
    TerminateAnswered,
    Told,
)
from provisioner.plan_types import Plan
from provisioner.providers.base import FoundInstance, FoundState
from provisioner.refusals import BlockKind, scope_of
from provisioner.types import Offer, Scope

RETRY_FIRST_S = 1.0
RETRY_CAP_S = 30.0
GIVE_UP_AFTER_S = 120.0
GIVE_UP_TRIES = 3
"""A launch that was never answered is given up after so many tries and so long, if a list shows none of it."""


class ReconcilePass:
    """A state being changed: collects the changes of one pass and freezes them at the end. For one call only."""

    def __init__(self, state: FleetState, catalogue: Catalogue, now: float) -> None:
        self._state = state
        self._catalogue = catalogue
        self._now = now
        self._intents = dict(state.intents)
        self._instances = dict(state.instances)
        self._memory = state.memory
        self._ledger = state.ledger
        self._unseen = dict(state.unseen)
        self._ended_lost = tuple(t for t in state.ended_lost if now - t < UNHEALTHY_WINDOW_S)
        self._frozen = state.frozen
        self._seen: dict[str, Observation] = {}
        self.wishes: list[Wish] = []
        self.leaving: dict[str, tuple[float, str]] = {}
        """Machines that their provider takes back: when, and why."""

    def result(self) -> FleetState:
        living = [record for record in self._instances.values() if record.is_alive]
        ledger = self._ledger.with_fleet(
            instances=len(living),
            usd_per_hour=sum(record.offer.usd_per_hour for record in living),
            now=self._now,
        )
        return replace(
            self._state,
            intents=self._intents,
            instances=self._instances,
            memory=self._memory,
            ledger=ledger,
            unseen=self._unseen,
            ended_lost=self._ended_lost,
            frozen=self._frozen,
        )

    def absorb(self, events: Sequence[Event], agents: Agents) -> None:
        """Take in what calls answered, then step every instance once."""
        for event in events:
            match event:
                case Looked():
                    self._looked(event)
                case Launched():
                    self._launched(event.intent, event.instance_ids)
                case LaunchRefused():
                    self._refused(event.intent, event.kind, event.message)
                case LaunchUnanswered():
                    self._unanswered(event.intent, event.message)
                case TerminateAnswered():
                    self._terminate_answered(event)
                case Told():
                    self._told(event.instance_id)
        for record in list(self._instances.values()):
            self._step(record, agents)

    def _looked(self, look: Looked) -> None:
        whole = Scope(provider=look.provider)
        if look.found is None:
            self._unseen[whole] = f"the machines of {look.provider} cannot be listed: {look.error}"
            return
        for scope in [scope for scope in self._unseen if scope.provider == look.provider]:
            del self._unseen[scope]
        self._unseen |= {
            replace(scope, provider=look.provider): f"{look.provider} cannot list them: {why}"
            for scope, why in look.found.unseen.items()
        }
        found = {
            instance.instance_id: instance
            for instance in look.found.instances
            if instance.cluster_id == self._state.cluster_id
            and instance.offer_key.provider == look.provider
        }
        self._settle_intents(look, found)
        for instance in found.values():
            if instance.instance_id not in self._instances and instance.state != FoundState.ENDED:
                self._unknown(look, instance)
        self.leaving |= {
            instance.instance_id: (instance.leaves_at, instance.leaves_because)
            for instance in found.values()
            if instance.leaves_at is not None and instance.state != FoundState.ENDED
        }
        for record in self._instances.values():
            if record.provider != look.provider:
                continue
            if record.id in found or not self._is_unseen(record.offer):
                self._seen[record.id] = _observed(look, found.get(record.id))

    def _is_unseen(self, offer: Offer) -> bool:
        return any(scope.covers(offer) for scope in self._unseen)

    def _settle_intents(self, look: Looked, found: Mapping[str, FoundInstance]) -> None:
        """A list may answer a launch whose reply was lost, or show that there is nothing to wait for."""
        by_intent: dict[str, list[str]] = {}
        for instance in found.values():
            if instance.state != FoundState.ENDED and instance.instance_id not in self._instances:
                by_intent.setdefault(instance.intent_id, []).append(instance.instance_id)
        for intent in list(self._intents.values()):
            if intent.provider != look.provider or intent.state is not IntentState.CALLED:
                continue
            ids = sorted(by_intent.get(intent.id, ()))
            if len(ids) >= intent.count:
                self._launched(intent, tuple(ids))
            elif self._is_hopeless(intent, look):
                # Part of a group is no group: what is there is nobody's, and ended like anything that is.
                part = f" ({len(ids)} of {intent.count} exist)" if ids else ""
                self._refused(intent, BlockKind.UNKNOWN, f"no answer: {intent.message}{part}")

    def _is_hopeless(self, intent: IntentRecord, look: Looked) -> bool:
        if intent.next_try_at == inf or look.started_at <= intent.last_reply_at:
            return False
        if self._is_unseen(intent.offer):
            return False
        age = self._now - intent.created_at
        if self._state.closing:
            return age >= self._catalogue.grace_of(intent.provider)
        return intent.tries >= GIVE_UP_TRIES and age >= GIVE_UP_AFTER_S

    def _unknown(self, look: Looked, found: FoundInstance) -> None:
        """Ours by tag, but not in our books."""
        if found.intent_id in self._intents:
            return  # the reply to its launch will name it
        ours = found.generation == self._state.generation
        self._instances[found.instance_id] = InstanceRecord(
            id=found.instance_id,
            pool=found.pool,
            offer=self._offer(found),
            intent_id=found.intent_id,
            generation=found.generation,
            created_at=min(found.created_at, self._now),
            state=InstanceState.ORPHAN if ours else InstanceState.BOOTING,
            reason="nobody asked for it" if ours else "adopted: another master launched it",
        )

    def _offer(self, found: FoundInstance) -> Offer:
        """What is for sale now, or else what its tags say; a price that nobody knows is the dearest of its size."""
        setup = self._catalogue.pools.get(found.pool)
        offer = setup.offer(found.offer_key) if setup is not None else None
        if offer is not None:
            return offer
        slots = found.slots or 0
        usd = found.usd_per_hour
        return Offer(
            key=found.offer_key,
            slots=slots,
            usd_per_hour=self._catalogue.dearest_usd(slots) if usd is None else usd,
            boot_s=0.0,
        )

    def _launched(self, intent: IntentRecord, instance_ids: Sequence[str]) -> None:
        known = self._intents.get(intent.id)
        if known is not None:
            if known.is_finished:
                return
            self._intents[intent.id] = replace(known, state=IntentState.ANSWERED)
            intent = known
        self._memory = self._memory.launched(intent.offer)
        created_at = intent.created_at if intent.called_at is None else intent.called_at
        for number, instance_id in enumerate(instance_ids):
            if instance_id not in self._instances:
                self._instances[instance_id] = InstanceRecord(
                    id=instance_id,
                    pool=intent.pool,
                    offer=intent.offer,
                    intent_id=intent.id,
                    generation=intent.generation,
                    created_at=created_at,
                    claims=intent.claims[number] if number < intent.count else (),
                )

    def _refused(self, intent: IntentRecord, kind: BlockKind, message: str) -> None:
        known = self._intents.get(intent.id)
        if known is None or known.is_finished:
            return
        self._intents[intent.id] = replace(known, state=IntentState.FAILED, message=message)
        scope = scope_of(kind, intent.offer)
        self._memory = self._memory.refused(scope, kind, message, now=self._now)

    def _unanswered(self, intent: IntentRecord, message: str) -> None:
        known = self._intents.get(intent.id)
        if known is None or known.is_finished:
            return
        wait = min(RETRY_CAP_S, RETRY_FIRST_S * 2.0 ** min(known.tries, 10))
        self._intents[intent.id] = replace(
            known, next_try_at=self._now + wait, last_reply_at=self._now, message=message
        )

    def _terminate_answered(self, answer: TerminateAnswered) -> None:
        for instance_id in answer.instance_ids:
            record = self._instances.get(instance_id)
            if record is None or record.state is not InstanceState.TERMINATING:
                continue
            if answer.error is None:
                # Lists that missed it before the provider agreed prove nothing about its end.
                acked = record.terminate_acked_at or self._now
                missed = record.missed_looks if record.terminate_acked_at else 0
                record = replace(record, terminate_acked_at=acked, missed_looks=missed)
            self._instances[instance_id] = record

    def _told(self, instance_id: str) -> None:
        record = self._instances.get(instance_id)
        if record is not None and not record.told and not record.is_alive:
            self._instances[instance_id] = replace(record, told=True)
            self._ledger = self._ledger.with_gone(record.usd(self._now))

    def _step(self, record: InstanceRecord, agents: Agents) -> None:
        seen = replace(
            self._seen.get(record.id, Observation()),
            connected=agents.is_connected(record.id),
            busy=agents.is_busy(record.id),
        )
        rules = Rules(
            boot_deadline_s=self._memory.boot_deadline_s(record.offer),
            list_grace_s=self._catalogue.grace_of(record.provider),
            watching_since=self._state.watching_since,
        )
        stepped = step(record, seen, self._now, rules)
        new = stepped.record
        if stepped.wish is not None:
            self.wishes.append(stepped.wish)
        was_booting = record.state in (InstanceState.PENDING, InstanceState.BOOTING)
        timed = record.created_at >= self._state.watching_since
        if was_booting and timed and new.state is InstanceState.READY:
            self._memory = self._memory.booted(record.offer, self._now - record.created_at)
        if was_booting and new.state is InstanceState.GONE:
            self._memory = self._memory.boot_failed(record.offer, new.reason, now=self._now)
        self._instances[record.id] = new

    def apply(self, plan: Plan, new_id: Callable[[], str]) -> None:
        """Write down what the plan wants bought, and which gangs claim what is coming."""
        for launch in plan.launches:
            intent_id = new_id()
            self._intents[intent_id] = IntentRecord(
                id=intent_id,
                pool=launch.pool,
                offer=launch.offer,
                token=launch_token(
                    self._state.cluster_id, intent_id, launch.pool, launch.offer, launch.count
                ),
                generation=self._state.generation,
                created_at=self._now,
                claims=launch.claims,
            )
        for name, claims in plan.claims.items():
            record = self._instances.get(name)
            if record is not None:
                self._instances[name] = replace(record, claims=claims)
            else:
                intent_id, _, number = name.rpartition("/")
                self._claim_asked(intent_id, int(number), claims)

    def _claim_asked(self, intent_id: str, number: int, claims: tuple[str, ...]) -> None:
        intent = self._intents.get(intent_id)
        if intent is not None:
            changed = [*intent.claims]
            changed[number] = claims
            self._intents[intent_id] = replace(intent, claims=tuple(changed))

    def end(self, wishes: Sequence[Wish], cordon: Callable[[str], bool]) -> list[str]:
        """Mark for ending what could be cordoned; the ids that were. Lost ones within the blast-radius limit."""
        fleet = sum(record.is_alive for record in self._instances.values())
        lost_left = may_end_lost(len(self._ended_lost), fleet)
        held = 0
        ended: list[str] = []
        for wish in wishes:
            record = self._instances.get(wish.instance_id)
            if record is None or record.state in (InstanceState.TERMINATING, InstanceState.GONE):
                continue
            if wish.kind is EndKind.LOST and lost_left <= 0:
                held += 1
                continue
            if not cordon(wish.instance_id):
                continue
            ended.append(wish.instance_id)
            self._instances[wish.instance_id] = terminating(record, wish.why, self._now)
            if wish.kind is EndKind.LOST:
                lost_left -= 1
                self._ended_lost = (*self._ended_lost, self._now)
            if wish.kind is EndKind.BOOT:
                self._memory = self._memory.boot_failed(record.offer, wish.why, now=self._now)
        self._frozen = f"{held} silent instances are kept: too many at once" if held else ""
        return ended

    def drop_uncalled(self) -> None:
        """The provisioner closes: what was not asked for yet is not asked for any more."""
        for intent in list(self._intents.values()):
            if intent.state is IntentState.INTENT:
                self._intents[intent.id] = replace(
                    intent, state=IntentState.FAILED, message="closing"
                )


def _observed(look: Looked, found: FoundInstance | None) -> Observation:
    if found is None:
        return Observation(listing=Listing.ABSENT, looked_at=look.started_at)
    listing = {
        FoundState.PENDING: Listing.PENDING,
        FoundState.RUNNING: Listing.RUNNING,
        FoundState.ENDED: Listing.ENDED,
    }[found.state]
    return Observation(listing=listing, looked_at=look.started_at, detail=found.detail)
