"""What becomes of launches: answers, refusals, waits at the provider, repetitions, cancellations. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.builder import FleetStateBuilder
from provisioner.fleet.instances import InstanceRecord, within
from provisioner.fleet.intents import (
    IntentRecord,
    IntentState,
    fingerprint,
    launch_call,
    launch_in_general,
    launch_token,
    next_attempt,
)
from provisioner.fleet.state import (
    CancelAnswered,
    LaunchAccepted,
    LaunchRefused,
    LaunchUnanswered,
    ProviderListing,
    TokenIsSpent,
)
from provisioner.planning.plan_types import Launch
from provisioner.providers.base import FoundGroup, FoundInstance, FoundState, LaunchIntent
from provisioner.providers.errors import Refusal
from windlass.base.errors import WindlassError
from windlass.base.formats.json_types import JsonMapping

RETRY_FIRST_S = 1.0
RETRY_CAP_S = 30.0
GIVE_UP_AFTER_S = 120.0
INHERITED_S = 30.0
"""So long after its start a master keeps what an earlier one has queued: not all who wait may be known yet."""
GIVE_UP_TRIES = 3
"""A launch that was never answered is given up after so many tries and so long, if a list shows none of it."""

Freeze: TypeAlias = Callable[[LaunchIntent], JsonMapping]
"""A provider's `freeze`."""


class PassLaunches:
    """The launches of one pass."""

    def __init__(self, builder: FleetStateBuilder) -> None:
        self.builder = builder

    def settle(
        self,
        look: ProviderListing,
        found: Mapping[str, FoundInstance],
        groups: Mapping[str, FoundGroup],
    ) -> None:
        """A list may answer a launch whose reply was lost, or show that there is nothing to wait for."""
        by_intent: dict[str, list[str]] = {}
        for instance in found.values():
            if (
                instance.state != FoundState.ENDED
                and instance.instance_id not in self.builder.instances
            ):
                by_intent.setdefault(instance.intent_id, []).append(instance.instance_id)
        delivered = {record.intent_id for record in self.builder.instances.values()}
        for group in groups.values():
            # A list that began before the delivery may still show its group.
            if group.intent_id not in self.builder.intents and group.intent_id not in delivered:
                self._adopt(group)
        open_states = (IntentState.CALLED, IntentState.ACCEPTED)
        for intent in list(self.builder.intents.values()):
            if intent.provider != look.provider or intent.state not in open_states:
                continue
            ids = sorted(by_intent.get(intent.id, ()))
            if len(ids) >= intent.count:
                starts = [at for id_ in ids if (at := found[id_].started_at) is not None]
                self.launched(intent, tuple(ids), min(starts, default=None))
            elif intent.id in groups:
                accepted = groups[intent.id].accepted
                self.accepted(LaunchAccepted(intent=intent, accepted=accepted))
            elif intent.state is IntentState.CALLED and self._is_hopeless(intent, look):
                self._settle_hopeless(intent, ids)

    def launched(
        self, intent: IntentRecord, instance_ids: Sequence[str], started_at: float | None
    ) -> None:
        known = self.builder.intents.get(intent.id)
        if known is not None:
            if known.is_finished:
                return
            self.builder.intents[intent.id] = replace(known, state=IntentState.ANSWERED)
            intent = known
        self.builder.memory = self.builder.memory.launched(intent.offer)
        created_at = intent.created_at if intent.called_at is None else intent.called_at
        started_at = within(started_at, intent.accepted_at or created_at, self.builder.now)
        if (
            intent.accepted_at is not None
        ):  # it waited at the provider: that was no boot, and cost nothing
            created_at = self.builder.now if started_at is None else started_at
        for number, instance_id in enumerate(instance_ids):
            if instance_id not in self.builder.instances:
                self.builder.instances[instance_id] = InstanceRecord(
                    id=instance_id,
                    pool=intent.pool,
                    offer=intent.offer,
                    intent_id=intent.id,
                    generation=intent.generation,
                    created_at=created_at,
                    started_at=started_at,
                    claims=intent.claims[number] if number < intent.count else (),
                    fingerprint=intent.fingerprint,
                    replaces=intent.replaces,
                )

    def accepted(self, event: LaunchAccepted) -> None:
        known = self.builder.intents.get(event.intent.id)
        if known is None or known.is_finished or known.state is IntentState.CANCELLING:
            return
        accepted = event.accepted
        self.builder.intents[known.id] = replace(
            known,
            state=IntentState.ACCEPTED,
            handle=accepted.handle,
            accepted_at=self.builder.now if known.accepted_at is None else known.accepted_at,
            next_try_at=self.builder.now + max(RETRY_FIRST_S, accepted.look_again_s),
            tries=0,
            trouble=None,
            starts_at=accepted.starts_at,
            queue_reason=accepted.reason,
            message="",
        )

    def refused(self, event: LaunchRefused) -> None:
        known = self.builder.intents.get(event.intent.id)
        if known is None or known.is_finished:
            return
        self.builder.intents[known.id] = replace(
            known, state=IntentState.FAILED, message=event.message
        )
        self.learn(known, event.kind, event.message, event)

    def unanswered(self, event: LaunchUnanswered) -> None:
        known = self.builder.intents.get(event.intent.id)
        if known is None or known.is_finished:
            return
        later = self._later(known, event.message)
        self.builder.intents[known.id] = replace(
            later, trouble=event.kind, doubts=known.doubts + (not event.nothing_made)
        )

    def token_spent(self, event: TokenIsSpent) -> None:
        known = self.builder.intents.get(event.intent.id)
        if known is not None and known.state is IntentState.CALLED:
            self.builder.intents[known.id] = replace(
                known, token_is_spent=True, last_reply_at=self.builder.now, message=event.message
            )

    def cancelled(self, event: CancelAnswered) -> None:
        known = self.builder.intents.get(event.intent.id)
        if known is None or known.state is not IntentState.CANCELLING:
            return
        if event.error is None:
            message = f"cancelled: {known.cancel_why}"
            self.builder.intents[known.id] = replace(
                known, state=IntentState.FAILED, message=message
            )
        else:
            self.builder.intents[known.id] = self._later(known, event.error)

    def give_up_late(self, intent: IntentRecord) -> None:
        overdue = intent.overdue_at
        if (
            intent.state is IntentState.ACCEPTED
            and overdue is not None
            and overdue <= self.builder.now
        ):
            why = f"not delivered within {intent.offer.queue_deadline_s:.0f} s"
            text = f"{why}: {intent.queue_reason}" if intent.queue_reason else why
            self._cancel(intent, why)
            self.learn(intent, BlockKind.CAPACITY, text)

    def intend(self, launch: Launch, intent_id: str, freeze: Freeze) -> None:
        intent = IntentRecord(
            id=intent_id,
            pool=launch.pool,
            offer=launch.offer,
            token="",
            generation=self.builder.state.generation,
            created_at=self.builder.now,
            claims=launch.claims,
            replaces=launch.replaces,
        )
        cluster_id = self.builder.state.cluster_id
        try:
            request = freeze(launch_call(intent, cluster_id))
            general = freeze(launch_in_general(cluster_id, launch.pool, launch.offer))
        except WindlassError as error:
            kind = error.kind if isinstance(error, Refusal) else BlockKind.CONFIG
            self.learn(intent, kind, error.message)
            return
        token = launch_token(
            cluster_id,
            intent_id,
            launch.pool,
            launch.offer,
            launch.count,
            request=request,
        )
        self.builder.intents[intent_id] = replace(
            intent, request=request, token=token, fingerprint=fingerprint(general)
        )
        old = self.builder.instances.get(launch.replaces)
        if old is not None:
            self.builder.instances[old.id] = replace(old, replacement_at=self.builder.now)

    def abandon(self, intent: IntentRecord) -> None:
        """Its provider is not configured any more: nobody can ask what became of it.

        Should it be configured again, what the launch made or queued there is found by its tags, and ended.
        """
        message = f"provider {intent.provider} is not configured any more"
        self.builder.intents[intent.id] = replace(intent, state=IntentState.FAILED, message=message)

    def cancel(self, intent_id: str, why: str) -> None:
        """Give up a launch that was accepted."""
        intent = self.builder.intents.get(intent_id)
        if intent is not None and intent.state is IntentState.ACCEPTED:
            self._cancel(intent, why)

    def cancel_unwanted(self, intent_id: str, why: str) -> None:
        """Give up a launch that nobody waits for: one that was accepted, that has certainly made nothing, or that was
        not answered: the last is only asked for no more.
        """
        state, intent = self.builder.state, self.builder.intents.get(intent_id)
        inherited = intent is not None and intent.generation != state.generation
        if intent is not None and not inherited and intent.made_nothing:
            message = f"withdrawn: {why}"
            self.builder.intents[intent_id] = replace(
                intent, state=IntentState.FAILED, message=message
            )
        elif not inherited or self.builder.now - state.watching_since >= INHERITED_S:
            self.cancel(intent_id, why)
            if intent is not None and intent.state is IntentState.CALLED:
                self.builder.intents[intent_id] = replace(intent, given_up=True)

    def cancel_accepted(self, why: str) -> None:
        """All of them."""
        for intent in list(self.builder.intents.values()):
            if intent.state is IntentState.ACCEPTED:
                self._cancel(intent, why)

    def drop_uncalled(self) -> None:
        """The provisioner closes: what was not asked for yet is not asked for any more."""
        for intent in list(self.builder.intents.values()):
            if intent.state is IntentState.INTENT and intent.attempt == 1:
                self.builder.intents[intent.id] = replace(
                    intent, state=IntentState.FAILED, message="closing"
                )

    def _settle_hopeless(self, intent: IntentRecord, ids: Sequence[str]) -> None:
        """A list shows that nothing whole came of it. Part of a group is no group: it is ended as nobody's."""
        if intent.token_is_spent and not ids and not self.builder.state.closing:
            self.builder.intents[intent.id] = next_attempt(intent, self.builder.state.cluster_id)
            return
        part = f" ({len(ids)} of {intent.count} exist)" if ids else ""
        message = f"no answer: {intent.message}{part}"
        self.refused(LaunchRefused(intent=intent, kind=BlockKind.UNKNOWN, message=message))

    def _is_hopeless(self, intent: IntentRecord, look: ProviderListing) -> bool:
        if look.started_at <= intent.last_reply_at or self.builder.is_unseen(intent.offer):
            return False
        # Calls of an earlier master may have arrived until it ended.
        last_at = max(intent.last_reply_at, self.builder.state.watching_since)
        would_show = look.started_at - last_at >= self.builder.catalogue.grace_of(intent.provider)
        if intent.token_is_spent:
            return would_show
        if intent.next_try_at == inf:
            return False
        if intent.given_up or self.builder.state.closing:
            return would_show
        age = self.builder.now - intent.created_at
        return intent.doubts >= GIVE_UP_TRIES and age >= GIVE_UP_AFTER_S

    def _adopt(self, group: FoundGroup) -> None:
        """An accepted launch that is unknown here: kept if somebody can use it, else cancelled by the plan."""
        self.builder.intents[group.intent_id] = IntentRecord(
            id=group.intent_id,
            pool=group.pool,
            offer=self.builder.offer_of(group),
            token="",
            generation=group.generation,
            created_at=min(group.created_at, self.builder.now),
            claims=((),) * group.count,
            request={},
            handle=group.accepted.handle,
            accepted_at=self.builder.now,
            state=IntentState.ACCEPTED,
        )

    def _cancel(self, intent: IntentRecord, why: str) -> None:
        self.builder.intents[intent.id] = replace(
            intent, state=IntentState.CANCELLING, cancel_why=why, next_try_at=0.0, tries=0
        )

    def learn(
        self,
        intent: IntentRecord,
        kind: BlockKind,
        message: str,
        said: LaunchRefused | None = None,
    ) -> None:
        said = said or LaunchRefused(intent=intent, kind=kind, message=message)
        self.builder.learn(intent.offer, said)

    def _later(self, intent: IntentRecord, message: str) -> IntentRecord:
        """Ask again with the same words, after a while."""
        wait = min(RETRY_CAP_S, RETRY_FIRST_S * 2.0 ** min(intent.tries, 10))
        return replace(
            intent,
            next_try_at=self.builder.now + wait,
            last_reply_at=self.builder.now,
            message=message,
        )
