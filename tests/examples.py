"""How many examples a property is tried with: all, or the part that WINDLASS_EXAMPLES says."""

from __future__ import annotations

import os

PART = float(os.environ.get("WINDLASS_EXAMPLES", "1"))


def examples(number: int) -> int:
    """Of so many in all."""
    return max(1, round(number * PART))
