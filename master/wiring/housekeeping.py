"""What a master removes once an hour: expired sessions, old tokens, blobs that nothing names."""

from __future__ import annotations

from master.auth.issued_tokens import IssuedTokens
from master.auth.service import AuthService
from master.store.agents_repository import AgentsRepository
from master.store.blob_names import named_blobs
from master.store.blobs import BlobStore
from master.store.store import Store
from windlass.base.clock import Clock
from windlass.base.loop import Loop

EVERY_S = 3600.0


def housekeeping(
    store: Store, auth: AuthService, join_tokens: IssuedTokens, blobs: BlobStore, clock: Clock
) -> Loop:
    async def clean() -> None:
        await auth.remove_expired_sessions()
        await join_tokens.remove_old()
        await AgentsRepository(store).forget_uses(clock.now())
        await blobs.remove_unnamed(await named_blobs(store))

    return Loop("housekeeping", clean, interval_s=EVERY_S)
