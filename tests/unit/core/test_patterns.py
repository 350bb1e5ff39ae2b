"""Users' regular expressions: what matches, and what is refused in which words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.patterns import MAX_LENGTH, Pattern


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("(?=x)", "look-ahead and look-behind are not supported: write a simpler one"),
        ("(?!x)", "look-ahead and look-behind are not supported"),
        ("(?<=x)y", "look-ahead and look-behind are not supported"),
        ("(?<!x)y", "look-ahead and look-behind are not supported"),
        (r"(a)\1", "back-references are not supported"),
        ("(?P<a>x)(?P=a)", "back-references are not supported"),
        ("(?>a)", "atomic groups are not supported"),
        ("a*+", "atomic groups are not supported"),
        ("(?#why)", "comments are not supported"),
        (r"end\Z", r"\\Z is not supported"),
        ("(a{500}){500}", "expressions that repeat so much are not supported"),
        ("a{1001}", "expressions that repeat so much are not supported"),
        (r"\pL{1000}", "expressions that repeat so much are not supported"),
        ("(a", "missing"),
        (
            "x" * (MAX_LENGTH + 1),
            f"it has {MAX_LENGTH + 1} characters; the maximum is {MAX_LENGTH}",
        ),
        ("\ud800", "half of a surrogate pair"),
    ],
)
def test_what_is_refused_says_why(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Pattern(text)


@given(st.text("ab01 .*+?()[]|^é\n", max_size=12), st.text("ab01 é", max_size=30))
def test_what_both_engines_read_they_read_alike(text: str, line: str) -> None:
    try:
        pattern = Pattern(text)
        expected = re.compile(text)
    except (ValueError, re.error):
        return
    assert pattern.is_in(line) == (expected.search(line) is not None)


def test_a_line_that_is_no_text_is_searched_too() -> None:
    assert Pattern("end$").is_in("broken \ud800 end")


@given(
    st.text("ab01 .*+?()[]|^$\\AzbB-im:\n", max_size=12),
    st.lists(st.text("ab01 é", max_size=10), max_size=4),
)
def test_lines_that_stand_together_hide_no_match(text: str, lines: list[str]) -> None:
    try:
        pattern = Pattern(text)
    except ValueError:
        return
    if any(map(pattern.is_in, lines)):
        assert pattern.may_be_in("\n".join(lines).encode())


@pytest.mark.parametrize(("text", "told"), [("^b$", True), ("^c$", False), ("a.b", False)])
def test_lines_that_stand_together_are_still_lines(text: str, told: bool) -> None:
    assert Pattern(text).may_be_in(b"a\nb") is told
