"""A session with a cloud by its own library: its errors in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from windlass.base.errors import InvalidState, ProviderError
from windlass.base.packages import DISTRIBUTION


class CloudSession:
    _errors: tuple[type[Exception], ...]
    """Of the library."""

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Errors inside become ProviderError: "Cannot `what`: ..."."""
        try:
            yield
        except self._errors as error:
            raise ProviderError(f"Cannot {what}: {' '.join(str(error).split())}") from None


def missing(cloud: str) -> InvalidState:
    return InvalidState(
        f"the cloud is asked by its own library: pip install '{DISTRIBUTION}[{cloud}]'"
    )
