"""How a provider says no: with the kind of refusal, what it is true for, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence

from provisioner.capacity.refusals import BlockKind
from provisioner.types import Scope
from windlass.base.errors import CapacityError, ProviderAuthError, ProviderError, QuotaError


class Refusal(ProviderError):
    """Nothing was made. `CapacityError`, `QuotaError` and `ProviderAuthError` are short for the plain cases."""

    def __init__(
        self,
        kind: BlockKind,
        message: str,
        *,
        scope: Scope | None = None,
        quota: str = "",
        number: float | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """`scope`: what it is true for; None: what is usual for its kind (`provisioner.capacity.refusals`).

        `quota`, `number`: the name of the quota and the limit that it sets. `retry_after_s`: as the provider says.
        """
        super().__init__(message)
        self.kind = kind
        self.scope = scope
        self.quota = quota
        self.number = number
        self.retry_after_s = retry_after_s


class TokenSpent(ProviderError):
    """The token is known with other parameters, or what was made with it has ended: it launches nothing any more."""


_SHORT: Sequence[tuple[type[Exception], BlockKind]] = (
    (CapacityError, BlockKind.CAPACITY),
    (QuotaError, BlockKind.QUOTA),
    (ProviderAuthError, BlockKind.AUTH),
)


def refusal_kind(error: BaseException) -> BlockKind | None:
    """Why the provider says no; None if the error does not say it."""
    if isinstance(error, Refusal):
        return error.kind
    return next((kind for type_, kind in _SHORT if isinstance(error, type_)), None)
