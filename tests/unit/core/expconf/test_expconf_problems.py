"""What is refused, in which words: the lines users see."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from master.core.expconf import ClusterDefaults, complete, parse
from windlass.base.errors import InvalidConfig

RUNNABLE: dict[str, Any] = {
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "checkpoint_storage": {"type": "shared_fs", "host_path": "/tmp"},
}
ASHA: dict[str, Any] = {"name": "adaptive_asha", "metric": "loss", "max_trials": 4}


def problems_of_parse(document: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidConfig) as caught:
        parse(json.dumps(document))
    assert caught.value.what == "experiment configuration"
    return caught.value.problems


def problems_of_complete(document: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidConfig) as caught:
        complete(parse(json.dumps(document)), defaults=ClusterDefaults(), seed=1, name="n")
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bogus: 1", '<config>: additionalProperties "bogus" not allowed'),
        ("bogus: null", '<config>: additionalProperties "bogus" not allowed'),
        (
            "entrypont: x",
            '<config>: additionalProperties "entrypont" not allowed; did you mean "entrypoint"?',
        ),
        (
            "resources: {slots: 1}",
            '<config>.resources: additionalProperties "slots" not allowed; '
            'did you mean "slots_per_trial"?',
        ),
        ("max_restarts: -1", "<config>.max_restarts: must be >= 0 but found -1"),
        ("max_restarts: 1.5", "<config>.max_restarts: expected integer or null, but got number"),
        ("max_restarts: true", "<config>.max_restarts: expected integer or null, but got boolean"),
        ("debug: 1", "<config>.debug: expected boolean or null, but got number"),
        ("description: [a]", "<config>.description: expected string or null, but got array"),
        ("labels: [a, 1]", "<config>.labels[1]: expected string, but got number"),
        ("labels: a", "<config>.labels: expected array or null, but got string"),
        ("resources: 3", "<config>.resources: expected object or null, but got number"),
        ("entrypoint: 3", "<config>.entrypoint: expected string or array or null, but got number"),
        ("entrypoint: [a, null]", "<config>.entrypoint[1]: expected string, but got null"),
        (
            "checkpoint_policy: foo",
            '<config>.checkpoint_policy: value must be one of <nil>, "best", "all", "none"',
        ),
        ("resources: {priority: 100}", "<config>.resources.priority: must be <= 99 but found 100"),
        ("resources: {weight: 0}", "<config>.resources.weight: must be > 0 but found 0"),
        (
            "resources: {shm_size: 4 apples}",
            '<config>.resources.shm_size: failed to parse shm_size: "4 apples" is not a size '
            'such as "64MiB"',
        ),
        (
            "resources: {gpu_model: [A100]}",
            '<config>.resources: additionalProperties "gpu_model" not allowed; '
            'did you mean "gpu_models"?',
        ),
        (
            "resources: {gpu_models: ['']}",
            '<config>.resources.gpu_models: must name GPU models such as "A100"',
        ),
        (
            "resources: {markets: [ondemand]}",
            '<config>.resources.markets[0]: "ondemand" is no market (did you mean "on_demand"?): '
            "use one of reserved, capacity_block, spot, on_demand, queued",
        ),
        (
            "resources: {min_gpu_memory: much}",
            '<config>.resources.min_gpu_memory: "much" is not a size such as "40GiB"',
        ),
        (
            "resources: {max_usd_per_hour: -1}",
            "<config>.resources.max_usd_per_hour: must be >= 0 but found -1",
        ),
        (
            "resources: {devices: ['a:b:c:d']}",
            '<config>.resources.devices[0]: invalid device string "a:b:c:d": '
            'write "host:container[:mode]"',
        ),
        (
            "bind_mounts: [{host_path: a, container_path: b}]",
            "<config>.bind_mounts[0].host_path: host_path must be an absolute path",
        ),
        (
            "bind_mounts: [{host_path: /a}]",
            '<config>.bind_mounts[0]: missing properties: "container_path"',
        ),
        (
            "bind_mounts: [{}]",
            '<config>.bind_mounts[0]: missing properties: "host_path", "container_path"',
        ),
        (
            "bind_mounts: [{host_path: /a, container_path: null}]",
            "<config>.bind_mounts[0].container_path: expected string, but got null",
        ),
        (
            "min_validation_period: {batches: 1, epochs: 1}",
            '<config>.min_validation_period: must have exactly one of "batches", "records" '
            'or "epochs"',
        ),
        (
            "searcher: {name: bayesian}",
            "<config>.searcher.name: must be one of single, random, grid, async_halving, adaptive_asha or "
            'windlass_external, not "bayesian"',
        ),
        (
            "searcher: bayes",
            '<config>.searcher: expected object or null, but got string "bayes": '
            "its name must be one of single, random, grid, async_halving, adaptive_asha or "
            "windlass_external",
        ),
        (
            "searcher: {name: random, num_rungs: 2}",
            '<config>.searcher: additionalProperties "num_rungs" not allowed',
        ),
        (
            "searcher: {name: adaptive_asha, divisor: 1}",
            "<config>.searcher.divisor: must be > 1 but found 1",
        ),
        (
            "searcher: {name: adaptive_asha, max_time: 0}",
            "<config>.searcher.max_time: must be >= 1 but found 0",
        ),
        (
            "searcher: {name: adaptive_asha, bracket_rungs: [2, 0]}",
            "<config>.searcher.bracket_rungs[1]: must be >= 1 but found 0",
        ),
        (
            "searcher: {name: single, max_length: {batches: 0}}",
            "<config>.searcher.max_length.batches: must be >= 1 but found 0",
        ),
        (
            "searcher: {name: async_halving, max_length: 4}",
            "<config>.searcher.max_length: expected object or null, but got number",
        ),
        (
            "searcher: {max_trial: 4}",
            '<config>.searcher: additionalProperties "max_trial" not allowed; '
            'did you mean "max_trials"?',
        ),
        (
            "hyperparameters: {a: {type: integer}}",
            '<config>.hyperparameters.a: if a hyperparameter object\'s ["type"] is set, it must '
            "be one of 'int', 'double', 'log', 'const', or 'categorical'",
        ),
        (
            "hyperparameters: {a: {b: {type: int, minval: 3, maxval: 3}}}",
            "<config>.hyperparameters.a.b: minval must be less than maxval",
        ),
        (
            "hyperparameters: {a: {b: {type: double, minval: 3}}}",
            '<config>.hyperparameters.a.b: missing properties: "maxval"',
        ),
        (
            "hyperparameters: {a: {b: {type: log, minval: 0, maxval: 1, base: 0}}}",
            "<config>.hyperparameters.a.b.base: must be > 0 but found 0",
        ),
        (
            "hyperparameters: {a: {type: log, minval: 0, maxval: 400, base: 10}}",
            "<config>.hyperparameters.a: base to the power of maxval is too large for a number",
        ),
        (
            "hyperparameters: {a: {type: categorical, vals: []}}",
            "<config>.hyperparameters.a.vals: must not be empty",
        ),
        (
            "hyperparameters: {a: {type: int, minval: 1, maxval: 2, cout: 3}}",
            '<config>.hyperparameters.a: additionalProperties "cout" not allowed; '
            'did you mean "count"?',
        ),
        (
            "hyperparameters: {a: {b: {type: int, minval: null, maxval: 2}}}",
            "<config>.hyperparameters.a.b.minval: expected integer, but got null",
        ),
        (
            "checkpoint_storage: {type: shared_fs, host_path: /a/b, storage_path: /a/bc}",
            "<config>.checkpoint_storage.storage_path: storage_path must either be a relative directory or a "
            "subdirectory of host_path",
        ),
        (
            "checkpoint_storage: {type: shared_fs, host_path: /a/b, storage_path: c/../../d}",
            "<config>.checkpoint_storage.storage_path: storage_path must either be a relative directory or a "
            "subdirectory of host_path",
        ),
        (
            "checkpoint_storage: {type: s3, bucket: b, prefix: a/../b}",
            "<config>.checkpoint_storage.prefix: prefix cannot contain /../",
        ),
        (
            "checkpoint_storage: {type: azure, container: c}",
            "<config>.checkpoint_storage.account_url: Exactly one of connection_string or account_url "
            "must be set",
        ),
        (
            "checkpoint_storage: {type: azure, container: c, connection_string: s, credential: k}",
            "<config>.checkpoint_storage.credential: credential and connection_string must not both be set",
        ),
        (
            "checkpoint_storage: {type: s3, host_path: /a}",
            '<config>.checkpoint_storage: additionalProperties "host_path" not allowed',
        ),
        (
            "checkpoint_storage: {type: hdfs}",
            "<config>.checkpoint_storage.type: must be one of shared_fs, directory, s3, gcs or azure, "
            'not "hdfs"',
        ),
        (
            "profiling: {begin_on_batch: 3, end_after_batch: 2}",
            "<config>.profiling: begin_on_batch must be less than end_after_batch",
        ),
        (
            "retention_policy: {}",
            '<config>.retention_policy: missing properties: "log_retention_days"',
        ),
        (
            "reproducibility: {experiment_seed: 4294967296}",
            "<config>.reproducibility.experiment_seed: must be <= 4294967295 but found 4294967296",
        ),
        (
            "log_policies: [{pattern: '('}]",
            "<config>.log_policies[0].pattern: not a regular expression: missing ): (",
        ),
        (
            "log_policies: [{pattern: a}]",
            '<config>.log_policies[0]: "name" must be set, and "pattern" is also required unless '
            "you intend to disable an existing policy",
        ),
        (
            "log_policies: [{name: n}, {name: n}]",
            '<config>.log_policies: log_policies have duplicated names "n"',
        ),
        ("internal: {a: 1}", "<config>.internal: expected null, but got object"),
        ("version: 3", "<config>: invalid version: 3"),
        ("[a]", "<config>: expected object, but got array"),
        ("just text", "<config>: expected object, but got string"),
        (
            "a: [1\nb: 2",
            "<config>: malformed YAML at line 2, column 2: expected ',' or ']', but got ':'",
        ),
    ],
)
def test_one_mistake_is_one_line(text: str, line: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse(text)
    assert caught.value.problems == (line,)


def test_all_mistakes_come_at_once_and_sorted() -> None:
    found = problems_of_parse(
        {
            "zebra": 1,
            "searcher": {"name": "random", "max_trials": 0, "metric": 3},
            "hyperparameters": {"a": {"b": {"type": "int", "minval": "x", "maxval": 1}}},
            "resources": {"priority": 0, "bogus": 1},
        }
    )
    assert found == (
        "<config>.hyperparameters.a.b.minval: expected integer, but got string",
        "<config>.resources.priority: must be >= 1 but found 0",
        '<config>.resources: additionalProperties "bogus" not allowed',
        "<config>.searcher.max_trials: must be >= 1 but found 0",
        "<config>.searcher.metric: expected string or null, but got number",
        '<config>: additionalProperties "zebra" not allowed',
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "searcher: {metric: loss}",
        "searcher: {max_trials: 3, num_rungs: 2}",
        "checkpoint_storage: {save_trial_best: 3}",
        "searcher: {name: custom, whatever: 1}",
        "searcher: null",
        "hyperparameters: null",
        "version: 0",
    ],
)
def test_partial_documents_are_fine(text: str) -> None:
    parse(text)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"entrypoint": None}, ["<config>: managed experiments require entrypoint"]),
        ({"entrypoint": ""}, ["<config>: managed experiments require entrypoint"]),
        ({"searcher": None}, ["<config>: searcher is a required property"]),
        ({"searcher": {"name": "single"}}, ["<config>.searcher: metric is a required property"]),
        ({"searcher": {"metric": "x"}}, ["<config>.searcher: name is a required property"]),
        ({"checkpoint_storage": None}, ["<config>: checkpoint_storage is a required property"]),
        (
            {"checkpoint_storage": {"type": "s3"}},
            ["<config>.checkpoint_storage: bucket is a required property"],
        ),
        (
            {"searcher": ASHA},
            [
                "<config>.searcher: the `adaptive_asha` searcher requires `max_time` and "
                "`time_metric` to be set"
            ],
        ),
        (
            {"searcher": ASHA | {"max_length": {"batches": 3}, "max_time": 3}},
            [
                "<config>.searcher: the `adaptive_asha` searcher requires `max_time` and "
                "`time_metric` to be set"
            ],
        ),
        (
            {"searcher": {"name": "custom", "metric": "x", "unit": "batches"}},
            [
                "<config>.searcher: the 'custom' searcher has been removed and is not valid for "
                "new experiments: use windlass_external, whose trials a program adds over REST"
            ],
        ),
        (
            {"searcher": {"name": "pbt", "metric": "x", "population_size": 8}},
            [
                "<config>.searcher: the 'pbt' searcher has been removed and is not valid for "
                "new experiments: use windlass_external, whose trials a program starts from "
                "checkpoints of others"
            ],
        ),
        (
            {
                "searcher": {"name": "grid", "metric": "x"},
                "hyperparameters": {
                    "a": {"b": {"type": "int", "minval": 1, "maxval": 2}},
                    "c": [{"type": "int", "minval": 1, "maxval": 2}],
                    "d": {"type": "categorical", "vals": [1]},
                },
            },
            ["<config>.hyperparameters.a.b: grid search is in use but count was not provided"],
        ),
        (
            {"resources": {"slots_per_trial": 4, "max_slots": 2}},
            [
                "<config>.resources: max_slots (2) must not be less than slots_per_trial (4): "
                "no trial could ever start"
            ],
        ),
    ],
)
def test_what_no_new_experiment_may_be(change: dict[str, Any], lines: list[str]) -> None:
    assert problems_of_complete(RUNNABLE | change) == tuple(lines)


@pytest.mark.parametrize("name", ["[]", "{}", "[random]", "3"])
def test_a_searcher_whose_name_is_no_text_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="searcher"):
        parse(f"searcher: {{name: {name}}}")


def test_an_unmanaged_experiment_needs_no_entrypoint() -> None:
    raw = RUNNABLE | {"entrypoint": None}
    config = complete(raw, defaults=ClusterDefaults(), seed=1, name="n", unmanaged=True)
    assert config.entrypoint is None


def test_an_unchecked_document_is_refused_not_crashed_on() -> None:
    """Templates and policies may reach `complete` in any shape."""
    raw = dict.fromkeys(RUNNABLE, 7) | {"resources": [1], "log_policies": 3, "labels": {}}
    with pytest.raises(InvalidConfig) as caught:
        complete(raw, defaults=ClusterDefaults(), seed=1, name="n")
    assert len(caught.value.problems) >= 6


def test_the_example_of_the_command_line_client_runs() -> None:
    text = yaml.safe_dump(RUNNABLE)
    config = complete(parse(text), defaults=ClusterDefaults(), seed=7, name="calm-blue-fox")
    assert (config.name, config.reproducibility.experiment_seed) == ("calm-blue-fox", 7)
