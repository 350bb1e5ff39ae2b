"""Ports of the cluster: the lowest free number, whatever was taken and freed before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from master.allocations.unique_ports import UniquePorts

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
