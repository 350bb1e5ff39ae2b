"""How many examples a property is tried with. `make test` is content with a quarter of those of `make test-all`."""

from __future__ import annotations

import os

PART = float(os.environ.get("WINDLASS_EXAMPLES", "1"))


def examples(number: int) -> int:
    """Of so many in all."""
    return max(1, round(number * PART))
