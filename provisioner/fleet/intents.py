"""The life of a launch, from the decision until its machines exist or certainly never will. Pure data.

    INTENT --> CALLED --> ANSWERED | FAILED (refused; or nothing was made, and nobody waits for it any more)
                 |  ^         ^          ^
                 |  +--------- next attempt: the provider will not answer this token any more
                 +--> ACCEPTED --> CANCELLING --> FAILED
                          +--> ANSWERED | FAILED, minutes or days later

Everything that the call is made of is kept and committed before it, so that a repetition is the same byte for byte,
whatever was configured meanwhile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Any

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import LaunchIntent
from provisioner.types import Offer
from windlass.base.formats.json_types import JsonMapping
from windlass.base.formats.strict_json import StrictJson


class IntentState(StrEnum):
    INTENT = "intent"
    """Written down; the provider was certainly not asked yet."""
    CALLED = "called"
    """Asked, or perhaps asked (a restart cannot tell); no answer known."""
    ACCEPTED = "accepted"
    """The provider has it, and will deliver later. It has a handle."""
    CANCELLING = "cancelling"
    """Accepted, and not wanted any more: asked to be cancelled until the provider agrees."""
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRecord:
    """One launch we decided: written before the call, until its answer is written."""

    id: str
    pool: str
    offer: Offer
    token: str
    """What makes the call repeatable: the provider answers the same token with the same machines."""
    generation: int
    created_at: float
    claims: tuple[tuple[str, ...], ...]
    """For each machine the gangs it is bought for."""
    request: JsonMapping | None = None
    """What else the call is made of, as the provider froze it. None: written by 0.1.0."""
    fingerprint: str = ""
    """Of what the call is made of beside what differs between any two launches; empty: unknown."""
    replaces: str = ""
    """The machine in whose place it is launched."""
    attempt: int = 1
    handle: str = ""
    """By what the provider knows a launch that it accepted."""
    accepted_at: float | None = None
    cancel_why: str = ""
    """Set: it is being cancelled."""
    state: IntentState = IntentState.INTENT
    called_at: float | None = None
    tries: int = 0
    next_try_at: float = 0.0
    """When to ask (again); infinite while a call is under way."""
    last_reply_at: float = 0.0
    """When the last call ended without an answer that settles it."""
    doubts: int = 0
    """How many calls ended so that nobody knows whether something was made."""
    given_up: bool = False
    """Nobody waits for it any more: it is not asked for again, and a list says whether something came of it."""
    token_is_spent: bool = False
    """The provider does not take this token any more: a list decides between its machines and another attempt."""
    trouble: BlockKind | None = None
    """Why the last call was not answered."""
    starts_at: float | None = None
    """When the provider expects to deliver."""
    queue_reason: str = ""
    """Why the provider has not delivered yet."""
    message: str = ""

    @property
    def count(self) -> int:
        return len(self.claims)

    @property
    def provider(self) -> str:
        """Who is called for it."""
        return self.offer.key.provider

    @property
    def is_finished(self) -> bool:
        return self.state in (IntentState.ANSWERED, IntentState.FAILED)

    @property
    def is_queued(self) -> bool:
        """The provider has it, and nothing of it exists or is billed."""
        return self.state in (IntentState.ACCEPTED, IntentState.CANCELLING)

    @property
    def made_nothing(self) -> bool:
        """It was not asked for, or each call was answered with that nothing was made. Unknown after a restart."""
        if self.state is IntentState.CALLED:
            return self.tries > 0 and not self.doubts and self.next_try_at < inf
        return self.state is IntentState.INTENT

    def unanswered_s(self, now: float) -> float:
        """How long this master has waited for an answer."""
        waits = self.state is IntentState.CALLED and self.called_at is not None
        return now - self.called_at if waits and self.called_at is not None else 0.0

    @property
    def overdue_at(self) -> float | None:
        """When the provider should have delivered; None: it may take as long as it takes."""
        deadline = self.offer.queue_deadline_s
        if self.accepted_at is None or deadline is None:
            return None
        return self.accepted_at + deadline


def launch_token(
    cluster_id: str,
    intent_id: str,
    pool: str,
    offer: Offer,
    count: int,
    *,
    request: JsonMapping | None = None,
    attempt: int = 1,
) -> str:
    """The idempotency token of a launch: the same for the same intent and parameters, different for any other."""
    key = offer.key
    what: list[Any] = [cluster_id, intent_id, pool, key.provider, key.region, key.zone]
    what += [key.instance_type, key.market.value, offer.slots, count]
    text = json.dumps([*what, key.reservation, key.placement, request, attempt], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def launch_call(intent: IntentRecord, cluster_id: str) -> LaunchIntent:
    """What is asked of the provider, the same in every repetition."""
    return LaunchIntent(
        intent_id=intent.id,
        token=intent.token,
        cluster_id=cluster_id,
        pool=intent.pool,
        generation=intent.generation,
        offer=intent.offer,
        count=intent.count,
        created_at=intent.created_at,
        request=intent.request or {},
    )


def fingerprint(request: JsonMapping) -> str:
    """Of what a provider froze: equal for equal settings."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:32]


def launch_in_general(cluster_id: str, pool: str, offer: Offer) -> LaunchIntent:
    """A launch without what differs between any two: frozen, it shows image and settings."""
    return LaunchIntent(
        intent_id="",
        token="",
        cluster_id=cluster_id,
        pool=pool,
        generation=0,
        offer=offer,
        count=1,
    )


def next_attempt(intent: IntentRecord, cluster_id: str) -> IntentRecord:
    """The same launch with a token that the provider has not seen. Only when nothing of the last one exists."""
    attempt = intent.attempt + 1
    token = launch_token(
        cluster_id,
        intent.id,
        intent.pool,
        intent.offer,
        intent.count,
        request=intent.request,
        attempt=attempt,
    )
    return replace(
        intent,
        attempt=attempt,
        token=token,
        token_is_spent=False,
        given_up=False,
        state=IntentState.INTENT,
        tries=0,
        doubts=0,
        next_try_at=0.0,
    )


# Rebuilt by asking; not worth a commit when they change.
_VOLATILE = {
    "state",
    "called_at",
    "tries",
    "doubts",
    "next_try_at",
    "last_reply_at",
    "token_is_spent",
    "given_up",
    "trouble",
    "starts_at",
    "queue_reason",
}
_INTENTS: StrictJson[IntentRecord] = StrictJson(IntentRecord)


def intent_document(intent: IntentRecord) -> dict[str, Any]:
    document: dict[str, Any] = _INTENTS.dump(intent, exclude=_VOLATILE)
    return {**document, "finished": intent.is_finished}


def intent_from_document(document: Mapping[str, Any]) -> IntentRecord | None:
    """None for a finished one. After a restart nobody knows whether the call was made: it counts as made."""
    if document.get("finished"):
        return None
    fields = {name: value for name, value in document.items() if name != "finished"}
    intent = _INTENTS.load(fields, f"launch intent {document.get('id')}")
    if intent.cancel_why:
        return replace(intent, state=IntentState.CANCELLING)
    return replace(intent, state=IntentState.ACCEPTED if intent.handle else IntentState.CALLED)
