"""One document over another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.expconf import merge, merge_container_defaults


@pytest.mark.parametrize(
    ("high", "low", "merged"),
    [
        ({"name": "h"}, {"name": "l", "debug": True}, {"name": "h", "debug": True}),
        ({"name": None}, {"name": "l"}, {"name": "l"}),
        ({"name": "", "max_restarts": 0}, {"name": "l", "max_restarts": 3}, None),
        ({"entrypoint": []}, {"entrypoint": ["a"]}, None),
        ({"entrypoint": "a"}, {"entrypoint": ["b"]}, None),
        (
            {"resources": {"max_slots": 1}},
            {"resources": {"priority": 2}},
            {"resources": {"max_slots": 1, "priority": 2}},
        ),
        ({"labels": []}, {"labels": ["b", "a"]}, {"labels": ["a", "b"]}),
        ({"labels": ["c", "a"]}, {"labels": ["b"]}, {"labels": ["a", "b", "c"]}),
        (
            {"min_validation_period": {"epochs": 1}},
            {"min_validation_period": {"batches": 3}},
            None,
        ),
        (
            {"data": {"a": {"b": 1}, "n": None}},
            {"data": {"a": {"b": 2, "c": [3]}, "n": 4}},
            {"data": {"a": {"b": 1, "c": [3]}, "n": 4}},
        ),
        ({"data": {"a": [1]}}, {"data": {"a": {"b": 2}}}, None),
        (
            {"environment": {"image": {"cpu": "h"}, "ports": {"a": 1}}},
            {"environment": {"image": "l", "ports": {"a": 2, "b": 3}}},
            {
                "environment": {
                    "image": {"cpu": "h", "cuda": "l", "rocm": "l"},
                    "ports": {"a": 1, "b": 3},
                }
            },
        ),
        (
            {"environment": {"environment_variables": {"cpu": ["A=h"]}}},
            {"environment": {"environment_variables": {"cpu": ["A=l"], "gpu": ["B=l"]}}},
            {"environment": {"environment_variables": {"cpu": ["A=l", "A=h"], "cuda": ["B=l"]}}},
        ),
        (
            {"environment": {"registry_auth": {"username": "h"}}},
            {"environment": {"registry_auth": {"password": "l"}}},
            None,
        ),
        (
            {"environment": {"proxy_ports": [{"proxy_port": 1}]}},
            {"environment": {"proxy_ports": [{"proxy_port": 1, "proxy_tcp": True}]}},
            None,
        ),
        (
            {"bind_mounts": [{"host_path": "/h", "container_path": "x"}]},
            {
                "bind_mounts": [
                    {"host_path": "/l", "container_path": "x"},
                    {"host_path": "/l", "container_path": "y"},
                ]
            },
            {
                "bind_mounts": [
                    {"host_path": "/h", "container_path": "x"},
                    {"host_path": "/l", "container_path": "y"},
                ]
            },
        ),
        (
            {"resources": {"devices": ["/h:/x"]}},
            {"resources": {"devices": ["/l:/x", "/l:/y"]}},
            {
                "resources": {
                    "devices": [
                        {"host_path": "/h", "container_path": "/x"},
                        {"host_path": "/l", "container_path": "/y"},
                    ]
                }
            },
        ),
        (
            {"searcher": {"name": "single", "smaller_is_better": False}},
            {"searcher": {"name": "random", "metric": "m", "max_trials": 4}},
            {"searcher": {"name": "single", "smaller_is_better": False, "metric": "m"}},
        ),
        (
            {"searcher": {"max_trials": 2}},
            {"searcher": {"name": "random", "metric": "m", "max_trials": 4}},
            {"searcher": {"max_trials": 2, "name": "random", "metric": "m"}},
        ),
        (
            {"searcher": {"name": "single", "max_length": 3}},
            {"searcher": {"name": "single", "max_length": {"batches": 4}}},
            None,
        ),
        (
            {"checkpoint_storage": {"type": "gcs", "bucket": "h"}},
            {"checkpoint_storage": {"type": "s3", "bucket": "l", "save_trial_best": 4}},
            {"checkpoint_storage": {"type": "gcs", "bucket": "h", "save_trial_best": 4}},
        ),
        (
            {"checkpoint_storage": {"type": "azure", "connection_string": "h"}},
            {"checkpoint_storage": {"type": "azure", "account_url": "l", "container": "c"}},
            {
                "checkpoint_storage": {
                    "type": "azure",
                    "connection_string": "h",
                    "container": "c",
                }
            },
        ),
        (
            {"hyperparameters": {"a": 1, "g": {"x": 1}, "t": {"type": "const", "val": 1}}},
            {"hyperparameters": {"a": {"b": 2}, "g": {"x": 3, "y": 2}, "t": {"u": 1}, "z": 9}},
            {
                "hyperparameters": {
                    "a": {"type": "const", "val": 1},
                    "g": {"x": {"type": "const", "val": 1}, "y": {"type": "const", "val": 2}},
                    "t": {"type": "const", "val": 1},
                    "z": {"type": "const", "val": 9},
                }
            },
        ),
        (
            {"log_policies": [{"name": "n"}, {"pattern": "p", "action": "exclude_node"}]},
            {
                "log_policies": [
                    {"name": "n", "pattern": "x"},
                    {"pattern": "p", "action": {"type": "exclude_node"}},
                    {"name": "m", "pattern": "y"},
                ]
            },
            {
                "log_policies": [
                    {"name": "n"},
                    {"pattern": "p", "action": "exclude_node"},
                    {"name": "m", "pattern": "y"},
                ]
            },
        ),
        (
            {"integrations": {"webhooks": {"webhook_id": [1]}}},
            {"integrations": {"webhooks": {"webhook_id": [2], "exclude": True}}},
            {"integrations": {"webhooks": {"webhook_id": [1], "exclude": True}}},
        ),
    ],
)
def test_rules(high: dict[str, Any], low: dict[str, Any], merged: dict[str, Any] | None) -> None:
    """`merged` None: the upper one is all that is left."""
    assert merge(high, low) == (merge(high, {}) if merged is None else merged)


texts = st.text("ab", max_size=2)
lists = st.lists(texts, max_size=3)
documents = st.fixed_dictionaries(
    {},
    optional={
        "name": texts,
        "entrypoint": lists,
        "labels": lists.map(lambda labels: sorted(set(labels))),
        "data": st.dictionaries(texts, st.integers() | st.dictionaries(texts, texts, max_size=2)),
        "hyperparameters": st.dictionaries(
            texts,
            st.just({"type": "const", "val": 1})
            | st.dictionaries(texts, st.just({"type": "const", "val": 2}), max_size=2),
        ),
        "bind_mounts": st.lists(
            st.builds(lambda h, c: {"host_path": h, "container_path": c}, texts, texts), max_size=3
        ),
        "environment": st.fixed_dictionaries(
            {}, optional={"environment_variables": st.dictionaries(st.just("cpu"), lists)}
        ),
        "searcher": st.fixed_dictionaries(
            {"name": st.just("random")}, optional={"metric": texts, "max_trials": st.integers(1, 3)}
        ),
        "min_validation_period": st.builds(lambda n: {"batches": n}, st.integers(0, 3)),
        "log_policies": st.lists(st.builds(lambda n, p: {"name": n, "pattern": p}, texts, texts)),
    },
)


@given(documents)
def test_nothing_below_or_above_changes_nothing(document: dict[str, Any]) -> None:
    assert merge(document, {}) == document
    assert merge({}, document) == document


@given(documents, documents, documents)
def test_layers_may_be_merged_in_either_order(
    a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]
) -> None:
    """Among documents that name the same searcher; mixed ones drop keys of whoever loses, in order."""
    a, b, c = (_without_type_clashes(document) for document in (a, b, c))
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


def _without_type_clashes(document: dict[str, Any]) -> dict[str, Any]:
    """A map over a number over a map: what shows through depends on the order, as it must."""
    data = {k: v for k, v in document.get("data", {}).items() if isinstance(v, dict)}
    space = {k: v for k, v in document.get("hyperparameters", {}).items() if "type" not in v}
    return document | {"data": data, "hyperparameters": space}


@given(documents, documents)
def test_merging_changes_neither_argument(a: dict[str, Any], b: dict[str, Any]) -> None:
    before = repr((a, b))
    merge(a, b)
    assert repr((a, b)) == before


@pytest.mark.parametrize(
    ("pool", "cluster", "merged"),
    [
        ({"shm_size_bytes": 0, "work_dir": ""}, {"shm_size_bytes": 5, "work_dir": "/w"}, None),
        ({"force_pull_image": False}, {"force_pull_image": True}, None),
        ({"preemption_timeout": 7}, {"shm_size_bytes": 5}, {"preemption_timeout": 7}),
        (
            {"image": {"cpu": "p"}},
            {"image": "c"},
            {"image": {"cpu": "p", "cuda": "c", "rocm": "c"}},
        ),
        (
            {"registry_auth": {"username": "p"}},
            {"registry_auth": {"password": "c"}},
            {"registry_auth": {"username": "p", "serveraddress": "docker.io"}},
        ),
        (
            {"environment_variables": {"cpu": ["A=p"]}},
            {"environment_variables": {"cpu": ["A=c", "B=c"], "cuda": ["A=c"]}},
            {"environment_variables": {"cpu": ["A=p", "B=c"], "cuda": ["A=c"], "rocm": []}},
        ),
        (
            {"add_capabilities": ["Z"]},
            {"add_capabilities": ["A", "Z"]},
            {"add_capabilities": ["A", "Z"]},
        ),
        (
            {"slurm": {"sbatch_args": ["p"]}},
            {"slurm": {"sbatch_args": ["c"], "gpu_type": "g"}},
            {"slurm": {"sbatch_args": ["p", "c"], "gpu_type": "g"}},
        ),
    ],
)
def test_a_pool_over_the_cluster(
    pool: dict[str, Any], cluster: dict[str, Any], merged: dict[str, Any] | None
) -> None:
    result = merge_container_defaults(pool, cluster)
    assert result == cluster | (merged or {})
