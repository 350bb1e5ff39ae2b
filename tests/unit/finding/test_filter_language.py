"""What clients write as filters and sorts, and what is refused of it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.experiments.finding.columns import COLUMNS, Kind, Table
from master.experiments.finding.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    Condition,
    Filter,
    Group,
    Operator,
    parse_filter,
)
from master.experiments.finding.sorts import Sort, parse_sorts
from master.experiments.finding.sources import Column, Hyperparameter, Metadata, Metric, Space
from windlass.base.errors import InvalidArgument


def field(column: str, operator: str = "=", value: Any = 1, **more: Any) -> dict[str, Any]:
    return {"kind": "field", "columnName": column, "operator": operator, "value": value, **more}


def group(*children: Any, conjunction: str = "and") -> dict[str, Any]:
    return {"kind": "group", "conjunction": conjunction, "children": list(children)}


def parse(root: Any, table: Table = Table.RUNS, **more: Any) -> Filter:
    return parse_filter(json.dumps({"filterGroup": root, **more}), table)


def only(root: Any, table: Table = Table.RUNS) -> Condition:
    node = parse(group(root), table).root
    assert isinstance(node, Group)
    (condition,) = node.children
    assert isinstance(condition, Condition)
    return condition


def test_a_filter_is_read_with_its_types() -> None:
    found = parse(
        group(
            field("id", ">=", 3),
            group(
                field("hp.a.b", "contains", "x", location="LOCATION_TYPE_RUN_HYPERPARAMETERS"),
                field("training.a.b.max", "<", 0.5, location="LOCATION_TYPE_TRAINING"),
                conjunction="or",
            ),
        ),
        showArchived=True,
    )
    deep = Group(
        any_of=True,
        children=(
            Condition(Hyperparameter(("a", "b")), Operator.CONTAINS, "x"),
            Condition(Metric("training", "a.b", "max"), Operator.LESS, 0.5),
        ),
    )
    first = Condition(Column("id", Kind.NUMBER), Operator.AT_LEAST, 3.0)
    assert found == Filter(root=Group(any_of=False, children=(first, deep)), show_archived=True)


def test_values_are_of_the_type_of_their_column() -> None:
    time = field("startTime", ">", "2026-01-31T12:00:00+01:00")
    assert only(time).value == datetime(2026, 1, 31, 11, tzinfo=UTC)
    assert only(field("state", "=", "STATE_COMPLETED")).value == "COMPLETED"
    assert only(field("archived", "=", False)).value is False
    hp = field("hp.lr", location="LOCATION_TYPE_HYPERPARAMETERS")
    assert only(hp).source == Hyperparameter(("lr",))
    assert only(hp, Table.EXPERIMENTS).source == Space(("lr",))
    data = field("metadata.a", location="LOCATION_TYPE_RUN_METADATA")
    assert only(data).source == Metadata(("a",))


def test_what_says_nothing_holds_always() -> None:
    no_condition = field("id", "=", None)
    assert parse_filter("", Table.RUNS) == parse_filter("{}", Table.RUNS) == Filter()
    assert parse(group()).root is None
    assert parse(group(group(), no_condition)).root is None
    assert parse(group(field("id"), group(), conjunction="or")).root is None
    assert parse(group(field("id"), group())).root == parse(group(field("id"))).root
    assert only(field("id", "isEmpty", None)).operator is Operator.IS_EMPTY


@pytest.mark.parametrize(
    ("root", "named"),
    [
        (group(field("nothing")), "children[0].columnName: unknown column 'nothing'"),
        (group(field("numTrials")), "unknown column"),
        (group(field("")), "columnName: required"),
        (group(field("a\0b")), "NUL"),
        (group(field("x" * 2000)), "characters"),
        (group(field("id", "~")), "children[0].operator: must be one of"),
        (group({"kind": "field", "columnName": "id"}), "operator"),
        (group(field("id", "contains")), "does not apply to id"),
        (group(field("archived", "<", True)), "does not apply to archived"),
        (group(field("id", "=", "x")), "value: must be a number"),
        (group(field("id", "=", True)), "value: must be a number"),
        (group(field("id", "=", [1])), "value: must be a number"),
        (group(field("user", "=", 5)), "value: must be a text"),
        (group(field("user", "=", "a\0")), "NUL"),
        (group(field("endTime", "=", "soon")), "'soon' is no time"),
        (group(field("archived", "=", "true")), "must be true or false"),
        (group(field("id", location="LOCATION_TYPE_MOON")), "unknown location"),
        (group(field("id", location={})), "unknown location"),
        (group(field("id", type="COLUMN_TYPE_MOON")), "unknown type"),
        (group(field("lr", location="LOCATION_TYPE_HYPERPARAMETERS")), "expected hp.<name>"),
        (group(field("hp.", location="LOCATION_TYPE_HYPERPARAMETERS")), "expected hp.<name>"),
        (group(field("loss", location="LOCATION_TYPE_TRAINING")), "is no metric"),
        (group(field("a.b.sum", location="LOCATION_TYPE_CUSTOM_METRIC")), "is no metric"),
        (group(field("a..min", location="LOCATION_TYPE_VALIDATIONS")), "is no metric"),
        (group(conjunction="xor"), "filter.filterGroup.conjunction"),
        ({"kind": "group"}, "conjunction"),
        ({"kind": "group", "conjunction": "and", "children": {}}, "children: expected a list"),
        ({"kind": "tree"}, "kind"),
        (group(None), "children[0]: expected an object"),
        ([], "expected an object"),
        (group(*[field("id")] * (MAX_CONDITIONS + 1)), "conditions"),
    ],
)
def test_what_is_wrong_is_named(root: Any, named: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(root)
    assert named in refused.value.message


def nested(levels: int) -> str:
    start = '{"kind":"group","conjunction":"and","children":['
    return '{"filterGroup":' + start * levels + "]}" * levels + "}"


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 900, 10_000])
def test_deep_filters_are_refused(levels: int) -> None:
    assert parse_filter(nested(MAX_DEPTH), Table.RUNS) == Filter()
    with pytest.raises(InvalidArgument, match="deep"):
        parse_filter(nested(levels), Table.RUNS)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "1", '{"showArchived": 1}', "x" * 2_000_000]
    + [
        f'{{"filterGroup": {{"kind":"field","columnName":"id","operator":"=","value":{n}}}}}'
        for n in ("1e999", "1" * 500)
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^filter"):
        parse_filter(text, Table.RUNS)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["kind", "columnName", "operator", "value", "children", "location"])
                | st.text(max_size=3),
                inner | st.sampled_from(["group", "field", "id", "=", "and"]),
                max_size=5,
            )
        ),
        max_leaves=8,
    ),
    st.sampled_from(list(Table)),
)
def test_any_json_is_read_or_refused(document: Any, table: Table) -> None:
    with suppress(InvalidArgument):
        found = parse_filter(json.dumps({"filterGroup": document}), table)
        assert found.root is None or isinstance(found.root, Group | Condition)


def test_sorts_are_read() -> None:
    assert parse_sorts("", Table.RUNS) == ()
    assert parse_sorts("id=desc, hp.a=b=asc,validation.loss.min=asc", Table.RUNS) == (
        Sort(Column("id", Kind.NUMBER), descending=True),
        Sort(Hyperparameter(("a=b",))),
        Sort(Metric("validation", "loss", "min")),
    )
    assert parse_sorts("metadata.k=asc", Table.RUNS) == (Sort(Metadata(("k",))),)
    assert parse_sorts("hp.k=asc", Table.EXPERIMENTS) == (Sort(Space(("k",))),)
    for table, columns in COLUMNS.items():
        for name, info in columns.items():
            if info.kind is not Kind.TAGS:
                assert parse_sorts(f"{name}=asc", table) == (Sort(Column(name, info.kind)),)


@pytest.mark.parametrize(
    "text",
    [
        "id",
        "id=up",
        "=asc",
        "nothing=asc",
        "tags=asc",
        "a.b=asc",
        ",",
        "hp.=asc",
        "a\x00=asc",
        ",".join(["id=asc"] * 21),
        "x" * 2000 + "=asc",
    ],
)
def test_bad_sorts_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^sort"):
        parse_sorts(text, Table.RUNS)
    with pytest.raises(InvalidArgument, match=r"^sort"):
        parse_sorts("metadata.a=asc", Table.EXPERIMENTS)
