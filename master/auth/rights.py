"""When somebody's rights may have changed: what was permitted once is to be asked again."""

from __future__ import annotations

from collections.abc import Callable


class Rights:
    """Changes of roles, groups, users, logins and tokens are told here, after their commit."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with each change: to compare it costs nothing."""
        self.listeners: set[Callable[[], None]] = set()

    def changed(self) -> None:
        self.version += 1
        for listener in tuple(self.listeners):
            listener()
