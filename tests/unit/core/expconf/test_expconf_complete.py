"""The complete configuration: every documented key, every default, and what clients read from its JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from master.core.expconf import ClusterDefaults, ExperimentConfig, complete, parse
from master.core.expconf.models.hyperparameters import Int
from master.core.expconf.models.searchers import AdaptiveAshaSearcher
from master.core.expconf.models.storage import SharedFsStorage
from master.core.machines import Market, Requirements

EVERY_KEY = """
name: all
description: d
labels: [b, a, b]
data: {url: x, secrets: {token: t}, nothing: null}
entrypoint: [python3, train.py]
workspace: w
project: p
max_restarts: 0
debug: true
hyperparameters:
  bare: 0.5
  text: abc
  items: [{type: int}]
  none: null
  group: {inner: {type: int, minval: 1, maxval: 8, count: 3}, fixed: true}
  lr: {type: log, minval: -4, maxval: -1, base: 10}
  drop: {type: double, minval: 0, maxval: 0.5}
  opt: {type: categorical, vals: [adam, null, {a: 1}]}
  c: {type: const, val: {type: anything}}
searcher: {name: adaptive_asha, metric: acc, smaller_is_better: false, source_trial_id: 3,
           source_checkpoint_uuid: u, max_trials: 16, max_time: 1e3, time_metric: batches,
           mode: aggressive, divisor: 2.5, max_rungs: 3, max_concurrent_trials: 0,
           bracket_rungs: [3, 2], max_length: {batches: 1000}, stop_once: true}
records_per_epoch: 100
scheduling_unit: 10
min_validation_period: {epochs: 1}
min_checkpoint_period: {records: 5}
perform_initial_validation: true
checkpoint_policy: all
checkpoint_storage: {type: shared_fs, host_path: /s, storage_path: /s/x, propagation: shared,
                     container_path: /c, checkpoint_path: k, tensorboard_path: t,
                     save_experiment_best: 1, save_trial_best: 2, save_trial_latest: 3}
reproducibility: {experiment_seed: 7}
profiling: {enabled: true, begin_on_batch: 1, end_after_batch: 2, sync_timings: false}
optimizations: {aggregation_frequency: 2, average_aggregated_gradients: false,
                average_training_metrics: false, gradient_compression: true,
                grad_updates_size_file: f, mixed_precision: O1, auto_tune_tensor_fusion: true,
                tensor_fusion_cycle_time: 2, tensor_fusion_threshold: 1}
preemption_timeout: 60
log_policies:
  - {name: CUDA OOM}
  - {name: mine, pattern: 'a.*b', action: exclude_node}
  - {pattern: 'old', action: {type: cancel_retries}}
retention_policy: {log_retention_days: -1}
integrations:
  webhooks: {webhook_id: [1], webhook_name: [n], exclude: true}
  pachyderm:
    pachd: {host: h, port: 1}
    proxy: {scheme: s, host: h, port: 1}
    dataset: {project: p, repo: r, commit: c, branch: b, token: t}
bind_mounts: [{host_path: /a, container_path: b, read_only: true, propagation: private}]
environment:
  image: {cpu: c, gpu: g, rocm: r}
  environment_variables: [A=1]
  force_pull_image: true
  registry_auth: {username: u, password: p, auth: dTpw, email: e, server: s, identitytoken: i,
                  registrytoken: r}
  add_capabilities: [X]
  drop_capabilities: [Y]
  ports: {http: 80}
  proxy_ports: [{proxy_port: 6000, proxy_tcp: true, unauthenticated: true,
                 default_service_id: false}]
  pod_spec: {spec: {containers: []}}
resources: {slots_per_trial: 2, max_slots: 8, weight: 2, priority: 1, resource_pool: p,
            shm_size: 64MiB, is_single_node: true, native_parallel: true, agent_label: x,
            devices: ["/dev/a:/dev/b:r", {host_path: /c, container_path: /d}]}
slurm: {slots_per_node: 1, gpu_type: a100, sbatch_args: [-x]}
pbs: {slots_per_node: 1, pbsbatch_args: [-x]}
security: {kerberos: {config_file: k}}
tensorboard_storage: {type: shared_fs, host_path: /t}
data_layer: {type: shared_fs}
internal: null
"""

HARNESS_KEYS = [
    ("optimizations", "aggregation_frequency"),
    ("optimizations", "average_training_metrics"),
    ("min_validation_period", "batches"),
    ("min_checkpoint_period", "batches"),
    ("profiling", "enabled"),
    ("profiling", "begin_on_batch"),
    ("reproducibility", "experiment_seed"),
    ("resources", "native_parallel"),
    ("resources", "slots_per_trial"),
    ("searcher", "metric"),
    ("searcher", "smaller_is_better"),
    ("checkpoint_storage", "type"),
    ("scheduling_unit",),
    ("checkpoint_policy",),
    ("perform_initial_validation",),
    ("records_per_epoch",),
    ("debug",),
    ("data",),
    ("entrypoint",),
    ("hyperparameters",),
]
"""What the published harness reads from DET_EXPERIMENT_CONFIG without a default of its own."""

MINIMAL: dict[str, Any] = {
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss"},
    "checkpoint_storage": {"type": "directory", "container_path": "/ckpt"},
}


def completed(raw: dict[str, Any], defaults: ClusterDefaults | None = None) -> ExperimentConfig:
    return complete(raw, defaults=defaults or ClusterDefaults(), seed=5, name="calm-blue-fox")


def test_every_documented_key_is_accepted_and_kept() -> None:
    config = completed(parse(EVERY_KEY))
    document = config.to_json()
    assert isinstance(config.searcher, AdaptiveAshaSearcher)
    assert (config.searcher.max_time, config.searcher.bracket_rungs) == (1000, (3, 2))
    assert isinstance(config.checkpoint_storage, SharedFsStorage)
    assert document["labels"] == ["a", "b"]
    assert document["data"] == {"url": "x", "secrets": {"token": "t"}, "nothing": None}
    assert document["environment"]["image"] == {"cpu": "c", "cuda": "g", "rocm": "r"}
    assert document["environment"]["environment_variables"]["rocm"] == ["A=1"]
    assert document["environment"]["registry_auth"]["serveraddress"] == "s"
    assert document["resources"]["shm_size"] == 64 * 2**20
    assert document["resources"]["devices"][0]["mode"] == "r"
    assert document["log_policies"] == [
        {"name": "CUDA OOM", "pattern": None, "action": None},
        {"name": "mine", "pattern": "a.*b", "action": "exclude_node"},
        {"name": None, "pattern": "old", "action": "cancel_retries"},
        {
            "name": "ECC Error",
            "pattern": ".*uncorrectable ECC error encountered.*",
            "action": None,
        },
    ]
    ignored = {"security", "tensorboard_storage", "data_layer", "internal"}
    assert not ignored & set(document)
    assert "agent_label" not in document["resources"]


def test_hyperparameters_are_normalised_leaf_by_leaf() -> None:
    config = completed(parse(EVERY_KEY))
    group = config.hyperparameters["group"]
    assert isinstance(group, dict)
    assert isinstance(group["inner"], Int)
    assert config.to_json()["hyperparameters"] == {
        "bare": {"type": "const", "val": 0.5},
        "text": {"type": "const", "val": "abc"},
        "items": {"type": "const", "val": [{"type": "int"}]},
        "none": {"type": "const", "val": None},
        "group": {
            "inner": {"type": "int", "minval": 1, "maxval": 8, "count": 3},
            "fixed": {"type": "const", "val": True},
        },
        "lr": {"type": "log", "minval": -4, "maxval": -1, "base": 10, "count": None},
        "drop": {"type": "double", "minval": 0, "maxval": 0.5, "count": None},
        "opt": {"type": "categorical", "vals": ["adam", None, {"a": 1}]},
        "c": {"type": "const", "val": {"type": "anything"}},
    }


def test_every_default_is_filled_in() -> None:
    document = completed(MINIMAL).to_json()
    for path in HARNESS_KEYS:
        place: Any = document
        for key in path:
            assert key in place, path
            place = place[key]
    assert document["name"] == "calm-blue-fox"
    assert document["reproducibility"] == {"experiment_seed": 5}
    assert document["max_restarts"] == 5
    assert document["preemption_timeout"] == 3600
    assert document["resources"]["priority"] == 42
    assert document["searcher"]["max_length"] is None
    assert [policy["name"] for policy in document["log_policies"]] == ["CUDA OOM", "ECC Error"]


@pytest.mark.parametrize(
    ("storage", "keys"),
    [
        ({"type": "shared_fs", "host_path": "/a"}, {"host_path", "storage_path", "propagation"}),
        ({"type": "directory", "container_path": "/a"}, {"container_path"}),
        ({"type": "gcs", "bucket": "b"}, {"bucket", "prefix"}),
        (
            {"type": "s3", "bucket": "b"},
            {"bucket", "access_key", "secret_key", "endpoint_url", "prefix"},
        ),
        (
            {"type": "azure", "container": "c", "account_url": "u"},
            {"container", "account_url", "connection_string", "credential"},
        ),
    ],
)
def test_storage_json_has_only_keys_that_the_harness_takes(
    storage: dict[str, Any], keys: set[str]
) -> None:
    common = {"type", "save_experiment_best", "save_trial_best", "save_trial_latest"}
    document = completed(MINIMAL | {"checkpoint_storage": storage}).to_json()
    assert set(document["checkpoint_storage"]) == keys | common


@pytest.mark.parametrize(
    ("given_length", "written"), [(None, None), (40, 40), ({"epochs": 3}, {"epochs": 3})]
)
def test_max_length_keeps_its_one_unit(given_length: Any, written: Any) -> None:
    """The harness takes the single value of the map."""
    searcher = MINIMAL["searcher"] | {"max_length": given_length}
    document = completed(MINIMAL | {"searcher": searcher}).to_json()
    assert document["searcher"]["max_length"] == written


def test_the_configuration_is_frozen() -> None:
    config = completed(MINIMAL)
    with pytest.raises(ValidationError):
        config.name = "other"  # type: ignore[misc]


def test_secrets_are_not_in_the_repr() -> None:
    storage = {"type": "s3", "bucket": "b", "access_key": "AKIA1", "secret_key": "hush"}
    auth = {"registry_auth": {"username": "u", "password": "hush"}}
    config = completed(MINIMAL | {"checkpoint_storage": storage, "environment": auth})
    assert "hush" not in repr(config)
    assert "AKIA1" not in repr(config)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 * 2**20),
        ("64mb", 64 * 2**20),
        ("1.5g", 3 * 2**29),
        ("2048", 2048),
        ("1 k", 1024),
        ("7b", 7),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    config = completed(MINIMAL | {"resources": {"shm_size": text}})
    assert config.resources.shm_size == size


CLUSTER: dict[str, Any] = {
    "image": "cluster-image",
    "environment_variables": ["A=cluster", "B=cluster"],
    "force_pull_image": True,
    "registry_auth": {"username": "cluster"},
    "add_capabilities": ["C"],
    "devices": ["/dev/c:/dev/x", "/dev/c:/dev/y"],
    "bind_mounts": [{"host_path": "/c", "container_path": "/x"}],
    "log_policies": [{"name": "site", "pattern": "x"}],
    "preemption_timeout": 30,
    "cpu_pod_spec": {"kind": "cpu"},
    "gpu_pod_spec": {"kind": "gpu"},
    "slurm": {"sbatch_args": ["--site"], "gpu_type": "a100"},
    "pbs": {"pbsbatch_args": ["--site"]},
    "work_dir": "/w",
    "startup_hook": "true",
    "python": "/opt/site/python",
    "limits": {"cpus": 8, "memory": "64GiB"},
    "prologue": ["module load site"],
}


def test_cluster_defaults_lie_under_the_user() -> None:
    raw = MINIMAL | {
        "environment": {
            "image": {"cpu": "mine"},
            "environment_variables": ["A=mine"],
            "registry_auth": {"email": "mine"},
            "add_capabilities": [],
            "prologue": ["module load mine"],
        },
        "resources": {"devices": ["/dev/u:/dev/x"], "limits": {"cpus": 1.5, "pids": 100}},
        "slurm": {"sbatch_args": ["--mine"]},
        "log_policies": [{"name": "ECC Error"}],
    }
    config = completed(raw, ClusterDefaults(task_container_defaults=CLUSTER, priority=50))
    document = config.to_json()
    environment = document["environment"]
    assert environment["image"] == {
        "cpu": "mine",
        "cuda": "cluster-image",
        "rocm": "cluster-image",
    }
    assert environment["environment_variables"]["cpu"] == ["A=cluster", "B=cluster", "A=mine"]
    assert environment["registry_auth"]["username"] is None
    assert environment["add_capabilities"] == []
    assert environment["force_pull_image"] is True
    expected = {"cpus": 1.5, "memory": 64 * 2**30, "pids": 100}
    assert document["resources"]["limits"] == expected
    assert environment["python"] == "/opt/site/python"
    assert environment["prologue"] == ["module load site", "module load mine"]
    assert environment["pod_spec"] == {"kind": "gpu"}
    assert [(d["host_path"], d["container_path"]) for d in document["resources"]["devices"]] == [
        ("/dev/u", "/dev/x"),
        ("/dev/c", "/dev/y"),
    ]
    assert document["slurm"]["sbatch_args"] == ["--site", "--mine"]
    assert document["slurm"]["gpu_type"] == "a100"
    assert document["pbs"]["pbsbatch_args"] == ["--site"]
    assert document["preemption_timeout"] == 30
    assert document["resources"]["priority"] == 50
    assert [p["name"] for p in document["log_policies"]] == ["ECC Error", "site", "CUDA OOM"]


def test_a_trial_without_slots_gets_the_cpu_pod() -> None:
    raw = MINIMAL | {"resources": {"slots_per_trial": 0}}
    config = completed(raw, ClusterDefaults(task_container_defaults=CLUSTER))
    assert config.environment.pod_spec == {"kind": "cpu"}


def test_storage_comes_from_the_workspace_then_the_cluster() -> None:
    raw = {key: value for key, value in MINIMAL.items() if key != "checkpoint_storage"}
    cluster = {"type": "shared_fs", "host_path": "/c", "save_trial_best": 9}
    own = raw | {"checkpoint_storage": {"save_trial_latest": 4}}
    config = completed(own, ClusterDefaults(checkpoint_storage=cluster))
    assert config.checkpoint_storage == SharedFsStorage(
        type="shared_fs", host_path="/c", save_trial_best=9, save_trial_latest=4
    )
    workspace = {"type": "s3", "bucket": "w"}
    defaults = ClusterDefaults(checkpoint_storage=cluster, workspace_checkpoint_storage=workspace)
    document = completed(raw, defaults).to_json()["checkpoint_storage"]
    assert (document["bucket"], document["save_trial_best"]) == ("w", 9)
    assert "host_path" not in document


names = st.text("abcxyz_", min_size=1, max_size=6)
bounds = st.integers(-5, 5)
wholes = st.integers(-(2**63), 2**63)
leaves = st.one_of(
    st.builds(lambda v: {"type": "const", "val": v}, st.none() | wholes | st.text()),
    st.builds(lambda a, n: {"type": "int", "minval": a, "maxval": a + n}, bounds, st.just(3)),
    st.builds(lambda a: {"type": "double", "minval": a, "maxval": a + 0.5, "count": 2}, bounds),
    st.builds(lambda a: {"type": "log", "minval": a, "maxval": a + 1, "base": 2}, bounds),
    st.builds(lambda v: {"type": "categorical", "vals": v}, st.lists(wholes, min_size=1)),
    st.integers(-9, 9),
    st.lists(st.text(max_size=3), max_size=3),
)
spaces = st.dictionaries(names, leaves | st.dictionaries(names, leaves, max_size=3), max_size=4)
searchers = st.sampled_from(
    [
        {"name": "single", "metric": "m", "max_length": 3},
        {"name": "random", "metric": "m", "max_trials": 4},
        {"name": "async_halving", "metric": "m", "max_trials": 4, "num_rungs": 2}
        | {"max_time": 4, "time_metric": "t", "divisor": 3},
        {"name": "adaptive_asha", "metric": "m", "max_trials": 4, "max_time": 4}
        | {"time_metric": "t"},
    ]
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
images = st.sampled_from(["", "net", "r.example:5000/team/net:1", "/images/net.sif"])
experiments = st.fixed_dictionaries(
    {
        "searcher": searchers,
        "entrypoint": texts.filter(bool) | st.lists(texts, min_size=1),
        "checkpoint_storage": st.sampled_from(
            [
                {"type": "shared_fs", "host_path": "/a", "storage_path": "b"},
                {"type": "gcs", "bucket": "b"},
            ]
        ),
    },
    optional={
        "hyperparameters": spaces,
        "labels": st.lists(st.text(max_size=3)),
        "data": st.dictionaries(texts, st.none() | st.lists(texts, max_size=2)),
        "environment": st.fixed_dictionaries(
            {},
            optional={
                "image": images | st.dictionaries(st.sampled_from(["cpu", "gpu"]), images),
                "environment_variables": st.lists(texts, max_size=3),
            },
        ),
        "resources": st.fixed_dictionaries(
            {"slots_per_trial": st.integers(0, 8)},
            optional={"weight": st.floats(0.1, 9), "shm_size": st.sampled_from(["1g", 12])},
        ),
        "log_policies": st.sampled_from([[], [{"name": "CUDA OOM"}], [{"name": "x"}]]),
        "min_validation_period": st.builds(lambda n: {"records": n}, st.integers(0, 9)),
    },
)


@given(experiments)
def test_a_complete_configuration_is_a_fixed_point(raw: dict[str, Any]) -> None:
    config = completed(parse(json.dumps(raw)))
    text = json.dumps(config.to_json())
    assert ExperimentConfig.from_json(json.loads(text)) == config
    assert completed(parse(text)) == config
    assert completed(parse(text)).to_json() == json.loads(text)


@given(spaces)
def test_normalising_twice_is_the_same_as_once(space: dict[str, Any]) -> None:
    once = parse(json.dumps({"hyperparameters": space}))
    assert parse(json.dumps(once)) == once


def test_what_machines_must_be_is_read_for_the_scheduler() -> None:
    config = complete(
        parse(
            "{name: n, entrypoint: x, searcher: {name: single, metric: m, max_length: {batches: 1}}, "
            "checkpoint_storage: {type: shared_fs, host_path: /s}, resources: "
            "{gpu_models: [A100, H100], min_gpu_memory: 40GiB, markets: [spot], max_usd_per_hour: 5, "
            "placement_group: true, fall_back: false}}"
        ),
        defaults=ClusterDefaults(),
        seed=1,
        name="n",
    )
    assert config.resources.requirements() == Requirements(
        gpu_models=frozenset({"A100", "H100"}),
        min_gpu_memory_mib=40 * 1024,
        markets=frozenset({Market.SPOT}),
        max_usd_per_hour=5.0,
        placement_group=True,
        may_fall_back=False,
    )
    assert ExperimentConfig.from_json(config.to_json()) == config


def test_duplicate_unnamed_log_policies_merge_to_one() -> None:
    policy = {"pattern": "x", "action": "cancel_retries"}
    old_form = {"pattern": "x", "action": {"type": "cancel_retries"}}
    other = {"pattern": "y", "action": "cancel_retries"}
    config = completed({**MINIMAL, "log_policies": [policy, other, old_form, policy]})
    assert [p.pattern for p in config.log_policies if p.name is None] == ["x", "y"]


def test_max_slots_of_nothing_holds_everything_back() -> None:
    assert completed({**MINIMAL, "resources": {"max_slots": 0}}).resources.max_slots == 0
