"""Hyperparameter spaces: what is read, what is refused, what samples and grids hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.searcher.grid import grid_point, grid_size
from master.core.searcher.rng import Draws, RngState
from master.core.searcher.sampling import sample
from master.core.searcher.space import Const, Nested, parse_space
from windlass.base.errors import InvalidConfig


def points(hyperparameters: dict[str, Any]) -> list[Any]:
    space = parse_space(hyperparameters)
    return [grid_point(space, i) for i in range(grid_size(space))]


def axis(kind: str, minval: float, maxval: float, count: int, **more: Any) -> list[Any]:
    leaf = {"type": kind, "minval": minval, "maxval": maxval, "count": count, **more}
    return [p["x"] for p in points({"x": leaf})]


def test_bare_values_and_lists_are_constants() -> None:
    space = parse_space({"b": [{"type": "int"}, 2], "a": None, "c": "x"})
    assert space == Nested(
        (("a", Const(None)), ("b", Const([{"type": "int"}, 2])), ("c", Const("x")))
    )
    draws = Draws(RngState.seeded(3))
    assert sample(space, draws) == {"a": None, "b": [{"type": "int"}, 2], "c": "x"}
    assert draws.state() == RngState.seeded(3)


def test_a_sample_shares_nothing_with_the_configuration() -> None:
    config: dict[str, Any] = {
        "a": {"type": "const", "val": [1]},
        "b": {"type": "categorical", "vals": [[2]]},
    }
    space = parse_space(config)
    drawn = sample(space, Draws(RngState.seeded(0)))
    drawn["a"].append(9)
    drawn["b"].append(9)
    config["a"]["val"].append(8)
    assert sample(space, Draws(RngState.seeded(0))) == {"a": [1], "b": [2]}


@given(
    seed=st.integers(0, 2**32 - 1),
    low=st.integers(-(2**62), 2**61),
    width=st.integers(0, 2**61),
)
def test_integers_include_both_ends(seed: int, low: int, width: int) -> None:
    space = parse_space({"x": {"type": "int", "minval": low, "maxval": low + width}})
    assert low <= sample(space, Draws(RngState.seeded(seed)))["x"] <= low + width


def test_both_ends_of_a_small_range_are_reached() -> None:
    space = parse_space({"x": {"type": "int", "minval": 4, "maxval": 6}})
    draws = Draws(RngState.seeded(0))
    assert {sample(space, draws)["x"] for _ in range(60)} == {4, 5, 6}


@pytest.mark.parametrize(
    ("leaf", "problem"),
    [
        ({"type": "float", "minval": 0}, "<config>.hyperparameters.x.type: must be one of const"),
        ({"type": ["int"]}, "must be one of const"),
        ({"type": "int", "minval": 0}, "x: maxval is a required property"),
        ({"type": "const"}, "x: val is a required property"),
        ({"type": "int", "minval": 2, "maxval": 1}, "minval must be less than maxval"),
        ({"type": "int", "minval": 0, "maxval": 2**70}, "64 bits"),
        ({"type": "double", "minval": 0, "maxval": "wide"}, "wide"),
        ({"type": "double", "minval": 0, "maxval": float("inf")}, "finite"),
        ({"type": "double", "minval": float("nan"), "maxval": 1}, "minval must be less"),
        ({"type": "log", "base": 0, "minval": 0, "maxval": 1}, "base must be greater than 0"),
        ({"type": "log", "base": 10, "minval": 0, "maxval": 400}, "is not finite"),
        ({"type": "categorical", "vals": []}, "at least one value"),
        ({"type": "categorical", "vals": "abc"}, "at least one value"),
        ({"type": "int", "minval": 0, "maxval": 9, "count": 0}, "count must be at least 1"),
        ({"deeper": {"type": "nope"}}, "<config>.hyperparameters.x.deeper.type"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(leaf: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfig, match="hyperparameters") as refused:
        parse_space({"x": leaf, "fine": 1})
    assert len(refused.value.problems) == 1
    assert problem in refused.value.problems[0]


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_space({"x": {"type": "int"}, "y": {"type": "const"}})
    assert len(refused.value.problems) == 2


@pytest.mark.parametrize(
    ("axis_values", "expected"),
    [
        (axis("int", 0, 10, 3), [0, 5, 10]),
        (axis("int", 0, 3, 9), [0, 1, 2, 3]),
        (axis("int", 0, 5, 3), [0, 3, 5]),
        (axis("int", -5, 0, 3), [-5, -3, 0]),
        (axis("int", 0, 5, 1), [3]),
        (axis("int", -5, 0, 1), [-3]),
        (axis("double", 0, 1, 3), [0.0, 0.5, 1.0]),
        (axis("double", 0, 1, 1), [0.5]),
        (axis("log", -2, 0, 3, base=10), [10.0**-2, 10.0**-1, 1.0]),
        (axis("log", -2, 0, 1, base=10), [10.0**-1]),
    ],
)
def test_grid_axes(axis_values: list[Any], expected: list[Any]) -> None:
    assert axis_values == expected


def test_the_last_axis_varies_fastest() -> None:
    choice = {"type": "categorical", "vals": [1, 2]}
    expanded = points({"b": choice, "a": {"z": choice, "e": {}}, "c": 7})
    assert expanded == [
        {"a": {"e": {}, "z": 1}, "b": 1, "c": 7},
        {"a": {"e": {}, "z": 1}, "b": 2, "c": 7},
        {"a": {"e": {}, "z": 2}, "b": 1, "c": 7},
        {"a": {"e": {}, "z": 2}, "b": 2, "c": 7},
    ]


def test_a_grid_over_nothing_is_one_point() -> None:
    assert points({}) == [{}]


def test_a_grid_needs_counts() -> None:
    with pytest.raises(InvalidConfig, match="grid search is in use but count was not provided"):
        points({"x": {"type": "double", "minval": 0, "maxval": 1}})
