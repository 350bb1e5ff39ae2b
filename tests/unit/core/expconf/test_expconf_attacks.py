"""Configurations that are meant to keep a master busy: read in a moment, or refused with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from master.core.expconf import ClusterDefaults, complete, parse
from master.core.expconf.interactive import complete_task
from master.core.expconf.kinds import CommandConfig
from master.core.expconf.models.log_policies import MAX_POLICIES
from master.core.expconf.parsing.errors import MAX_PROBLEMS
from master.core.searcher.limits import check_limits
from master.core.searcher.search import Search
from master.experiments.submission.admission import search_of
from windlass.base.errors import InvalidConfig
from windlass.base.formats import documents
from windlass.base.formats.documents import MAX_TEXT, MAX_VALUES, read_document

RUNNABLE: dict[str, Any] = {
    "name": "attack",
    "entrypoint": "true",
    "searcher": {"name": "single", "metric": "loss"},
    "checkpoint_storage": {"type": "shared_fs", "host_path": "/tmp"},
}


@pytest.fixture(autouse=True)
def a_loaded_machine_has_time_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_SECONDS", 60.0)


def refused(text: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        submit(text)
    assert len(caught.value.message) < 200_000
    return caught.value.message


def submit(text: str) -> Search:
    config = complete(parse(text), defaults=ClusterDefaults(), seed=1, name="n")
    json.dumps(config.to_json()).encode()
    search = search_of(config)
    check_limits(search)
    return search


def doubling(levels: int, line: str) -> str:
    lines = ["hyperparameters:", "  a0: &a0 {x: 1, y: 2}"]
    lines += [f"  a{n}: &a{n} {line.format(n - 1)}" for n in range(1, levels)]
    return "\n".join(lines)


def test_a_document_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_SECONDS", 0.0)
    assert "it takes more than 0 seconds to read" in refused("- a\n- a\n")


def test_merge_keys_that_double_are_merged_once() -> None:
    text = doubling(28, "{{<<: [*a{0}, *a{0}]}}")
    assert len(text) < 1000
    assert read_document(text)["hyperparameters"]["a27"] == {"x": 1, "y": 2}


def test_merged_maps_are_counted() -> None:
    names = ", ".join(f"k{n}: 0" for n in range(1000))
    uses = "\n".join(f"u{n}: {{<<: *base}}" for n in range(200))
    assert f"more than {MAX_VALUES} values" in refused(f"base: &base {{{names}}}\n{uses}")


def test_values_without_aliases_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUES", 1_000)
    assert len(read_document("- a\n" * 999)) == 999
    assert "more than 1000 values" in refused("- a\n" * 1_001)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (doubling(60, "[*a{0}, *a{0}]"), f"more than {MAX_VALUES} values"),
        (doubling(30, "{{l: *a{0}, r: *a{0}}}"), f"more than {MAX_VALUES} values"),
        (f"a: &a {'x' * 50_000}\nb: [{'*a, ' * 100}]", f"more than {MAX_TEXT} characters"),
        ("x: " + "y" * MAX_TEXT, f"characters; the maximum is {MAX_TEXT}"),
        ("a: 0x" + "f" * 100_000, "the number does not fit 64 bits"),
        ("0x" + "f" * 5_000 + ": 1", "the number does not fit 64 bits"),
        ("a: 0x" + "f" * 17, "does not fit 64 bits"),
        ('{"a": ' + "9" * 10_000 + "}", "a number does not fit 64 bits"),
        ("a: " + "9" * 500_000, "the number does not fit 64 bits"),
        ("a: 1e999999999", "inf is not a number"),
        ("a: !!int 12:30", "expected an integer"),
        ("a: !!int ''", "expected an integer"),
        ("a: !!float 1_0:0", "expected a number"),
        ("a: !!bool maybe", "expected a boolean"),
        ("a: !!binary aGVsbG8=", "could not determine a constructor"),
        ("a: !!timestamp 2020-01-01", "could not determine a constructor"),
        ("a: !!set {x, y}", "could not determine a constructor"),
        ("a: !!map [x]", "could not determine a constructor"),
        ("a: !<" + "x" * 1000 + "> b", "could not determine a constructor"),
        ("[" * 100_000, "nested more than 100 deep"),
        ("{a: " * 100_000, "nested more than 100 deep"),
        ('{"a": ' * 100_000, "nested more than 100 deep"),
        ("- " * 50_000, "nested more than 100 deep"),
        ("? " * 50_000, "a map key must be text"),
        ("&a {x: *a}", "undefined alias"),
        ("<<: 3", "expected a map or a list of maps to merge"),
        ("<<: [{a: 1}, 3]", "expected a map or a list of maps to merge"),
        ("a:\n\t- b", "cannot start any token"),
        ("a: \0", "unacceptable character"),
        ('a: "\\0"', "must not contain NUL characters"),
        ('{"a": "\\u0000"}', "must not contain NUL characters"),
        ("a: \ud800", "unacceptable character"),
        ('a: "\\ud800"', "halves of surrogate pairs"),
        ('{"\\udfff": 1}', "halves of surrogate pairs"),
        ("1: a\n'1': b", 'the key "1" is given twice'),
        ("\n".join(f"key{n}: 1" for n in range(4_000)) + "\nkey0: 2", '"key0" is given twice'),
        (json.dumps({f"k{n}": 1 for n in range(40_000)})[:-1] + ', "k0": 2}', "is given twice"),
        ("%TAG ! tag:x,2000:\n---\na: !y z", "could not determine a constructor"),
    ],
)
def test_a_nasty_document_is_refused_with_the_reason(text: str, problem: str) -> None:
    assert problem in refused(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({f"unknown{n}": 1 for n in range(40_000)}, f"the first {MAX_PROBLEMS} are shown"),
        ({"x" * 500_000: 1}, f'"{"x" * 100}..." not allowed'),
        (
            {"log_policies": [{"name": f"n{n}", "pattern": "(a{9}){99}"} for n in range(2000)]},
            f"2000 log policies; the maximum is {MAX_POLICIES}",
        ),
        ({"log_policies": [{"name": "n", "pattern": "((((a+)+)+)+)+$" * 99}]}, "characters; the"),
        ({"log_policies": [{"name": "n", "pattern": "(?=x)"}]}, "look-ahead"),
        (
            {
                "searcher": {"name": "grid", "metric": "loss"},
                "hyperparameters": {
                    f"h{n}": {"type": "int", "minval": 0, "maxval": 9, "count": 10}
                    for n in range(2000)
                },
            },
            "the grid has more than 1000000000 points",
        ),
        (
            {
                "searcher": {
                    "name": "random",
                    "metric": "loss",
                    "max_trials": 20_000,
                    "max_concurrent_trials": 0,
                },
                "hyperparameters": {f"h{n}": n for n in range(20_000)},
            },
            "would start at once; the limit is 1000000 hyperparameters: set it to 49 or less",
        ),
    ],
)
def test_a_large_section_is_refused_with_the_reason(section: dict[str, Any], problem: str) -> None:
    assert problem in refused(json.dumps(RUNNABLE | section))


@pytest.mark.slow
@pytest.mark.parametrize(
    "section",
    [
        {"hyperparameters": {f"h{n}": n for n in range(20_000)}},
        {"labels": [f"label{n}" for n in range(50_000)]},
        {"data": {"files": ["part"] * 40_000}},
        {
            "searcher": {
                "name": "adaptive_asha",
                "metric": "loss",
                "max_trials": 2**62,
                "max_time": 2**62,
                "time_metric": "batches",
                "divisor": 1.0000001,
                "max_rungs": 100,
                "mode": "conservative",
            }
        },
    ],
)
def test_what_is_large_and_may_run_is_read(section: dict[str, Any]) -> None:
    assert submit(json.dumps(RUNNABLE | section)).method.first_trials >= 1


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"entrypoint": ["a\0"]}, "must not contain NUL characters"),
        ({"environment": {"environment_variables": ["A=\ud800"]}}, "halves of surrogate pairs"),
        ({"entrypoint": ["x"] * (MAX_VALUES + 1)}, f"more than {MAX_VALUES} values"),
        ({"resources": {"slots": 2**70}}, "does not fit 64 bits"),
    ],
)
def test_commands_have_the_same_bounds(config: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        complete_task(CommandConfig, config, defaults=ClusterDefaults())
