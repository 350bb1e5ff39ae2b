"""Marks of keys without effect, compared with what the code reads: a new key is either marked or read by somebody."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from master.config import MasterConfig
from master.core.expconf import ExperimentConfig, TaskContainerDefaults
from master.core.expconf.kinds import CommandConfig
from tools.reference.keys import keys_of, unmarked_leaves

ROOT = Path(__file__).parents[3]

TASK = "the program in the task: Trial classes, the Core API, the user's own"
ONE_VALUE = "nobody: other values are refused"


def read_by(reader: str, keys: str) -> dict[str, str]:
    """Each of the keys, a `*` of the reader standing for its name."""
    return {key: reader.replace("*", key) for key in keys.split()}


def below(section: str, table: dict[str, str]) -> dict[str, str]:
    return {f"{section}.{key}": reader for key, reader in table.items()}


STORAGE = read_by(
    TASK,
    "host_path storage_path container_path bucket access_key secret_key endpoint_url prefix "
    "container connection_string account_url credential",
)
STORAGE["type"] = "master:type"
STORAGE |= read_by("master/checkpoints:*", "save_experiment_best save_trial_best save_trial_latest")
SCHEDULER = {
    "type": "master/core/scheduler:type",
    "fitting_policy": "master/core/scheduler:fitting_policy",
    "allow_heterogeneous_fits": "master/core/scheduler:allow_heterogeneous_fits",
    "preemption": "master/core/scheduler:preemption",
    "default_priority": "master/core/scheduler:default_priority",
    "preempt_after": "master/core/scheduler:preempt_after",
    "reserve_after": "master/core/scheduler:reserve_after",
}
ELASTIC = {
    "min_instances": "provisioner:min_instances",
    "max_instances": "provisioner:max_instances",
    "max_idle_agent_period": "provisioner:max_idle_s",
    "max_agent_starting_period": "provisioner:max_starting_s",
}
WISHES = {
    "gpu_models": "master/core/machines.py:gpu_models",
    "min_gpu_memory": "master/core/expconf/models/machine_requirements.py:min_gpu_memory",
    "markets": "master/core/machines.py:markets",
    "max_usd_per_hour": "master/core/machines.py:max_usd_per_hour",
    "placement_group": "master/core/machines.py:placement_group",
    "fall_back": "master/core/expconf/models/machine_requirements.py:fall_back",
}
PROVIDER = ELASTIC | {
    "type": ONE_VALUE,
    "name": "master:name",
    "instance_type": "master:instance_type",
    "slots_per_instance": "master:slots_per_instance",
    "available": "master:available",
    "boot_time": "master:boot_time",
    "zone": "master/wiring/elastic.py:zone",
    "market": "master/wiring/elastic.py:market",
    "queue_time": "master/wiring/elastic.py:queue_time",
    "list_every": "master/wiring/elastic.py:list_every",
    "usd_per_hour": "master:usd_per_hour",
    "disk_usd_per_hour": "master/wiring/elastic.py:disk_usd_per_hour",
    **read_by(
        "master/wiring/batch/pools.py:*",
        "python prologue job_prologue master_url visible_gpus path ld_library_path "
        "rendezvous_network_interface container_runtime image_root scratch impersonate",
    ),
    **read_by("provisioner/leases/shapes.py:*", "gpu_type cpus_per_slot gres_supported"),
    **read_by("rm_backends/batch:*", "slots_per_node walltime max_queued"),
    **read_by(
        "provisioner/sections/batch.py:*",
        "partition queue account project group qos constraint reservation sbatch_args pbsbatch_args mode "
        "slot_type memory_per_slot",
    ),
    **read_by("master/wiring/batch/pools.py:*", "job_project_source"),
    **read_by("master/wiring/batch/keys.py:*", "channels login_host job_storage_root"),
    **read_by("master/wiring/batch/site.py:*", "relay_port"),
    **read_by("provisioner/providers/pilots:*", "walltimes queue_deadline usd_per_slot_hour"),
}
PROVIDER |= below(
    "ssh",
    read_by("master/wiring/batch/pools.py:*", "key_file jump known_hosts")
    | read_by("provisioner/sections/batch.py:*", "host user"),
)
API = below(
    "api",
    read_by("provisioner/sections/slurm_api.py:*", "url user token_file token_command plain_http"),
)
PROVIDER |= API
SITE = API | read_by(
    "master/wiring/batch/pools.py:*",
    "python prologue job_prologue master_url visible_gpus path ld_library_path "
    "rendezvous_network_interface container_runtime image_root scratch impersonate",
)
SITE |= read_by("provisioner/leases/shapes.py:*", "cpus_per_slot gres_supported")
SITE |= read_by("rm_backends/batch:*", "slots_per_node walltime max_queued")
SITE |= read_by("provisioner/sections/batch.py:*", "slot_type memory_per_slot")
SITE |= read_by("master/wiring/batch/keys.py:*", "channels login_host job_storage_root")
SITE |= read_by("master/wiring/batch/site.py:*", "relay_port")
SITE |= read_by("provisioner/sections/batch.py:*", "account")
SITE |= read_by("master/wiring/batch/pools.py:*", "job_project_source")
SITE |= below(
    "ssh",
    read_by("master/wiring/batch/pools.py:*", "key_file jump known_hosts")
    | read_by("provisioner/sections/batch.py:*", "host user"),
)
BATCH_MANAGER = SITE | read_by(
    "master/config/resource_managers.py:*",
    "master_host master_port container_run_type singularity_image_root apptainer_image_root",
)
BATCH_MANAGER |= below(
    "partition_overrides",
    read_by("master/config/resource_managers.py:*", "slot_type rendezvous_network_interface")
    | read_by("master/config/partitions.py:*", "description task_container_defaults"),
)
AWS = read_by("master/wiring/aws.py:*", "region assume_role external_id interruption_queue")
AWS |= read_by(
    "provisioner/providers/aws:*",
    "instance_slots cpu_slots_allowed zones reservations placement_group efa image_id "
    "image_parameter launch_template root_volume_size iam_instance_profile_arn ssh_key_name",
)
AWS |= {
    "spot_max_price": "provisioner/providers/aws:max_price",
    "markets": "provisioner/providers/aws:bought_markets",
    "subnets": "provisioner/providers/aws:all_subnets",
    **dict.fromkeys(
        ("tag_key", "tag_value", "instance_name"), "provisioner/providers/aws:all_tags"
    ),
}
AWS |= below(
    "network_interface", read_by("provisioner/providers/aws:*", "public_ip security_group_id")
)
AWS |= below("network_interface", read_by("provisioner/sections/aws.py:*", "subnet_id"))
AWS |= below("custom_tags", read_by("provisioner/sections/aws.py:*", "key value"))
AWS |= read_by("provisioner/sections/aws.py:*", "spot")
GCP = read_by("master/wiring/gcp.py:*", "project") | read_by(
    "provisioner/providers/gcp:*",
    "base_config boot_disk_size boot_disk_source_image boot_disk_type name_prefix network_tags "
    "operation_timeout_period placement_policy queue_for instance_type",
)
GCP |= {
    **dict.fromkeys(("labels", "label_key", "label_value"), "provisioner/providers/gcp:all_labels"),
    "max_run_duration": "provisioner/providers/gcp:lifetime_s",
}
GCP |= read_by("provisioner/sections/gcp.py:*", "zone zones region markets")
GCP |= below(
    "network_interface", read_by("provisioner/providers/gcp:*", "network subnetwork external_ip")
)
GCP |= below("service_account", read_by("provisioner/providers/gcp:*", "email scopes"))
GCP |= below("instance_type", {"machine_type": "provisioner/providers/gcp:machine_type"})
GCP |= below(
    "instance_type", read_by("provisioner/sections/gcp.py:*", "gpu_type gpu_num preemptible")
)
CLOUDS = read_by("master/wiring/cloud_boot.py:*", "master_url master_cert_name") | read_by(
    "master/wiring/machine_boots.py:*",
    "startup_script machine_script bake_images agent_config_file_contents",
)
CLOUDS |= read_by("provisioner/sections/cloud.py:*", "agent_docker_image")
PROVIDER |= AWS | GCP | CLOUDS
SLURM = below(
    "slurm", read_by("master/allocations/batch.py:*", "slots_per_node gpu_type sbatch_args")
) | below("pbs", read_by("master/allocations/batch.py:*", "slots_per_node pbsbatch_args"))
VARIABLES = read_by("master/allocations:environment_variables", "cpu cuda rocm")
PYTHON = read_by("master/allocations:python", "python") | read_by(
    "master/allocations:prologue", "prologue"
)
PORTS = {
    "ports": "master/allocations:ports",
    **below(
        "proxy_ports",
        read_by("master/allocations:*", "proxy_port proxy_tcp unauthenticated default_service_id"),
    ),
}
LIMITS = read_by("master/allocations:limits", "cpus memory pids")
MOUNTS = {
    "host_path": "master/allocations:host_path",
    "container_path": "master/allocations:container_path",
    "read_only": "master/allocations:read_only",
}
QUEUE = {
    "weight": "master:weight",
    "priority": "master:priority",
    "resource_pool": "master:resource_pool",
}

LOG_POLICIES = below("log_policies", read_by("master/experiments:*", "name pattern action"))

READERS: dict[type[BaseModel], dict[str, str]] = {
    MasterConfig: {
        "host": "master:host",
        "port": "master:port",
        "cluster_name": "master/api:cluster_name",
        "shutdown_grace": "master/serve.py:shutdown_grace",
        "log.level": "master:level",
        "log.color": "master:color",
        **below(
            "db",
            read_by("master/config/sections.py:*", "url user password host port name ssl_mode"),
        ),
        "launch_error": "master/experiments:launch_error",
        "webui.task_origin": "master/api:task_origin",
        "webui.task_port": "master/serve.py:task_port",
        **below("webhooks", read_by("master/wiring:*", "base_url signing_key allowed_targets")),
        "connections.header_timeout": "master:header_timeout",
        "connections.unauthenticated": "master:unauthenticated",
        "connections.unauthenticated_per_address": "master:unauthenticated_per_address",
        "max_lost_runs": "master/experiments:max_lost_runs",
        "reserved_ports": "master:reserved_ports",
        **read_by("master/wiring/task_settings.py:*", "notebook_timeout tensorboard_timeout"),
        "prices.discount": "provisioner:discount",
        "prices.refresh": "master/app.py:refresh",
        "retention_policy.log_retention_days": "master:log_retention_days",
        "retention_policy.schedule": "master:schedule",
        "prices.stale_after": "master:stale_after",
        **below(
            "prices.overrides",
            read_by("provisioner:*", "cloud region instance_type market usd_per_hour discount"),
        ),
        **below("checkpoint_storage", STORAGE),
        "task_container_defaults": "master:task_container_defaults",
        "resource_manager.type": "master/wiring/batch/partitions.py:type",
        **below("resource_manager", BATCH_MANAGER),
        **below("resource_manager.scheduler", SCHEDULER),
        "resource_manager.default_aux_resource_pool": "master/allocations:default_aux_pool",
        "resource_manager.default_compute_resource_pool": "master/allocations:default_compute_pool",
        "resource_manager.no_default_resource_pools": "master/config/model.py:no_default_resource_pools",
        "resource_manager.require_authentication": ONE_VALUE,
        "resource_pools.pool_name": "master:name",
        "resource_pools.description": "master/api:description",
        "resource_pools.require_isolation": "rm_backends:require_isolation",
        "resource_pools.task_metadata": "master:task_metadata",
        "resource_pools.max_aux_containers_per_agent": "rm_backends:max_aux_containers_per_agent",
        "resource_pools.agent_reconnect_wait": "rm_backends:agent_reconnect_wait",
        "resource_pools.task_container_defaults": "master:task_container_defaults",
        **below("resource_pools.scheduler", SCHEDULER),
        **below("resource_pools.provider", PROVIDER),
        **below("resource_pools.providers", PROVIDER),
        **below("resource_pools", ELASTIC),
        "resource_pools.on_demand_after": "provisioner:on_demand_after_s",
        "resource_pools.network_gbps_per_slot": "provisioner:network_gbps_per_slot",
        "resource_pools.fall_back_to": "master/wiring/agents.py:fall_back",
        "resource_pools.fall_back_after": "master/wiring/agents.py:fall_back",
        **below(
            "resource_pools.budget",
            read_by("provisioner:*", "usd_per_hour usd_per_month when_spent"),
        ),
        **below("budget", read_by("provisioner:*", "usd_per_hour usd_per_month when_spent")),
        "resource_pools.warm_agents": "provisioner:warm_agents",
        "resource_pools.warm_hours": "provisioner:warm_hours",
        "resource_pools.stopped_agents.max": "provisioner/planning/scale_down/stop_value.py:max",
        "resource_pools.stopped_agents.max_age": "provisioner/planning/scale_down/stop_value.py:max_age",
        "resource_pools.stopped_agents.expected_gap": "provisioner/planning/scale_down/stop_value.py:expected_gap",
        **below(
            "resource_pools.disruption",
            read_by("provisioner:*", "packing replacement drift share hours"),
        ),
        **below("budget.each_user", read_by("provisioner:*", "usd_per_hour usd_per_month")),
        **below("budget.users", read_by("provisioner:*", "usd_per_hour usd_per_month")),
        "additional_resource_managers": ONE_VALUE,
        "logging.type": ONE_VALUE,
        **below("security.default_task", read_by("master:*", "uid gid user group")),
        "allowed_host_paths": "agent_bootstrap:allowed",
        "allowed_capabilities": "master:allowed_capabilities",
        "allowed_devices": "master:allowed_devices",
        "security.tls.cert": "master/tls:cert",
        "security.tls.key": "master/tls:key",
        "security.tls.ca": "master/tls:ca",
        "security.tls.self_signed": "master/tls:self_signed",
        **below("security.ssh", read_by("master/tasks:*", "key_type rsa_key_size")),
        "security.authz.others_work": "master:others_work",
        "security.authz.type": "master/wiring:type",
        "security.authz.rbac_ui_enabled": "master/api:rbac_ui_enabled",
        "security.authz.strict_job_queue_control": "master:strict_job_queue_control",
        **below(
            "security.authz.workspace_creator_assign_role",
            read_by("master/wiring:*", "enabled role_id"),
        ),
        **below("security.authz.roles", read_by("master/wiring:*", "id name permissions")),
        "security.initial_user_password": "master:initial_user_password",
        "security.allow_empty_password": "master:allow_empty_password",
        "security.allowed_hosts": "master:allowed_hosts",
        "security.trusted_proxies": "master:trusted_proxies",
        **below(
            "security.token",
            read_by("master/auth/access_tokens.py:*", "default_lifespan_days max_lifespan_days"),
        ),
        "scim": ONE_VALUE,
        "saml": ONE_VALUE,
        "observability.enable_prometheus": "master/api:enable_prometheus",
        "oidc": ONE_VALUE,
        "det_cloud": ONE_VALUE,
    },
    TaskContainerDefaults: {
        **SLURM,
        **below("environment_variables", VARIABLES),
        **below("bind_mounts", MOUNTS),
        "shm_size_bytes": "master/allocations:shm_size_bytes",
        **PYTHON,
        "dtrain_network_interface": "master/allocations:dtrain_network_interface",
        "gloo_port_range": "master/allocations:gloo_port_range",
        **below("limits", LIMITS),
        "work_dir": "master/tasks:work_dir",
        "startup_hook": "master:startup_hook",
        "preemption_timeout": "master/experiments:preemption_timeout",
        **LOG_POLICIES,
    },
    CommandConfig: {
        **SLURM,
        "description": "master/tasks:description",
        "entrypoint": "master/tasks:entrypoint",
        "resources.slots": "master/tasks:slots",
        **below("resources", QUEUE),
        "resources.is_single_node": ONE_VALUE,
        **below("environment.environment_variables", VARIABLES),
        **below("environment", PORTS),
        **below("resources.limits", LIMITS),
        **below("resources", WISHES),
        **below("bind_mounts", MOUNTS),
        "work_dir": "master/tasks:work_dir",
    },
    ExperimentConfig: {
        **below(
            "integrations.webhooks",
            read_by("master/experiments:*", "webhook_id webhook_name exclude"),
        ),
        **SLURM,
        "retention_policy.log_retention_days": "master:log_retention_days",
        "name": "master/experiments:name",
        "description": "master/experiments:description",
        "labels": "master/experiments:labels",
        "data": TASK,
        "entrypoint": "windlass/launch:entrypoint",
        **read_by("master/experiments/submission/placing.py:*", "workspace project"),
        "max_restarts": "master/experiments:max_restarts",
        "debug": "windlass/core:debug",
        **below(
            "hyperparameters",
            read_by("master/core/searcher:*", "type val minval maxval count base vals"),
        ),
        "searcher.name": "master/core/searcher:name",
        "searcher.windlass_sampler.name": "master/core/searcher:windlass_sampler",
        "searcher.metric": "master/experiments:metric",
        "searcher.smaller_is_better": "master/experiments:smaller_is_better",
        **below(
            "searcher", read_by("master/experiments:*", "source_trial_id source_checkpoint_uuid")
        ),
        **below("searcher.max_length", read_by(TASK, "batches records epochs")),
        **below(
            "searcher",
            read_by(
                "master/core/searcher:*",
                "max_trials max_concurrent_trials num_rungs divisor max_time time_metric "
                "mode max_rungs "
                "bracket_rungs",
            ),
        ),
        **read_by(
            TASK, "records_per_epoch scheduling_unit perform_initial_validation checkpoint_policy"
        ),
        **below("min_validation_period", read_by(TASK, "batches records epochs")),
        **below("min_checkpoint_period", read_by(TASK, "batches records epochs")),
        **below("checkpoint_storage", STORAGE),
        "reproducibility.experiment_seed": "master/experiments:experiment_seed",
        **below(
            "profiling",
            read_by(TASK, "enabled begin_on_batch end_after_batch sync_timings"),
        ),
        **below(
            "optimizations",
            read_by(
                TASK,
                "aggregation_frequency average_aggregated_gradients average_training_metrics "
                "gradient_compression grad_updates_size_file mixed_precision auto_tune_tensor_fusion "
                "tensor_fusion_cycle_time tensor_fusion_threshold",
            ),
        ),
        "preemption_timeout": "master/experiments:preemption_timeout",
        **LOG_POLICIES,
        **below(
            "integrations.pachyderm",
            read_by(
                TASK,
                "pachd.host pachd.port proxy.scheme proxy.host proxy.port dataset.project dataset.repo "
                "dataset.commit dataset.branch dataset.token",
            ),
        ),
        **below("bind_mounts", MOUNTS),
        **below("resources.limits", LIMITS),
        **below("resources", WISHES),
        **below("environment.environment_variables", VARIABLES),
        **below("environment", PORTS),
        "resources.slots_per_trial": "master/experiments:slots_per_trial",
        "resources.max_slots": "master/experiments:max_slots",
        **below("resources", QUEUE),
        "resources.is_single_node": "master/experiments:is_single_node",
        "internal": ONE_VALUE,
    },
}
"""Of each key that has an effect, who reads it: a package or module, and the name it is read by there."""


@pytest.mark.parametrize("model", READERS)
def test_a_key_is_marked_or_has_a_reader(model: type[BaseModel]) -> None:
    assert sorted(set(unmarked_leaves(model))) == sorted(READERS[model])


@pytest.mark.slow
@pytest.mark.parametrize("model", READERS)
def test_the_readers_read(model: type[BaseModel]) -> None:
    claims = {
        (key, reader) for key, reader in READERS[model].items() if reader not in (TASK, ONE_VALUE)
    }
    silent = {
        (key, reader)
        for key, reader in claims
        if reader.partition(":")[2] not in words_read(reader.partition(":")[0])
    }
    assert silent == set()


@pytest.mark.parametrize("model", READERS)
def test_every_key_says_what_it_means(model: type[BaseModel]) -> None:
    assert list(undescribed(model)) == []


def undescribed(model: type[BaseModel], at: str = "") -> Iterator[str]:
    for key in keys_of(model):
        if not key.description:
            yield f"{at}{key.name}"
        for section in key.sections:
            yield from undescribed(section, f"{at}{key.name}.")


@cache
def words_read(where: str) -> frozenset[str]:
    """Names of attributes, and texts used as keys, in a module or in the modules of a package.

    Where keys are declared they are not read: of a package, the models are left out.
    """
    place = ROOT / where
    files = [place] if place.is_file() else [f for f in place.rglob("*.py") if not _declares(f)]
    return frozenset().union(*map(words_of, files))


def _declares(file: Path) -> bool:
    path = file.relative_to(ROOT).as_posix()
    return path.startswith(("master/config/", "master/core/expconf/", "provisioner/sections/"))


@cache
def words_of(file: Path) -> frozenset[str]:
    return frozenset(_words(ast.parse(file.read_text())))


def _words(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=word, ctx=ast.Load()):
                yield word
            case ast.Subscript(slice=ast.Constant(value=str(word))):
                yield word
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(word)), *_]):
                yield word
