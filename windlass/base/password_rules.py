"""What a new password needs: what the published client asks for. Whoever sees it in plain text checks it."""

from __future__ import annotations

from collections.abc import Sequence

SHORTEST_PASSWORD = 8


def missing_in_password(password: str) -> Sequence[str]:
    """In words, to follow "the password needs"; empty if it is good enough."""
    rules = {
        f"at least {SHORTEST_PASSWORD} characters": len(password) >= SHORTEST_PASSWORD,
        "an upper-case letter": any(map(str.isupper, password)),
        "a lower-case letter": any(map(str.islower, password)),
        "a digit": any(map(str.isdigit, password)),
    }
    return [rule for rule, met in rules.items() if not met]
