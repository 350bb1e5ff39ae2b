"""Who changes things in tests that are not about who may."""

from __future__ import annotations

from master.core.actor import Actor

ADMIN = Actor(user_id=1, name="admin")
DETERMINED = Actor(user_id=2, name="determined")
