"""The page about waiting knows every kind of reason, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from master.core.reasons import ReasonKind

PAGE = Path(__file__).parents[3] / "docs" / "why-does-it-wait.md"


def test_the_page_explains_every_kind_of_reason_in_their_order() -> None:
    named = re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert named == [str(kind) for kind in ReasonKind]
