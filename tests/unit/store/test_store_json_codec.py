"""JSON columns give back what they were given, and every database accepts what is written."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.store.sql.json_codec import decode_json, encode_json

keys = st.text() | st.just("$float")
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("nan"),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
)


def refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def same(a: Any, b: Any) -> bool:
    """Equality in which NaN equals itself."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)


@given(documents)
def test_what_is_written_is_json_and_comes_back(document: Any) -> None:
    text = encode_json(document)
    json.loads(text, parse_constant=refuse)
    assert same(decode_json(text), document)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e308])
def test_infinities_keep_their_sign(value: float) -> None:
    assert decode_json(encode_json([value])) == [value]


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_json({"a": object()})
