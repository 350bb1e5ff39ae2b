"""Errors of the clouds' own libraries, in one sentence."""

from __future__ import annotations

from windlass.base.errors import InvalidState, ProviderError
from windlass.base.packages import DISTRIBUTION


def failure(doing: str, error: Exception) -> ProviderError:
    return ProviderError(f"Cannot {doing}: {' '.join(str(error).split())}")


def missing(cloud: str) -> InvalidState:
    return InvalidState(
        f"the cloud is asked by its own library: pip install '{DISTRIBUTION}[{cloud}]'"
    )
