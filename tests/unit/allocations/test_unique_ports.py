"""Ports of the cluster: the lowest free number, whatever was taken and freed before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.allocations.unique_ports import MAX_PORT, UniquePorts
from windlass.base.errors import CapacityError

BASES = {"A": 100, "B": 103}
RESERVED = frozenset({101, 105})


@given(st.lists(st.tuples(st.sampled_from(["take", "free", "hold"]), st.integers(0, 8))))
def test_it_is_always_the_lowest_free_port(acts: list[tuple[str, int]]) -> None:
    ports, held = UniquePorts(RESERVED), dict[int, set[int]]()
    for act, number in acts:
        if act == "free":
            ports.free(str(number))
            held.pop(number, None)
        elif act == "hold" and number not in held and all(200 not in h for h in held.values()):
            ports.hold(str(number), [200])
            held[number] = {200}
        elif act == "take":
            held.pop(number, None)
            chosen = ports.take(str(number), BASES)
            held[number] = set()
            for name, base in BASES.items():
                used = RESERVED.union(*held.values())
                assert chosen[name] == next(p for p in range(base, 1000) if p not in used)
                held[number].add(chosen[name])


def test_ports_that_run_out_are_one_clear_error_and_leave_nothing_held() -> None:
    ports = UniquePorts({MAX_PORT})
    top = MAX_PORT - 1
    assert ports.take("first", {"A": top}) == {"A": top}
    with pytest.raises(CapacityError, match=f"no port from {top} to {MAX_PORT} is left for B: "):
        ports.take("second", {"A": 100, "B": top})
    assert ports.take("third", {"A": 100}) == {"A": 100}
    ports.free("first")
    assert ports.take("second", {"B": top}) == {"B": top}
