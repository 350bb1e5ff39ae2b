"""A reconcile pass without its I/O: what the answers of providers mean, and what follows from a plan. Pure.

    absorb(events) -> plan_input -> plan() -> apply(plan), end(wishes) -> commit -> due calls -> events -> ...

The order keeps the promises: an intent is in the committed state before its call is due, an instance is TERMINATING
there before its call is due, and a machine that is gone stays there until everybody who must know was told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from provisioner.capacity.refusals import BlockKind, Unseen
from provisioner.fleet.builder import FleetStateBuilder
from provisioner.fleet.instances import (
    BOOTS,
    CONSOLE_SAYS,
    UNHEALTHY_WINDOW_S,
    EndKind,
    EndRequest,
    InstanceRecord,
    InstanceState,
    ListedAs,
    Observation,
    Rules,
    is_steady,
    may_end_lost,
    shows_as_before,
    step,
    terminating,
)
from provisioner.fleet.launches import Freeze, PassLaunches
from provisioner.fleet.notices import end_of_taken_back, notice_of, noticed, spared
from provisioner.fleet.state import (
    Agents,
    BakeAsked,
    BakeCancelled,
    BakeInstalled,
    CancelAnswered,
    EndAcknowledged,
    Event,
    FleetCatalogue,
    FleetState,
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
    TryAgain,
)
from provisioner.fleet.stop_answers import Stops
from provisioner.fleet.stops import cannot_stop, never_started, stopping, switched
from provisioner.images.bakes import PassBakes
from provisioner.planning.plan_types import Launch, Move, Plan
from provisioner.planning.scale_down.stop_value import start_of
from provisioner.providers.base import FoundInstance, FoundState
from provisioner.providers.images import is_bake
from provisioner.types import Notice, Offer, Scope

_UNLISTED = {
    (connected, busy): Observation(connected=connected, busy=busy)
    for connected in (True, False)
    for busy in (True, False, None)
}
"""Of machines that no new list says anything about."""


class ReconcilePass:
    """A state being changed: collects the changes of one pass and freezes them at the end. For one call only."""

    def __init__(self, state: FleetState, catalogue: FleetCatalogue, now: float) -> None:
        self.builder = FleetStateBuilder(state, catalogue, now)
        self.launches = PassLaunches(self.builder)
        self.bakes = PassBakes(self.builder, self.launches)
        self.stops = Stops(self.builder)
        self._ledger = state.ledger
        self._ended_lost = tuple(t for t in state.ended_lost if now - t < UNHEALTHY_WINDOW_S)
        self._frozen = state.frozen
        self._seen: dict[str, Observation] = {}
        self._rules: dict[tuple[str, int], Rules] = {}
        self._rules_of = self.builder.memory
        self._sold = catalogue.retired()
        self._is_sold_of: dict[tuple[str, int], bool] = {}
        self._retired: dict[str, str] = {}
        self.wishes: list[EndRequest] = []
        self._notices: dict[str, Notice] = {}
        """Machines that their provider takes back, as it lists them."""
        self._started: list[str] = []

    def result(self) -> FleetState:
        running, usd_per_hour = 0, 0.0
        for record in self.builder.instances.values():
            if record.state is not InstanceState.GONE:
                running += record.state is not InstanceState.STOPPED
                usd_per_hour += record.usd_per_hour
        ledger = self._ledger.with_fleet(
            instances=running, usd_per_hour=usd_per_hour, now=self.builder.now
        )
        return replace(
            self.builder.state,
            intents=self.builder.intents,
            instances=self.builder.instances,
            bakes=self.builder.bakes,
            memory=self.builder.memory,
            ledger=ledger,
            unseen=self.builder.unseen,
            stages={
                id_: it for id_, it in self.builder.stages.items() if id_ in self.builder.instances
            },
            ended_lost=self._ended_lost,
            frozen=self._frozen,
            retired=self._retired,
        )

    @property
    def started(self) -> list[str]:
        """Stopped machines that get work again, whoever started them."""
        return [name for name in self._started if self.builder.instances[name].state in BOOTS]

    def absorb(self, events: Sequence[Event], agents: Agents) -> None:
        """Take in what calls answered, then step every instance once."""
        for event in events:
            match event:
                case ProviderListing():
                    self._looked(event)
                case Launched():
                    self.launches.launched(event.intent, event.instance_ids, event.started_at)
                case LaunchAccepted():
                    self.launches.accepted(event)
                case LaunchRefused():
                    self.launches.refused(event)
                case LaunchUnanswered():
                    self.launches.unanswered(event)
                case TokenIsSpent():
                    self.launches.token_spent(event)
                case CancelAnswered():
                    self.launches.cancelled(event)
                case TerminateAnswered():
                    self._terminate_answered(event)
                case StopAnswered():
                    self.wishes += self.stops.stop_answered(event)
                case StartAnswered():
                    self.stops.start_answered(event)
                case EndAcknowledged():
                    self._told(event.instance_id)
                case TryAgain():
                    self.builder.memory = self.builder.memory.cleared(event.scope)
                case BakeAsked():
                    self.bakes.ask(event.bake)
                case BakeInstalled():
                    self.bakes.installed(event.instance_id)
                case BakeCancelled():
                    self.bakes.cancel(event.bake_id, event.why)
                case ImageAnswered():
                    self.bakes.image_answered(event)
                case ImageRemoved():
                    self.bakes.image_removed(event)
        for intent in list(self.builder.intents.values()):
            if not intent.is_finished and not self.builder.catalogue.knows(intent.provider):
                self.launches.abandon(intent)
                continue
            self.launches.give_up_late(intent)
            why = self._sold.because(intent.pool, intent.offer.key)
            # Before its provider was listed it may have machines that work already.
            if why and not is_bake(intent.id) and not self.builder.is_unseen(intent.offer):
                self.launches.cancel(intent.id, why)
        for record in list(self.builder.instances.values()):
            if not self._is_quiet(record, agents):
                self._step(record, agents)
        self.bakes.step(agents.boots)
        self.wishes += self.bakes.wishes

    def _looked(self, look: ProviderListing) -> None:
        whole = Scope(provider=look.provider)
        if look.found is None:
            self.builder.unseen[whole] = Unseen(look.error, look.kind)
            return
        for scope in [scope for scope in self.builder.unseen if scope.provider == look.provider]:
            del self.builder.unseen[scope]
        self.builder.unseen |= {
            replace(scope, provider=look.provider): Unseen(why, BlockKind.TRANSIENT)
            for scope, why in look.found.unseen.items()
        }
        found = {
            instance.instance_id: instance
            for instance in look.found.instances
            if instance.cluster_id == self.builder.state.cluster_id
            and instance.offer_key.provider == look.provider
        }
        groups = {
            group.intent_id: group
            for group in look.found.groups
            if group.cluster_id == self.builder.state.cluster_id
            and group.offer_key.provider == look.provider
        }
        self.launches.settle(look, found, groups)
        for instance in found.values():
            if (
                instance.instance_id not in self.builder.instances
                and instance.state != FoundState.ENDED
            ):
                self._unknown(look, instance)
        self.bakes.stopped |= {
            instance.intent_id
            for instance in found.values()
            if instance.state is FoundState.STOPPED and is_bake(instance.intent_id)
        }
        for instance in found.values():
            if (notice := notice_of(instance)) is not None:
                self._notices[instance.instance_id] = notice
        for record in self.builder.instances.values():
            if record.provider != look.provider:
                continue
            seen = found.get(record.id)
            self.builder.stages.pop(record.id, None)
            if seen is not None and seen.stage:
                self.builder.stages[record.id] = seen.stage
            if record.id in found or not self.builder.is_unseen(record.offer):
                self._seen[record.id] = _observed(look, seen)

    def _unknown(self, look: ProviderListing, found: FoundInstance) -> None:
        """Ours by tag, but unknown here."""
        if found.intent_id in self.builder.intents:
            return  # the reply to its launch will name it
        ours = found.generation == self.builder.state.generation or is_bake(found.intent_id)
        self.builder.instances[found.instance_id] = InstanceRecord(
            id=found.instance_id,
            pool=found.pool,
            offer=self.builder.offer_of(found),
            intent_id=found.intent_id,
            generation=found.generation,
            created_at=min(found.created_at, self.builder.now),
            state=InstanceState.ORPHAN if ours else InstanceState.BOOTING,
            reason="nobody asked for it" if ours else "adopted: another master launched it",
        )

    def _terminate_answered(self, answer: TerminateAnswered) -> None:
        for instance_id in answer.instance_ids:
            record = self.builder.instances.get(instance_id)
            if record is None or record.state is not InstanceState.TERMINATING:
                continue
            if answer.error is None:
                # Lists that missed it before the provider agreed prove nothing about its end.
                acked = record.terminate_acked_at or self.builder.now
                missed = record.missed_looks if record.terminate_acked_at else 0
                record = replace(record, terminate_acked_at=acked, missed_looks=missed)
            record = replace(record, terminate_refused=answer.error or "")
            if said := answer.consoles.get(instance_id):
                why = f"{record.reason}; {CONSOLE_SAYS}: {said}"
                self.builder.memory = self.builder.memory.boot_said(
                    record.offer, record.reason, why
                )
                record = replace(record, reason=why)
            self.builder.instances[instance_id] = record

    def _told(self, instance_id: str) -> None:
        record = self.builder.instances.get(instance_id)
        if record is not None and not record.told and not record.is_alive:
            self.builder.instances[instance_id] = replace(record, told=True)
            self._ledger = self._ledger.with_gone(
                record.pool, record.usd_between, *record.billed(self.builder.now)
            )

    def _is_quiet(self, record: InstanceRecord, agents: Agents) -> bool:
        """It works or idles as before, and no new list says anything new of it: a step would change nothing."""
        if record.state is not InstanceState.READY or record.id in self._notices:
            return False
        seen = self._seen.get(record.id)
        if seen is not None and not shows_as_before(record, seen):
            return False
        node = agents.nodes.get(record.id)
        if record.notice is not None or (node is not None and node.notice is not None):
            return False
        connected, busy = agents.is_connected(record.id), agents.is_busy(record.id)
        return is_steady(record, connected, busy) and self._is_sold(record)

    def _is_sold(self, record: InstanceRecord) -> bool:
        """Machines share few offers: looked up once for each."""
        key = record.pool, id(record.offer)
        known = self._is_sold_of.get(key)
        if known is None:
            known = self._sold.because(record.pool, record.offer.key) is None
            self._is_sold_of[key] = known
        return known

    def _step(self, record: InstanceRecord, agents: Agents) -> None:
        connected, busy = agents.is_connected(record.id), agents.is_busy(record.id)
        seen = self._seen.get(record.id)
        seen = (
            _UNLISTED[connected, busy]
            if seen is None
            else replace(seen, connected=connected, busy=busy)
        )
        if (boot := agents.boots.get(record.id)) is not None:
            seen = replace(seen, boot=boot)
        before = record.notice
        record = noticed(record, self._notices.get(record.id), agents.nodes.get(record.id))
        if record.notice is not before:
            self.builder.memory = spared(self.builder.memory, record, self.builder.now)
        now, rules = self.builder.now, self._rules_for(record)
        stepped = step(record, seen, now, rules)
        new = switched(stepped.record, seen, now, rules)
        self.wishes += [x for x in (stepped.wish, cannot_stop(new, now)) if x is not None]
        was_booting = record.state in BOOTS
        timed = record.boot_since >= self.builder.state.watching_since
        if was_booting and timed and new.state is InstanceState.READY:
            took_s = now - record.boot_since
            self.builder.memory = self.builder.memory.booted(self._boot_offer(record), took_s)
        if was_booting and new.state is InstanceState.GONE and not is_bake(new.intent_id):
            self.builder.memory = self.builder.memory.boot_failed(
                self._boot_offer(record), new.reason, now=now
            )
        self.builder.instances[record.id] = new
        if record.state is InstanceState.STOPPED and new.state is InstanceState.BOOTING:
            self._started.append(record.id)
        if never_started(new, seen):
            self.stops.give_up(new)
        self._retire(new)
        over = (InstanceState.TERMINATING, InstanceState.GONE)
        if new.moving_since is not None and new.state not in over:
            self.wishes.append(
                EndRequest(instance_id=new.id, kind=EndKind.MOVED, why=new.moving_why)
            )
        if (wish := end_of_taken_back(new)) is not None:
            self.wishes.append(wish)

    def _boot_offer(self, record: InstanceRecord) -> Offer:
        """What its boot is remembered by: starts take another time than first boots."""
        return start_of(record.offer, self.builder.memory) if record.stops else record.offer

    def _rules_for(self, record: InstanceRecord) -> Rules:
        """Thousands of machines share few: made anew only when something was learned in this pass."""
        if self._rules_of is not self.builder.memory:
            self._rules_of, self._rules = self.builder.memory, {}
        if is_bake(record.intent_id):  # how long it may take is the bake's
            return Rules(boot_deadline_s=inf, list_grace_s=self._grace_s(record))
        key = record.pool, id(record.offer)
        known = self._rules.get(key)
        if known is None:
            known = self._rules[key] = Rules(
                boot_deadline_s=self._boot_deadline_s(record),
                list_grace_s=self._grace_s(record),
                watching_since=self.builder.state.watching_since,
            )
        return known

    def _grace_s(self, record: InstanceRecord) -> float:
        return self.builder.catalogue.grace_of(record.provider)

    def _boot_deadline_s(self, record: InstanceRecord) -> float:
        """As the operator says, else as its offer says and as was learned."""
        setup = self.builder.catalogue.pools.get(record.pool)
        most = None if setup is None else setup.settings.max_starting_s
        return self.builder.memory.boot_deadline_s(record.offer) if most is None else most

    def _retire(self, record: InstanceRecord) -> None:
        if is_bake(record.intent_id):
            return
        why = self._sold.because(record.pool, record.offer.key)
        if why is not None and record.state not in (InstanceState.TERMINATING, InstanceState.GONE):
            self._retired[record.id] = why
            self.wishes.append(EndRequest(instance_id=record.id, kind=EndKind.RETIRED, why=why))

    def move(self, moves: Sequence[Move]) -> None:
        """Write down whose work is to leave. It is asked to after the commit."""
        for each in moves:
            record = self.builder.instances.get(each.instance_id)
            if record is not None and record.state is InstanceState.READY:
                self.builder.instances[record.id] = replace(
                    record, moving_since=self.builder.now, moving_why=each.why
                )

    def apply(self, plan: Plan, new_id: Callable[[], str], freeze: Freeze) -> None:
        """Write down what the plan wants bought, and which gangs claim what is coming."""
        for launch in plan.launches:
            if launch.starts:
                self.stops.start(launch)
                self._started += launch.starts
            else:
                self.launches.intend(launch, new_id(), freeze)
        for bake in self.bakes.asked:
            machine = Launch(pool=bake.pool, offer=bake.offer, claims=((),))
            self.launches.intend(machine, bake.id, freeze)
        for cancellation in plan.cancellations:
            self.launches.cancel_unwanted(cancellation.intent_id, cancellation.why)
        for name, claims in plan.claims.items():
            record = self.builder.instances.get(name)
            if record is not None:
                self.builder.instances[name] = replace(record, claims=claims)
            else:
                intent_id, _, number = name.rpartition("/")
                self._claim_asked(intent_id, int(number), claims)

    def _claim_asked(self, intent_id: str, number: int, claims: tuple[str, ...]) -> None:
        intent = self.builder.intents.get(intent_id)
        if intent is not None:
            changed = [*intent.claims]
            changed[number] = claims
            self.builder.intents[intent_id] = replace(intent, claims=tuple(changed))

    def end(
        self,
        wishes: Sequence[EndRequest],
        cordon: Callable[[str], bool],
        uncordon: Callable[[str], None] = lambda _: None,
    ) -> list[str]:
        """Mark for ending what could be cordoned; the ids that were. Lost ones within the blast-radius limit."""
        fleet = sum(record.is_alive for record in self.builder.instances.values())
        lost_left = may_end_lost(len(self._ended_lost), fleet)
        held = 0
        ended: list[str] = []
        for wish in wishes:
            record = self.builder.instances.get(wish.instance_id)
            if record is None or record.state in (InstanceState.TERMINATING, InstanceState.GONE):
                continue
            if wish.kind is EndKind.LOST and lost_left <= 0:
                held += 1
                continue
            together = self._together(record, wish.kind)
            cordoned = [each.id for each in together if cordon(each.id)]
            if len(cordoned) < len(together):
                for instance_id in cordoned:
                    uncordon(instance_id)
                continue
            ended += cordoned
            for each in together:
                if wish.stop and each.state is InstanceState.READY:
                    changed = stopping(each, wish.why, self.builder.now)
                else:
                    changed = terminating(each, wish.why, self.builder.now, wish.kind)
                self.builder.instances[each.id] = changed
            if wish.kind is EndKind.LOST:
                lost_left -= 1
                self._ended_lost = (*self._ended_lost, self.builder.now)
            if wish.kind is EndKind.BOOT and not is_bake(record.intent_id):
                self.builder.memory = self.builder.memory.boot_failed(
                    self._boot_offer(record), wish.why, now=self.builder.now
                )
        self._frozen = f"{held} silent instances are kept: too many at once" if held else ""
        return ended

    def _together(self, record: InstanceRecord, kind: EndKind) -> list[InstanceRecord]:
        """All that end with it. What failed takes the others with it, whatever they do."""
        if not record.offer.ends_together or kind in (EndKind.LOST, EndKind.BOOT):
            return [record]
        over = (InstanceState.TERMINATING, InstanceState.GONE)
        return [
            each
            for each in self.builder.instances.values()
            if each.intent_id == record.intent_id and each.state not in over
        ]


def _observed(look: ProviderListing, found: FoundInstance | None) -> Observation:
    if found is None:
        return Observation(listing=ListedAs.ABSENT, looked_at=look.started_at)
    listing = {
        FoundState.PENDING: ListedAs.PENDING,
        FoundState.RUNNING: ListedAs.RUNNING,
        # That of an image stops by itself: `PassBakes` knows when it may.
        FoundState.STOPPED: ListedAs.RUNNING if is_bake(found.intent_id) else ListedAs.STOPPED,
        FoundState.ENDED: ListedAs.ENDED,
    }[found.state]
    return Observation(
        listing=listing,
        looked_at=look.started_at,
        detail=found.detail,
        started_at=found.started_at,
        ends_at=found.ends_at,
    )
