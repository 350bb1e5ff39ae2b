"""What models may be called."""

from __future__ import annotations

import pytest

from master.core.names import MAX_NAME
from master.models.names import id_in, new_name
from windlass.base.errors import InvalidArgument


@pytest.mark.parametrize(
    "name", ["a", "my model", "100%", "%2F", "x" * MAX_NAME, "größe 🐘", "a?b#c", "-rf", "1a", "а"]
)
def test_names_that_are_taken_as_they_are(name: str) -> None:
    assert new_name(name) == name
    assert id_in(name) is None


def test_blanks_around_are_trimmed_and_accents_have_one_spelling() -> None:
    assert new_name("  cafe\u0301 ") == "café"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must not be blank"),
        (" \t", "must not be blank"),
        ("17", "has only digits"),
        ("١٢", "has only digits"),
        ("team/gpu", "must not contain a slash"),
        ("..", "has a meaning of its own"),
        ("a  b", "two blanks in a row"),
        ("a\nb", "cannot be seen"),
        ("a\u200bb", "cannot be seen"),
        ("x" * (MAX_NAME + 1), "has 1001 characters, more than 1000"),
        ("🐘" * 501, "bytes in UTF-8, more than 2000"),
    ],
)
def test_names_that_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^name: ") as refused:
        new_name(name)
    assert why in refused.value.message


def test_digits_are_an_id() -> None:
    assert (id_in("7"), id_in("007"), id_in("١"), id_in("9" * 40)) == (7, 7, None, None)
