"""A persistent map behaves as a dictionary of which every version is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from master.core.persistent_map import PersistentMap

changes = st.dictionaries(st.integers(0, 60), st.integers(), max_size=8)


@given(st.dictionaries(st.integers(0, 60), st.integers()), st.lists(changes, max_size=40))
def test_every_version_stays_what_a_dictionary_would_have_been(
    first: dict[int, int], updates: list[dict[int, int]]
) -> None:
    versions, expected = [PersistentMap(first)], [dict(first)]
    for update in updates:
        versions.append(versions[-1].updated(update))
        expected.append(expected[-1] | update)
    for version, known in zip(versions, expected, strict=True):
        assert list(version.items()) == list(known.items()), "the order of insertion too"
        assert len(version) == len(known)
        assert all((key in version) == (key in known) for key in range(61))
        assert version == known


def test_what_it_was_made_of_may_change_afterwards() -> None:
    source = {"a": 1}
    made = PersistentMap(source)
    source["a"] = 2
    assert made["a"] == 1
    assert made.get("b") is None


def test_a_change_shares_the_large_part() -> None:
    large = PersistentMap({n: n for n in range(10_000)})
    changed = large.updated({5: 0})
    assert changed._base is large._base
    assert (large[5], changed[5]) == (5, 0)
