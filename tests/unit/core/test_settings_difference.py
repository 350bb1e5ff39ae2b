"""Which settings of configurations differ: right, and the same in whichever order they are compared."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.settings_difference import NOT_SET, settings_of
from tests.examples import examples

KEYS = st.sampled_from(["a", "b", "a.b", ""])
VALUES = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.0, 1.0, math.nan, "1"])
LEAVES = VALUES | st.lists(VALUES, max_size=2) | st.just({})
CONFIGS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    KEYS, st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=2)), max_size=3
)


def value_at(config: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(config, dict) or key not in config:
            return NOT_SET
        config = config[key]
    return NOT_SET if isinstance(config, dict) and config else config


def patched(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """`old` with every setting of `new` that differs, and without those that `new` does not have."""
    found: dict[str, Any] = {}
    for one in settings_of([old, new]):
        kept = one.values[1] if one.differs else one.values[0]
        if kept is not NOT_SET:
            section = found
            for key in one.path[:-1]:
                section = section.setdefault(key, {})
            section[one.path[-1]] = kept
    return found


@given(st.lists(CONFIGS, min_size=1, max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_each_setting_is_told_once_with_its_values(configs: list[dict[str, Any]]) -> None:
    found = settings_of(configs)
    assert len({one.path for one in found}) == len(found)
    for one in found:
        told = [repr(value) for value in one.values]
        assert told == [repr(value_at(config, one.path)) for config in configs]
        assert one.differs or len({type(v) is bool for v in one.values}) == 1


@given(CONFIGS, CONFIGS)
@settings(max_examples=examples(300), deadline=None)
def test_a_difference_is_symmetric_and_complete(one: dict[str, Any], other: dict[str, Any]) -> None:
    there, back = settings_of([one, other]), settings_of([other, one])
    assert [(s.path, s.differs) for s in there] == [(s.path, s.differs) for s in back]
    assert not any(s.differs for s in settings_of([one, one]))
    assert not any(s.differs for s in settings_of([patched(one, other), other]))
    if not any(s.differs for s in there):
        assert [s.path for s in settings_of([one])] == [s.path for s in settings_of([other])]


def test_what_yaml_writes_in_two_ways_is_the_same_and_true_is_not_one() -> None:
    configs: list[dict[str, Any]] = [
        {"lr": 1, "flag": True, "nothing": None, "bad": math.nan, "list": [1, {"x": 2}]},
        {"lr": 1.0, "flag": 1, "bad": math.nan, "list": [1.0, {"x": 2}]},
    ]
    assert [one.path for one in settings_of(configs) if one.differs] == [("flag",), ("nothing",)]
