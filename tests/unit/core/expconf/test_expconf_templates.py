"""Templates: what one may hold, what lies over it, and what a task leaves out of it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.expconf import check, merge
from master.core.expconf.interactive import TaskConfig
from master.core.expconf.kinds import CommandConfig, NotebookConfig, ShellConfig, TensorboardConfig
from master.core.expconf.parsing.normalise import normalise
from master.core.expconf.templates import (
    Template,
    check_template,
    known_part,
    naming,
    new_name,
    over_template,
    task_over_template,
)
from master.core.names import MAX_NAME, plain_name
from windlass.base.errors import InvalidArgument, InvalidConfig
from windlass.base.formats.documents import read_document

EXPERIMENTS = "experiments cannot use this template: "
TASKS = "interactive tasks cannot use this template: "
KINDS = (CommandConfig, NotebookConfig, ShellConfig, TensorboardConfig)


def mount(container_path: str, host_path: str) -> dict[str, str]:
    return {"container_path": container_path, "host_path": host_path}


def template(**config: Any) -> Template:
    return Template(name="mine", config=config)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"resources": {"slots_per_trial": 2}},
        {"resources": None, "description": None, "searcher": None},
        {"searcher": {"max_trials": 4}},
        {"environment": {"image": "python:3.11", "environment_variables": ["A=1"]}},
        {"bind_mounts": [mount("/a", "/b")], "labels": ["x"], "max_restarts": 0},
    ],
)
def test_what_everybody_can_use_is_taken_in_silence(config: dict[str, Any]) -> None:
    assert check_template(config) == ()


@pytest.mark.parametrize(
    ("config", "problems"),
    [
        ({"resources": 5}, ["<config>.resources: expected object or null, but got number"]),
        ({"resources": {"slots": -1}}, ["<config>.resources.slots: must be >= 0 but found -1"]),
        (
            {"resources": {"slots_per_trial": "x", "priority": 100}},
            [
                "<config>.resources.priority: must be <= 99 but found 100",
                "<config>.resources.slots_per_trial: expected integer or null, but got string",
            ],
        ),
        (
            {"searcher": {"max_trials": 0}, "idle_timeout": 5},
            [
                "<config>.idle_timeout: 5 is not a duration",
                "<config>.searcher.max_trials: must be >= 1 but found 0",
            ],
        ),
        (
            {"bind_mounts": [{"host_path": "/a"}]},
            ['<config>.bind_mounts[0]: missing properties: "container_path"'],
        ),
        ({"environment": {"image": "a b"}}, ['<config>.environment.image: "a b" holds a space']),
        ({"description": "a\0"}, ["<config>.description: must not contain NUL characters"]),
        (
            {"environment": {"environment_variables": ["KEY=********"]}},
            ["<config>: a secret is ********"],
        ),
        ({"data": {"x": 10**30}}, ["<config>: the number"]),
        ({"foo": 1}, ['<config>: additionalProperties "foo" not allowed']),
        ({"rescources": {}}, ['<config>: additionalProperties "rescources" not allowed; did you']),
        (
            {"environment": {"imge": "x"}, "resources": {"slot": 1}, "labels": None},
            [
                '<config>.environment: additionalProperties "imge" not allowed',
                '<config>.resources: additionalProperties "slot" not allowed',
            ],
        ),
    ],
)
def test_what_nobody_could_use_is_refused(config: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(InvalidConfig) as caught:
        check_template(config)
    assert caught.value.what == "template"
    assert len(caught.value.problems) == len(problems)
    for problem, begins in zip(caught.value.problems, problems, strict=True):
        assert problem.startswith(begins)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            {"resources": {"slots": 0}, "idle_timeout": "1h"},
            [
                f'{EXPERIMENTS}<config>.resources: additionalProperties "slots" not allowed; did you mean '
                '"slots_per_trial"?; <config>: additionalProperties "idle_timeout" not allowed'
            ],
        ),
        (
            {"rescources": {}, "max_restarts": 1},
            [
                f'{EXPERIMENTS}<config>: additionalProperties "rescources" not allowed; did you mean '
                '"resources"?'
            ],
        ),
        (
            {"environment": {"imge": "x"}, "bind_mounts": []},
            [
                f'{EXPERIMENTS}<config>.environment: additionalProperties "imge" not allowed; did you mean '
                '"image"?'
            ],
        ),
        (
            {"entrypoint": []},
            [
                f"{TASKS}<config>.entrypoint: must not be empty: say what to run, such as [python3, evaluate.py]"
            ],
        ),
        (
            {"resources": {"is_single_node": False}},
            [
                f"{TASKS}<config>.resources.is_single_node: must be true: it runs on one node; use an experiment "
                "for several"
            ],
        ),
    ],
)
def test_who_cannot_use_it_is_told(config: dict[str, Any], told: list[str]) -> None:
    assert list(check_template(config)) == told


@pytest.mark.parametrize(
    ("raw", "config", "merged"),
    [
        ({"name": "mine"}, {"name": "its", "max_restarts": 1}, {"name": "mine", "max_restarts": 1}),
        ({"name": None, "max_restarts": 0}, {"name": "its", "max_restarts": 3}, None),
        (
            {"bind_mounts": [mount("/a", "/mine")]},
            {"bind_mounts": [mount("/a", "/its"), mount("/b", "/its")]},
            {"bind_mounts": [mount("/a", "/mine"), mount("/b", "/its")]},
        ),
        (
            {"environment": {"environment_variables": {"cpu": ["A=mine"]}}},
            {"environment": {"environment_variables": {"cpu": ["A=its"]}}},
            {"environment": {"environment_variables": {"cpu": ["A=its", "A=mine"]}}},
        ),
        ({"entrypoint": ["mine"]}, {"entrypoint": ["its", "own"]}, {"entrypoint": ["mine"]}),
        ({"labels": ["b"]}, {"labels": ["a"]}, {"labels": ["a", "b"]}),
        (
            {"searcher": {"name": "single", "metric": "loss"}},
            {"searcher": {"name": "random", "max_trials": 9, "smaller_is_better": False}},
            {"searcher": {"name": "single", "metric": "loss", "smaller_is_better": False}},
        ),
        (
            {"searcher": {"metric": "loss"}},
            {"searcher": {"name": "random", "max_trials": 9}},
            {"searcher": {"metric": "loss", "name": "random", "max_trials": 9}},
        ),
        (
            {"resources": {"slots_per_trial": 1}},
            {"resources": {"shm_size": "1KiB"}},
            {"resources": {"slots_per_trial": 1, "shm_size": 1024}},
        ),
    ],
)
def test_an_experiment_lies_over_its_template(
    raw: dict[str, Any], config: dict[str, Any], merged: dict[str, Any] | None
) -> None:
    expected = {"name": "its", "max_restarts": 0} if merged is None else merged
    assert over_template(check(raw), template(**config)) == expected
    assert over_template(check(raw), None) == check(raw)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"resources": {"slots": 1}}, '<config>.resources: additionalProperties "slots"'),
        ({"nodes": 1}, '<config>: additionalProperties "nodes" not allowed'),
    ],
)
def test_an_experiment_reads_its_template_strictly(config: dict[str, Any], problem: str) -> None:
    with (
        pytest.raises(InvalidConfig, match=r'^invalid template "mine": ') as caught,
        naming(template(**config)),
    ):
        over_template({}, template(**config))
    assert caught.value.problems[0].startswith(problem)


def test_what_is_wrong_together_names_the_template() -> None:
    with pytest.raises(InvalidConfig) as caught, naming(template()):
        raise InvalidConfig(["<config>.x: wrong"], what="experiment configuration")
    assert caught.value.message == (
        'invalid experiment configuration with template "mine": <config>.x: wrong'
    )
    with pytest.raises(InvalidConfig, match=r"^invalid experiment configuration: "), naming(None):
        raise InvalidConfig(["<config>.x: wrong"], what="experiment configuration")


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_leaves_out_what_it_does_not_know(kind: type[TaskConfig]) -> None:
    config = {
        "searcher": {"name": "single"},
        "hyperparameters": {"lr": 1},
        "resources": {"slots_per_trial": 4, "weight": 3},
        "environment": {"image": {"cuda": "mine", "tpu": "x"}, "colour": 1, "ports": {"a": 1}},
        "bind_mounts": [{**mount("/a", "/b"), "colour": "red"}],
        "data": {"a": 1},
    }
    raw = {"resources": {"slots": 0}, "entrypoint": ["x"]}
    assert task_over_template(kind, raw, template(**config)) == {
        "resources": {"slots": 0, "weight": 3},
        "entrypoint": ["x"],
        "environment": {"image": {"cuda": "mine"}, "ports": {"a": 1}},
        "bind_mounts": [mount("/a", "/b")],
    }
    assert task_over_template(kind, raw, None) == raw


KEYS = st.one_of(
    st.sampled_from(sorted({*CommandConfig.model_fields, "searcher", "labels", "data"})),
    st.sampled_from(["image", "slots", "host_path", "container_path", "type", "name", "cpu"]),
    st.text(max_size=3),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(KEYS, JSON, max_size=5)


def problems_of(known: dict[str, Any]) -> tuple[str, ...]:
    try:
        CommandConfig.from_json({"description": "", **known})
    except InvalidConfig as error:
        return error.problems
    return ()


@given(document=DOCUMENTS)
def test_no_document_crashes_the_check(document: dict[str, Any]) -> None:
    with suppress(InvalidConfig):
        assert all(" cannot use this template: " in line for line in check_template(document))


@given(document=DOCUMENTS)
def test_a_task_knows_all_that_is_left(document: dict[str, Any]) -> None:
    known = known_part(CommandConfig, normalise(document))
    assert known_part(CommandConfig, known) == known
    assert not [line for line in problems_of(known) if "not allowed" in line]


@given(raw=DOCUMENTS, document=DOCUMENTS)
def test_what_both_say_the_user_decides(raw: dict[str, Any], document: dict[str, Any]) -> None:
    """Scalars of the user's stay; what the user leaves open is the template's."""
    merged = task_over_template(CommandConfig, raw, template(**document))
    known = known_part(CommandConfig, normalise(document))
    assert merged == merge(raw, known)
    for key, value in raw.items():
        if value is not None and not isinstance(value, dict | list):
            assert merged[key] == normalise(raw)[key]
    for key, value in known.items():
        if raw.get(key) is None:
            assert merged[key] == value


@pytest.mark.parametrize(
    "name", ["a", "team/gpu", "100%", "%2F", "x" * MAX_NAME, "größe 🐘", "a?b#c", "-rf", "а"]
)
def test_names_are_kept(name: str) -> None:
    assert new_name(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "must neither be empty"),
        (" a", "begin or end with a blank"),
        ("a\n", "begin or end with a blank"),
        ("a\x00b", "characters that cannot be seen"),
        ("a\u200bb", "characters that cannot be seen"),
        ("a\u202eb", "characters that cannot be seen"),
        ("x" * (MAX_NAME + 1), "has 1001 characters, more than 1000"),
        ("🐘" * 600, "has 2400 bytes in UTF-8, more than 2000"),
        ("/a", "no names"),
        ("a/", "no names"),
        ("a//b", "no names"),
        ("a/../b", "no names"),
        (".", "no names"),
        ("..", "no names"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^newName: .*{words}"):
        new_name(name, field="newName")


def test_letters_with_accents_have_one_spelling() -> None:
    assert new_name("cafe\u0301") == plain_name("café") == "café"


def test_the_template_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[4] / "docs" / "templates.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert check_template(read_document(shown)) == ()
