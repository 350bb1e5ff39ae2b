"""Which agents a request that cannot be placed keeps from those behind it."""

from __future__ import annotations

import pytest

from master.core.scheduler.fitting import RequestShape, usable_agents


@pytest.mark.parametrize(
    ("slots", "sizes", "more", "expected"),
    [
        pytest.param(4, [8, 4, 2], {}, "ab", id="the large enough"),
        pytest.param(4, [8, 2, 2], {}, "abc", id="whole agents that make it"),
        pytest.param(4, [8, 2, 1], {}, "a", id="too few of a size"),
        pytest.param(4, [8, 3, 3], {}, "a", id="sizes that do not divide it"),
        pytest.param(4, [8, 2, 2], {"single": True}, "a", id="one agent"),
        pytest.param(4, [8, 2, 2], {"blocked": "c"}, "a", id="too few that it may use"),
        pytest.param(4, [8, 3, 1], {"mixed": True}, "abc", id="sizes that add up"),
        pytest.param(1, [8, 1, 0], {}, "ab", id="an agent without slots"),
    ],
)
def test_usable_agents(
    slots: int, sizes: list[int], more: dict[str, object], expected: str
) -> None:
    shape = RequestShape(slots, bool(more.get("single")), frozenset(str(more.get("blocked", ""))))
    there = dict(zip("abc", sizes, strict=True))
    usable = usable_agents(shape, there, mixed_sizes=bool(more.get("mixed")))
    assert sorted(usable) == list(expected)
