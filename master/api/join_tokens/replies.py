"""Join tokens, as they are shown: masked, but for once."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.values import Timestamp
from master.auth.issued_tokens import TokenState


class JoinToken(TypedDict):
    id: str
    token: str
    """Masked."""
    pool: str
    description: str
    state: TokenState
    agents: list[str]
    """Who may join with it; empty: any new agent."""
    uses: int | None
    """How many agents may; null: any number."""
    joined: list[str]
    """Who did."""
    lastUsedAt: Timestamp | None
    createdAt: Timestamp
    createdBy: str
    expiresAt: Timestamp | None
    revokedAt: Timestamp | None


class JoinTokensReply(TypedDict):
    joinTokens: list[JoinToken]


class NewJoinTokenReply(TypedDict):
    joinToken: JoinToken
    token: str
    """In clear, this once."""
    masterUrl: str
    """By which the master tells agents to reach it."""
    certFingerprint: str
    """By which agents know the master; empty without TLS."""


class JoinTokenReply(TypedDict):
    joinToken: JoinToken
