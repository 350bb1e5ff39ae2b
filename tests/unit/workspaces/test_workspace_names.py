"""Keys of projects are made from their names, and are never another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.workspaces.names import key_from_name, project_key
from windlass.base.errors import InvalidArgument


@given(st.lists(st.text(max_size=8), max_size=40))
def test_made_keys_are_valid_and_differ(names: list[str]) -> None:
    taken: set[str] = set()
    for name in names:
        key = key_from_name(name, taken)
        assert project_key(key) == key
        assert key not in taken
        taken.add(key)


@pytest.mark.parametrize("key", ["", "abcdef", "a b", "ä", "a\n"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgument, match="key: must be 1 to 5"):
        project_key(key)
