"""Whatever options go together give a master.yaml and a script that our own models and shells take."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from master.config.load import load
from tests.examples import examples
from tests.unit.deploy.test_cloud_rendering import boot_of, plan_of, whole_config
from windlass.deploy.cloud.master_boot import MOST_BOOT_BYTES

WORD = "never-in-a-file-1"
COMMON: dict[str, list[Any]] = {
    "inbound_cidr": ["0.0.0.0/0", "203.0.113.0/24"],
    "port": [None, "443"],
    "tls": [True, False],
    "database": ["managed", "local"],
    "initial_user_password": ["", WORD],
    "max_idle_agent_period": [None, "1h"],
    "min_dynamic_agents": [None, "1"],
    "max_dynamic_agents": [None, "40"],
    "max_aux_containers_per_agent": [None, "0", "3"],
    "scheduler_type": ["fair_share", "priority", "round_robin"],
    "images": [{}, {"cpu_env_image": "c:1", "gpu_env_image": "g:1"}],
    "package": ["", "https://host/it's.whl"],
}
AWS: dict[str, list[Any]] = {
    "place": [
        {"deployment_type": "simple-rds"},
        {"deployment_type": "simple-rds", "agent_subnet_id": ["subnet-0a1b"]},
        {"deployment_type": "efs"},
        {"deployment_type": "efs", "efs_id": "fs-0a1b"},
        {"deployment_type": "fsx"},
        {"deployment_type": "fsx", "fsx_id": "fs-0a1b", "fsx_mount_name": "fsx1"},
        {"deployment_type": "secure", "keypair": "k", "inbound_cidr": "10.0.0.0/8"},
        {"deployment_type": "govcloud", "region": "us-gov-west-1"},
    ],
    "market": [{}, {"spot": True}, {"spot": True, "spot_max_price": "1.5"}],
    "compute": [
        {"compute_agent_instance_type": "g4dn.metal"},
        {"compute_agent_instance_type": "g9x.xlarge", "compute_agent_slots": "1"},
        {"compute_agent_instance_type": "m5.large"},
    ],
    "registry": [{}, {"docker_user": "me", "docker_pass": WORD}],
    "add_tag": [[], ["team=a b: 'c'", "x=${y}"]],
    "notebook_timeout": [None, "60"],
    "enable_cors": [False, True],
    "shut_down_agents_on_connection_loss": [True, False],
}
GCP: dict[str, list[Any]] = {
    "files": [{}, {"no_filestore": True}, {"filestore_address": "10.0.0.2:/share"}],
    "zone": ["", "us-west1-c"],
    "disk_type": ["pd-standard", "pd-ssd"],
    "environment_image": ["", "projects/p/global/images/i"],
    "preemptible": ["false", "true"],
    "gpus": [
        {"gpu_type": "nvidia-tesla-t4", "gpu_num": "4"},
        {"gpu_num": "0"},
        {"compute_agent_instance_type": "a2-highgpu-1g", "gpu_type": "nvidia-tesla-a100", "gpu_num": "1"},
    ],
    "network": ["det-default", "mine"],
    "add_label": [[], ["team=vision"]],
}  # fmt: skip


def combined(choices: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """A dictionary of options: a choice that is a dictionary itself stands for several."""

    def flat(chosen: dict[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, value in chosen.items():
            given |= value if isinstance(value, dict) else {name: value}
        return given

    return st.fixed_dictionaries({k: st.sampled_from(v) for k, v in choices.items()}).map(flat)


def hold(cloud: str, options: dict[str, Any]) -> None:
    plan = plan_of(cloud, **options)
    with tempfile.TemporaryDirectory() as folder:
        config = load(whole_config(plan, Path(folder)))
    aux, compute = (pool.provider for pool in config.resource_pools)
    assert aux is not None
    assert compute is not None
    assert aux.type == compute.type == cloud
    assert config.port == plan.options.master_port
    kept = json.dumps(dict(plan.variables))
    assert WORD not in kept
    assert all(secret not in kept for secret in _texts(plan.secrets["config"].get("security")))
    script = boot_of(plan)
    assert len(script.encode()) < MOST_BOOT_BYTES + 2048
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)


def _texts(document: Any) -> list[str]:
    return [text for text in (document or {}).values() if isinstance(text, str)]


few = settings(
    max_examples=examples(15), phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)


@few
@given(options=combined({**COMMON, **AWS}))
def test_any_cluster_on_aws(options: dict[str, Any]) -> None:
    hold("aws", options)


@few
@given(options=combined({**COMMON, **GCP}))
def test_any_cluster_on_google_cloud(options: dict[str, Any]) -> None:
    hold("gcp", options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cloud", "choices"), [("aws", {**COMMON, **AWS}), ("gcp", {**COMMON, **GCP})]
)
def test_each_choice_by_itself(cloud: str, choices: dict[str, list[Any]]) -> None:
    for name, values in choices.items():
        for value in values:
            hold(cloud, value if isinstance(value, dict) else {name: value})
