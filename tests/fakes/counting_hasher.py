"""Password hashes that are cheap, and counted: they are all of a login that takes time."""

from __future__ import annotations

from typing import Any, Literal

from argon2 import PasswordHasher


class CountingHasher(PasswordHasher):
    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.computed = 0

    def hash(self, *arguments: Any, **options: Any) -> str:
        self.computed += 1
        return super().hash(*arguments, **options)

    def verify(self, *arguments: Any) -> Literal[True]:
        self.computed += 1
        return super().verify(*arguments)
