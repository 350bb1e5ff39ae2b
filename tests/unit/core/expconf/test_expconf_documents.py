"""Text to data: the number rules, and errors that say where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.formats.documents import MalformedDocument, read_document

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1_000", 1000),
        ("-7", -7),
        ("0x1f", 31),
        ("0o17", 15),
        ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"),
        ("1e", "1e"),
        ("v1.2.3", "v1.2.3"),
        ("'1e-4'", "1e-4"),
        ("yes", True),
        ("null", None),
        ("", None),
        ("007", "007"),
    ],
)
def test_scalars_are_read_as_users_mean_them(text: str, value: Any) -> None:
    read = read_document(text)
    assert read == value
    assert type(read) is type(value)


def test_keys_are_text() -> None:
    assert read_document("{1: a, true: b, null: c}") == {"1": "a", "true": "b", "null": "c"}


def test_json_with_tabs_is_read() -> None:
    assert read_document('{\t"a":\t"\\/"}') == {"a": "/"}


@given(json_values.filter(lambda v: isinstance(v, dict)))
def test_every_json_object_is_read_back(value: Any) -> None:
    assert read_document(json.dumps(value)) == value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1\nb: 2", "malformed YAML at line 2, column 2: expected ',' or ']', but got ':'"),
        ("a: b: c", "malformed YAML at line 1, column 5: mapping values are not allowed here"),
        (
            "a: 1\nb: 2\na: 3",
            'malformed YAML at line 3, column 1: the key "a" is given twice',
        ),
        ('{"a": 1, "a": 2}', 'the key "a" is given twice'),
        ("a: .nan", "nan is not a number that a configuration can hold"),
        ('{"a": Infinity}', "inf is not a number that a configuration can hold"),
        ("a: 99999999999999999999", "the number 99999999999999999999 does not fit 64 bits"),
        ("&a [*a]", 'malformed YAML at line 1, column 5: found undefined alias "a"'),
        ("[" * 5000 + "]" * 5000, "nested more than 100 deep"),
        (
            "a: !!python/object/apply:os.system [true]",
            "malformed YAML at line 1, column 4: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        ("? [a]\n: 1", "malformed YAML at line 1, column 3: a map key must be text"),
        ("--- 1\n--- 2", "malformed YAML at line 2, column 1: but found another document"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, message: str) -> None:
    with pytest.raises(MalformedDocument) as caught:
        read_document(text)
    assert str(caught.value) == message


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(MalformedDocument, match="once aliases are expanded"):
        read_document("\n".join(lines))


def test_merge_keys_still_work() -> None:
    text = "base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}"
    assert read_document(text)["use"] == {"x": 1, "y": 3}


@given(st.text())
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        read_document(text)
    except MalformedDocument as error:
        assert "\n" not in str(error)  # noqa: PT017  (most texts are fine)
