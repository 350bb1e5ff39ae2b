"""A command's configuration: what it may say, what lies under it, and the lines users see when it is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from master.core.expconf import ClusterDefaults
from master.core.expconf.interactive import complete_task
from master.core.expconf.kinds import CommandConfig
from windlass.base.errors import InvalidConfig

EVERY_KEY: dict[str, Any] = {
    "description": "nightly evaluation",
    "entrypoint": ["python3", "evaluate.py"],
    "resources": {
        "slots": 2,
        "max_slots": 4,
        "weight": 2,
        "priority": 7,
        "resource_pool": "gpu",
        "shm_size": "64MiB",
        "limits": {"cpus": 2, "memory": "1GiB"},
        "is_single_node": True,
        "native_parallel": True,
        "devices": ["/dev/a:/dev/b:r"],
    },
    "environment": {
        "image": {"cpu": "c", "gpu": "g", "rocm": "r"},
        "environment_variables": ["A=1"],
        "proxy_ports": [{"proxy_port": 6000}],
    },
    "bind_mounts": [{"host_path": "/data", "container_path": "data", "read_only": True}],
    "slurm": {"slots_per_node": 1, "gpu_type": "a100", "sbatch_args": ["-x"]},
    "pbs": {"slots_per_node": 1, "pbsbatch_args": ["-x"]},
    "work_dir": "/work",
    "debug": True,
    "idle_timeout": "1h30m",
}
CLUSTER: dict[str, Any] = {
    "image": "cluster-image",
    "environment_variables": ["A=cluster", "B=cluster"],
    "devices": ["/dev/x:/dev/x"],
    "bind_mounts": [{"host_path": "/shared", "container_path": "/shared"}],
    "cpu_pod_spec": {"spec": {"on": "cpu"}},
    "gpu_pod_spec": {"spec": {"on": "gpu"}},
    "log_policies": [{"name": "mine", "pattern": "x"}],
    "preemption_timeout": 60,
    "slurm": {"sbatch_args": ["--cluster"]},
    "work_dir": "/cluster",
    "shm_size_bytes": 1024,
    "startup_hook": "echo",
}


def completed(raw: dict[str, Any], **cluster: Any) -> CommandConfig:
    return complete_task(
        CommandConfig, raw, defaults=ClusterDefaults(task_container_defaults=cluster)
    )


def problems_of(raw: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidConfig) as caught:
        completed(raw)
    assert caught.value.what == "command configuration"
    return caught.value.problems


def test_every_key_is_kept_and_brought_to_its_current_form() -> None:
    document = completed(EVERY_KEY).to_json()
    assert document["description"] == "nightly evaluation"
    assert document["entrypoint"] == ["python3", "evaluate.py"]
    assert document["resources"] == {
        **EVERY_KEY["resources"],
        "shm_size": 64 * 2**20,
        "limits": {"cpus": 2.0, "memory": 2**30, "pids": None},
        "devices": [{"host_path": "/dev/a", "container_path": "/dev/b", "mode": "r"}],
        "gpu_models": [],
        "min_gpu_memory": None,
        "markets": [],
        "max_usd_per_hour": None,
        "placement_group": False,
        "fall_back": True,
    }
    assert document["environment"]["image"] == {"cpu": "c", "cuda": "g", "rocm": "r"}
    assert document["environment"]["environment_variables"]["rocm"] == ["A=1"]
    assert document["bind_mounts"][0]["propagation"] == "rprivate"
    assert document["slurm"] == EVERY_KEY["slurm"]
    assert document["pbs"] == EVERY_KEY["pbs"]
    assert (document["work_dir"], document["debug"]) == ("/work", True)
    assert document["idle_timeout"] == "1h30m"


@pytest.mark.parametrize("raw", [EVERY_KEY, {"entrypoint": "date"}])
def test_json_is_plain_and_reads_back_as_the_same_configuration(raw: dict[str, Any]) -> None:
    config = completed(raw, **CLUSTER)
    assert CommandConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_the_shortest_configuration_gets_every_default() -> None:
    document = completed({"entrypoint": "echo hi"}).to_json()
    assert document["entrypoint"] == ["echo hi"]
    assert document["resources"] == {
        "slots": 1,
        "max_slots": None,
        "weight": 1.0,
        "priority": 42,
        "resource_pool": "",
        "shm_size": None,
        "limits": {"cpus": None, "memory": None, "pids": None},
        "is_single_node": True,
        "native_parallel": False,
        "devices": [],
        "gpu_models": [],
        "min_gpu_memory": None,
        "markets": [],
        "max_usd_per_hour": None,
        "placement_group": False,
        "fall_back": True,
    }
    assert (document["work_dir"], document["debug"], document["idle_timeout"]) == (
        None,
        False,
        None,
    )


def test_the_priority_is_the_clusters_unless_the_command_names_one() -> None:
    cluster = ClusterDefaults(priority=30)
    own = {"entrypoint": "date", "resources": {"priority": 5}}
    assert (
        complete_task(CommandConfig, {"entrypoint": "date"}, defaults=cluster).resources.priority
        == 30
    )
    assert complete_task(CommandConfig, own, defaults=cluster).resources.priority == 5


def test_the_callers_description_is_used_only_when_the_document_has_none() -> None:
    def described(raw: dict[str, Any]) -> str:
        config = complete_task(
            CommandConfig,
            {"entrypoint": "date", **raw},
            defaults=ClusterDefaults(),
            description="Command (calm-fox)",
        )
        return config.description

    assert described({}) == "Command (calm-fox)"
    assert described({"description": ""}) == "Command (calm-fox)"
    assert described({"description": "mine"}) == "mine"


def test_without_any_description_the_same_command_gets_the_same_name() -> None:
    name = completed({"entrypoint": "date"}).description
    assert name.startswith("Command (")
    assert len(name) == len("Command ()") + 8
    assert completed({"entrypoint": "date"}).description == name
    assert completed({"entrypoint": "uptime"}).description != name


def test_container_defaults_lie_under_the_command() -> None:
    raw = {
        "entrypoint": "date",
        "environment": {"environment_variables": ["A=mine"]},
        "bind_mounts": [{"host_path": "/mine", "container_path": "/mine"}],
        "slurm": {"sbatch_args": ["--mine"]},
    }
    document = completed(raw, **CLUSTER).to_json()
    assert document["environment"]["image"]["cuda"] == "cluster-image"
    assert document["environment"]["environment_variables"]["cuda"] == [
        "A=cluster",
        "B=cluster",
        "A=mine",
    ]
    assert [mount["host_path"] for mount in document["bind_mounts"]] == ["/mine", "/shared"]
    assert document["resources"]["devices"][0]["host_path"] == "/dev/x"
    assert document["work_dir"] == "/cluster"


def test_batch_arguments_of_a_command_replace_the_clusters() -> None:
    own = completed({"entrypoint": "date", "slurm": {"sbatch_args": ["--mine"]}}, **CLUSTER)
    assert own.slurm.sbatch_args == ("--mine",)
    assert completed({"entrypoint": "date"}, **CLUSTER).slurm.sbatch_args == ("--cluster",)


@pytest.mark.parametrize(("slots", "pod"), [(0, "cpu"), (1, "gpu"), (None, "gpu")])
def test_the_pod_is_the_one_for_the_slots_asked_for(slots: int | None, pod: str) -> None:
    config = completed({"entrypoint": "date", "resources": {"slots": slots}}, **CLUSTER)
    assert config.environment.pod_spec == {"spec": {"on": pod}}


def test_the_arguments_are_left_as_they_were() -> None:
    raw = {"entrypoint": "date", "environment": {"image": "mine"}}
    before = json.dumps(raw)
    completed(raw, **CLUSTER)
    assert json.dumps(raw) == before


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (
            {"entrypoint": []},
            "<config>.entrypoint: must not be empty: say what to run, such as [python3, evaluate.py]",
        ),
        (
            {"entrypoint": " "},
            "<config>.entrypoint: must not be empty: say what to run, such as [python3, evaluate.py]",
        ),
        ({"entrypoint": 3}, "<config>.entrypoint: expected string or array, but got number"),
        ({"entrypoint": ["a", 1]}, "<config>.entrypoint[1]: expected string, but got number"),
        (
            {"entrypoint": "date", "enviroment": {}},
            '<config>: additionalProperties "enviroment" not allowed; did you mean "environment"?',
        ),
        (
            {"entrypoint": "date", "searcher": {"name": "single"}},
            '<config>: additionalProperties "searcher" not allowed',
        ),
        (
            {"entrypoint": "date", "resources": {"slots_per_trial": 1}},
            '<config>.resources: additionalProperties "slots_per_trial" not allowed; '
            'a command has "slots"',
        ),
        (
            {"entrypoint": "date", "resources": {"slots": -1}},
            "<config>.resources.slots: must be >= 0 but found -1",
        ),
        (
            {"entrypoint": "date", "resources": {"weight": 0}},
            "<config>.resources.weight: must be > 0 but found 0",
        ),
        (
            {"entrypoint": "date", "resources": {"priority": 100}},
            "<config>.resources.priority: must be <= 99 but found 100",
        ),
        (
            {"entrypoint": "date", "resources": {"is_single_node": False}},
            "<config>.resources.is_single_node: must be true: it runs on one node; "
            "use an experiment for several",
        ),
        (
            {"entrypoint": "date", "idle_timeout": 30},
            '<config>.idle_timeout: 30 is not a duration: write "90s", "5m" or "1h30m"',
        ),
        (
            {"entrypoint": "date", "idle_timeout": "-5m"},
            "<config>.idle_timeout: must be >= 0s but found -5m",
        ),
        (
            {"entrypoint": "date", "bind_mounts": [{"host_path": "a", "container_path": "b"}]},
            "<config>.bind_mounts[0].host_path: host_path must be an absolute path",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_path(raw: dict[str, Any], line: str) -> None:
    assert problems_of(raw) == (line,)


def test_every_problem_is_named_at_once() -> None:
    raw = {"resources": {"slots": "two", "shm_size": "4 apples"}, "debug": 1}
    assert [line.partition(": ")[0] for line in problems_of(raw)] == [
        "<config>.debug",
        "<config>.resources.shm_size",
        "<config>.resources.slots",
    ]


@pytest.mark.parametrize("raw", [{}, {"entrypoint": None}])
def test_an_empty_configuration_runs_nothing_but_hooks(raw: dict[str, Any]) -> None:
    config = completed(raw)
    assert config.entrypoint is None
    assert CommandConfig.from_json(config.to_json()) == config


def test_a_stored_document_that_does_not_fit_is_refused_with_its_problems() -> None:
    with pytest.raises(InvalidConfig, match="description is a required property"):
        CommandConfig.from_json({"entrypoint": ["date"]})
