"""What the machines of one launch join with: each once, and not for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from master.auth.join_tokens import JoinTokenSigner
from provisioner.providers.base import LaunchIntent
from rm_backends.ports import JoinGrant, JoinKind

MOST_NAMES = 4
"""In a token, which user data of 8 KB has to hold. Of more machines the provider is asked when they exist."""
JOIN_WITHIN = timedelta(hours=1)
"""How long after its boot a machine may join for the first time."""


@dataclass(frozen=True, slots=True)
class LaunchTokens:
    """Made of the intent alone: the same in every repetition."""

    signer: JoinTokenSigner

    def __call__(self, intent: LaunchIntent, names: Sequence[str] = ()) -> str:
        """`names`: what its machines will be called, where that is known before they exist."""
        boot = timedelta(seconds=intent.offer.boot_s)
        grant = JoinGrant(
            kind=JoinKind.LAUNCH,
            pool=intent.pool,
            id=intent.intent_id,
            names=frozenset(names if len(names) <= MOST_NAMES else ()),
            agents=intent.count,
            expires=datetime.fromtimestamp(intent.created_at, UTC) + boot + JOIN_WITHIN,
        )
        return self.signer.made_for(grant)
