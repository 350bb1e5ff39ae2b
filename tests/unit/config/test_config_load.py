"""master.yaml: what is accepted, what each pool ends up with, and what may be shown."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from master.config import EmbeddedSection, MasterConfig, load, masked
from master.core.expconf.models.storage import SharedFsStorage
from master.core.fall_back import FallBackRule
from master.core.scheduler.types import SchedulerSettings
from provisioner.planning.scale_down.disruption import Disruption
from provisioner.planning.scale_down.stopped_agents import StoppedAgents


def loaded(tmp_path: Path, text: str, **overrides: Any) -> MasterConfig:
    path = tmp_path / "master.yaml"
    path.write_text(text)
    return load(path, overrides=overrides)


EVERY_KEY = """
config_file: /etc/determined/master.yaml
host: 0.0.0.0
port: 9000
root: /usr/share
log: {level: debug, color: false}
db: {user: u, password: p, host: h, port: 5433, name: n, ssl_mode: require, ssl_root_cert: /r,
     migrations: m, views_and_triggers: v}
cache: {cache_dir: /c}
tensorboard_timeout: 60
notebook_timeout: 600
launch_error: false
cluster_name: demo
enable_cors: true
feature_switches: [a]
reserved_ports: [12350]
integrations: {pachyderm: {address: a}}
observability: {enable_prometheus: false}
webhooks: {base_url: https://x, signing_key: k}
telemetry: {enabled: false, segment_master_key: k, segment_webui_key: k, otel_enabled: true,
            otel_endpoint: x, cluster_id: c}
retention_policy: {log_retention_days: 30, schedule: 0 3 * * *}
ui_customization: {logo_paths: {dark_horizontal: a, dark_vertical: b, light_horizontal: c,
                                light_vertical: d}}
checkpoint_storage: {type: shared_fs, host_path: /ckpt}
task_container_defaults:
  shm_size_bytes: 1024
  network_mode: host
  dtrain_network_interface: eth0
  nccl_port_range: "1000:2000"
  gloo_port_range: "2001:3000"
  image: {cpu: c, gpu: g}
  environment_variables: [A=1]
  force_pull_image: true
  registry_auth: {username: u, password: p, serveraddress: s, email: e}
  add_capabilities: [A]
  drop_capabilities: [B]
  devices: ["/dev/a:/dev/b"]
  bind_mounts: [{host_path: /a, container_path: b}]
  work_dir: /w
  startup_hook: echo
  log_policies: [{name: n, pattern: p, action: exclude_node}]
  preemption_timeout: 60
  cpu_pod_spec: {spec: {}}
  gpu_pod_spec: {spec: {}}
  checkpoint_gc_pod_spec: {spec: {}}
  kubernetes: {max_slots_per_pod: 1}
  slurm: {slots_per_node: 1, gpu_type: g, sbatch_args: [a]}
  pbs: {slots_per_node: 1, pbsbatch_args: [a]}
resource_manager:
  type: agent
  cluster_name: c
  metadata: {a: b}
  scheduler: {type: priority, fitting_policy: worst, allow_heterogeneous_fits: true,
              preemption: true, default_priority: 50, preempt_after: 1m,
              reserve_after: 2h}
  default_aux_resource_pool: aux
  default_compute_resource_pool: gpu
  no_default_resource_pools: false
  require_authentication: false
  client_ca: ""
resource_pools:
  - pool_name: gpu
    description: d
    max_aux_containers_per_agent: 3
    agent_reconnect_wait: 30s
    task_container_defaults: {environment_variables: [B=2]}
    scheduler: {type: round_robin}
    providers:
      - {type: embedded, slots_per_instance: 4, boot_time: 3s, usd_per_hour: 1.5}
      - {type: embedded, slots_per_instance: 8, max_instances: 9}
    min_instances: 1
    max_idle_agent_period: 10s
    max_agent_starting_period: 1m
    budget: {usd_per_hour: 20, usd_per_month: 2000}
    on_demand_after: 1m
    warm_agents: 2
    warm_hours: ["08:00-18:00"]
    stopped_agents: {max: 2, max_age: 1d, expected_gap: 2h}
    disruption: {packing: true, replacement: true, drift: true, share: 0.2, hours: ["22:00-6:30"]}
    fall_back_to: [aux]
    fall_back_after: 90s
  - pool_name: aux
additional_resource_managers: []
logging: {type: default}
security:
  default_task: {uid: 1, gid: 1, user: a, group: b}
  tls: {cert: "", key: ""}
  ssh: {key_type: RSA, rsa_key_size: 2048}
  authz: {type: basic, fallback: basic, rbac_ui_enabled: false, strict_job_queue_control: false,
          workspace_creator_assign_role: {enabled: true, role_id: 2}}
  initial_user_password: hush
  token: {default_lifespan_days: 30, max_lifespan_days: -1}
scim: {enabled: false}
saml: {enabled: false}
oidc: {enabled: false}
det_cloud: {enabled: false}
__internal: {audit_logging_enabled: true, external_sessions: {jwt_key: k},
             proxied_servers: [{path_prefix: /a, destination: "http://x:1"}]}
"""


def test_every_documented_key_is_accepted(tmp_path: Path) -> None:
    config = loaded(tmp_path, EVERY_KEY)
    assert (config.host, config.port, config.cluster_name) == ("0.0.0.0", 9000, "demo")  # noqa: S104
    assert config.checkpoint_storage == SharedFsStorage(type="shared_fs", host_path="/ckpt")
    gpu, aux = config.pools()
    planned = gpu.settings
    assert (gpu.name, gpu.is_elastic, planned.min_instances, planned.max_instances) == (
        "gpu",
        True,
        1,
        9,
    )
    assert (planned.max_idle_s, planned.max_starting_s, planned.on_demand_after_s) == (10, 60, 60)
    assert (planned.warm_agents, planned.warm_hours) == (2, ("08:00-18:00",))
    assert planned.stopped == StoppedAgents(
        max=2, max_age=timedelta(seconds=86_400.0), expected_gap=timedelta(seconds=7200.0)
    )
    assert not aux.settings.stopped.is_on
    assert planned.disruption == Disruption(
        packing=True, replacement=True, drift=True, share=0.2, hours=("22:00-6:30",)
    )
    assert (planned.budget.usd_per_hour, planned.budget.usd_per_month) == (20, 2000)
    assert (gpu.section.max_aux_containers_per_agent, gpu.section.agent_reconnect_wait) == (
        3,
        timedelta(seconds=30),
    )
    assert [provider.slots_per_instance for provider in gpu.providers] == [4, 8]
    assert gpu.fall_back == FallBackRule(pools=("aux",), after_s=90)
    assert (aux.is_elastic, aux.settings.max_instances) == (False, 0)
    assert (config.default_compute_pool, config.default_aux_pool) == ("gpu", "aux")
    assert config.internal.audit_logging_enabled


def test_schedulers_are_inherited_whole_or_not_at_all(tmp_path: Path) -> None:
    config = loaded(tmp_path, EVERY_KEY)
    gpu, aux = config.pools()
    assert gpu.scheduler == SchedulerSettings(type="round_robin")
    assert aux.scheduler == SchedulerSettings(
        type="priority",
        fitting_policy="worst",
        allow_heterogeneous_fits=True,
        preemption=True,
        default_priority=50,
        preempt_after=timedelta(seconds=60),
        reserve_after=timedelta(hours=2),
    )
    assert (
        "resource_pools[0].scheduler replaces resource_manager.scheduler whole: "
        "allow_heterogeneous_fits, default_priority, fitting_policy, preempt_after, preemption, "
        "reserve_after of the latter do not apply here"
    ) in config.warnings


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("{}", 1800),
        ("{reserve_after: 45m}", 2700),
        ("{reserve_after: 0s}", 0),
        ("{reserve_after: off}", None),
        ("{reserve_after: 'off'}", None),
        ("{reserve_after: false}", None),
        ("{reserve_after: null}", None),
    ],
)
def test_the_starvation_guard_has_a_time_or_is_off(
    tmp_path: Path, written: str, seconds: float | None
) -> None:
    config = loaded(tmp_path, f"resource_manager: {{scheduler: {written}}}")
    after = None if seconds is None else timedelta(seconds=seconds)
    assert config.pools()[0].scheduler.reserve_after == after


def test_without_a_file_there_is_one_static_pool() -> None:
    config = load(None)
    assert (config.host, config.port) == ("127.0.0.1", 8080)
    (pool,) = config.pools()
    assert (pool.name, pool.is_elastic) == ("default", False)
    assert pool.scheduler == SchedulerSettings()
    assert pool.scheduler.type == "fair_share"
    assert (config.default_compute_pool, config.default_aux_pool) == ("default", "default")
    assert config.checkpoint_storage is None
    assert config.warnings == ()


@pytest.mark.parametrize("text", ["", "{}", "resource_pools: []", "resource_pools: null"])
def test_a_file_that_says_nothing_is_the_default(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text) == load(None)


def test_the_only_pool_is_the_default_pool(tmp_path: Path) -> None:
    config = loaded(tmp_path, "resource_pools: [{pool_name: gpu}]")
    assert (config.default_compute_pool, config.default_aux_pool) == ("gpu", "gpu")


@pytest.mark.parametrize(
    "text",
    [
        "resource_pools: [{pool_name: a}, {pool_name: b}]",
        "resource_pools: [{pool_name: default}]\n"
        "resource_manager: {no_default_resource_pools: true}",
    ],
)
def test_a_cluster_may_have_no_default_pool(tmp_path: Path, text: str) -> None:
    config = loaded(tmp_path, text)
    assert (config.default_compute_pool, config.default_aux_pool) == (None, None)


def test_defaults_of_an_elastic_pool(tmp_path: Path) -> None:
    text = "resource_pools: [{pool_name: a, provider: {type: embedded}}]"
    (pool,) = loaded(tmp_path, text).pools()
    assert (pool.settings.min_instances, pool.settings.max_instances, pool.settings.max_idle_s) == (
        0,
        5,
        300,
    )
    assert isinstance(pool.providers[0], EmbeddedSection)
    assert pool.providers[0].slots_per_instance == 1


def test_limits_may_stand_in_the_provider(tmp_path: Path) -> None:
    text = """
    resource_pools:
      - pool_name: a
        provider: {type: embedded, min_instances: 2, max_instances: 3, max_idle_agent_period: 7s}
        max_instances: 3
    """
    (pool,) = loaded(tmp_path, text).pools()
    assert (pool.settings.min_instances, pool.settings.max_instances, pool.settings.max_idle_s) == (
        2,
        3,
        7,
    )


def test_how_long_idle_machines_are_kept_may_follow_from_what_a_boot_costs(tmp_path: Path) -> None:
    text = (
        "resource_pools: [{pool_name: a, max_idle_agent_period: auto, provider: {type: embedded}}]"
    )
    config = loaded(tmp_path, text)
    (pool,) = config.pools()
    assert (pool.settings.idle_auto, pool.settings.max_idle_s) == (True, 1800)
    shown = masked(config)["resource_pools"][0]
    assert shown["max_idle_agent_period"] == "auto"


def test_a_pools_container_defaults_lie_over_the_clusters(tmp_path: Path) -> None:
    gpu, aux = loaded(tmp_path, EVERY_KEY).pools()
    variables = gpu.containers().environment_variables
    assert variables is not None
    assert variables.cpu == ("B=2", "A=1")
    assert gpu.containers().shm_size_bytes == 1024
    assert aux.containers().preemption_timeout == 60
    assert load(None).pools()[0].containers().shm_size_bytes == 4 * 2**30


def test_overrides_win_and_none_is_not_given(tmp_path: Path) -> None:
    overrides = {
        "port": 1,
        "log.level": "trace",
        "security.initial_user_password": "x",
        "host": None,
    }
    path = tmp_path / "m.yaml"
    path.write_text("port: 2\nhost: h\nlog: {color: false}")
    config = load(path, overrides=overrides)
    assert (config.port, config.host) == (1, "h")
    assert (config.log.level, config.log.color) == ("trace", False)
    assert config.security.initial_user_password == "x"


@pytest.mark.parametrize(
    ("db", "url"),
    [
        ("{}", "sqlite+aiosqlite:////data/windlass.db"),
        ("{url: 'sqlite+aiosqlite:///x.db'}", "sqlite+aiosqlite:///x.db"),
        ("{host: h, name: n}", "postgresql+asyncpg://h:5432/n"),
        (
            "{host: h, name: n, user: 'a@b', password: 'p/w:d', port: '7', ssl_mode: verify-full}",
            "postgresql+asyncpg://a%40b:p%2Fw%3Ad@h:7/n?ssl=verify-full",
        ),
        ("{host: '::1', name: n, user: u}", "postgresql+asyncpg://u@[::1]:5432/n"),
    ],
)
def test_database_urls(tmp_path: Path, db: str, url: str) -> None:
    assert loaded(tmp_path, f"db: {db}").db_url(Path("/data")) == url


SECRETS = """
db: {url: 'postgresql+asyncpg://u:SECRET@h/n'}
security: {initial_user_password: SECRET}
webhooks: {signing_key: SECRET}
telemetry: {segment_master_key: SECRET, segment_webui_key: SECRET}
checkpoint_storage: {type: s3, bucket: b, access_key: SECRET, secret_key: SECRET}
task_container_defaults: {registry_auth: {username: u, password: SECRET}}
resource_pools:
  - {pool_name: default, task_container_defaults: {registry_auth: {identitytoken: SECRET}}}
scim: {enabled: false, auth: {type: basic, username: u, password: SECRET}}
__internal: {external_sessions: {jwt_key: SECRET}}
"""


def test_a_login_of_the_cluster_is_not_shown_to_any_registry_that_a_user_names(
    tmp_path: Path,
) -> None:
    config = loaded(
        tmp_path,
        """
task_container_defaults: {registry_auth: {username: u, password: p}}
resource_pools:
  - {pool_name: a, task_container_defaults: {registry_auth: {username: u, server: r.example}}}
  - {pool_name: b, task_container_defaults: {registry_auth: {username: u, serveraddress: ""}}}
""",
    )
    why = "has no serveraddress: it is used for docker.io only; name the registry that it is for"
    assert config.warnings == (
        f"task_container_defaults.registry_auth {why}",
        f"resource_pools[1].task_container_defaults.registry_auth {why}",
    )
    servers = [
        section["registry_auth"]["serveraddress"]
        for section in (
            config.task_container_defaults,
            *(pool.task_container_defaults or {} for pool in config.pools()),
        )
    ]
    assert servers == ["docker.io", "r.example", "docker.io"]


def test_secrets_are_masked_and_not_in_the_repr(tmp_path: Path) -> None:
    config = loaded(tmp_path, SECRETS)
    shown = json.dumps(masked(config))
    assert "SECRET" not in shown
    assert masked(config)["db"]["url"] == "postgresql+asyncpg://u:********@h/n"
    assert masked(config)["security"]["initial_user_password"] == "********"
    assert "SECRET" not in repr(config)
    assert "SECRET" not in repr(config.pools())


def test_what_is_shown_is_the_effective_configuration(tmp_path: Path) -> None:
    """Without secrets it can be loaded again and means the same."""
    config = loaded(tmp_path, EVERY_KEY.replace("hush", "'********'"))
    again = loaded(tmp_path, yaml.safe_dump(masked(config)))
    assert masked(again) == masked(config)
    assert again.warnings == ()


def test_what_follows_from_other_keys_is_shown_where_it_applies(tmp_path: Path) -> None:
    text = """
    resource_manager: {scheduler: {type: priority, default_priority: 7}}
    resource_pools: [{pool_name: a, provider: {type: embedded, max_instances: 3}}]
    """
    shown = masked(loaded(tmp_path, text))
    assert shown["resource_manager"]["default_aux_resource_pool"] == "a"
    (pool,) = shown["resource_pools"]
    assert pool["scheduler"]["default_priority"] == 7
    limits = (pool["min_instances"], pool["max_instances"], pool["max_idle_agent_period"])
    assert limits == (0, 3, "5m")


def test_nothing_is_shown_that_is_not_so(tmp_path: Path) -> None:
    """`GET /info` says that nothing is reported, whatever the file says."""
    text = """
    telemetry: {enabled: true, otel_enabled: true}
    security: {authz: {fallback: rbac}}
    task_container_defaults: {image: x, work_dir: /w}
    """
    shown = masked(loaded(tmp_path, text))
    assert "telemetry" not in shown
    assert "fallback" not in shown["security"]["authz"]
    assert shown["task_container_defaults"] == {"work_dir": "/w"}
    assert masked(load(None))["db"]["password"] is None


def test_the_old_form_becomes_one_pool(tmp_path: Path) -> None:
    config = loaded(tmp_path, "scheduler: {type: fair_share, fit: worst}")
    (pool,) = config.pools()
    assert pool.name == "default"
    assert pool.scheduler == SchedulerSettings(type="fair_share", fitting_policy="worst")
    assert config.warnings == (
        "scheduler: the form of old releases, read as resource_manager and one resource pool "
        "`default`; write those instead",
    )


@pytest.mark.parametrize("provider", ["{}", "{type: default}", "{type: agent}", "{type: null}"])
def test_the_old_forms_default_scheduler_is_priority(tmp_path: Path, provider: str) -> None:
    (pool,) = loaded(tmp_path, f"scheduler: {{resource_provider: {provider}}}").pools()
    assert pool.scheduler.type == "priority"


def test_deprecated_keys_work_and_warn(tmp_path: Path) -> None:
    text = """
    resource_manager: {name: old, default_cpu_resource_pool: a, default_gpu_resource_pool: b}
    resource_pools:
      - {pool_name: a, max_cpu_containers_per_agent: 7, agent_reattach_enabled: true}
      - {pool_name: b}
    task_container_defaults: {}
    __internal: {preemption_timeout: 30m}
    """
    config = loaded(tmp_path, text)
    assert (config.default_aux_pool, config.default_compute_pool) == ("a", "b")
    assert config.pools()[0].section.max_aux_containers_per_agent == 7
    assert config.pools()[0].containers().preemption_timeout == 1800
    assert [warning.split(" ")[0] for warning in config.warnings] == [
        "__internal.preemption_timeout",
        "resource_manager.default_cpu_resource_pool",
        "resource_manager.default_gpu_resource_pool",
        "resource_pools[0].max_cpu_containers_per_agent",
        "resource_manager.name",
        "resource_pools[0].agent_reattach_enabled",
    ]


def test_two_pools_may_fall_back_to_each_other(tmp_path: Path) -> None:
    """What has left its pool goes only home again: nothing goes round in circles."""
    text = """
    resource_pools:
      - {pool_name: default, fall_back_to: [b]}
      - {pool_name: b, fall_back_to: [default]}
    """
    first, second = loaded(tmp_path, text).pools()
    assert (first.fall_back.pools, second.fall_back.pools) == (("b",), ("default",))
    assert first.fall_back.after_s == 300


def test_keys_without_effect_are_told_where_they_stand(tmp_path: Path) -> None:
    text = """
    observability: {enable_prometheus: true}
    feature_switches: [streaming_updates]
    enable_cors: null
    security: {ssh: {key_type: ED25519}}
    task_container_defaults: {work_dir: /w, image: x}
    resource_pools:
      - {pool_name: default, task_container_defaults: {nccl_port_range: "1:2"}}
      - {pool_name: b, fall_back_to: [default], budget: {usd_per_month: 5, usd_per_hour: 1}}
    __internal: {audit_logging_enabled: false}
    """
    warnings = loaded(tmp_path, text).warnings
    assert [warning.partition(" has no effect: ")[0] for warning in warnings] == [
        "feature_switches",
        "__internal.audit_logging_enabled",
        "resource_pools[0].task_container_defaults.nccl_port_range",
    ]


def test_the_port_depends_on_tls_unless_it_is_given(tmp_path: Path) -> None:
    assert load(None).port == 8080
    assert load(None, overrides={"security.tls.self_signed": True}).port == 8443
    path = tmp_path / "master.yaml"
    path.write_text("security: {tls: {cert: c, key: k}}")
    assert load(path).port == 8443
    path.write_text("port: 99\nsecurity: {tls: {cert: c, key: k}}")
    assert load(path).port == 99


def test_walltimes_that_get_nothing_done_are_told(tmp_path: Path) -> None:
    short = {"type": "slurm", "walltime": "2m"}
    pilots = {"type": "slurm", "mode": "pilot", "walltimes": ["10m", "5m"]}
    pools = [{"pool_name": "a", "provider": short}, {"pool_name": "b", "provider": pilots}]
    config = loaded(tmp_path, json.dumps({"resource_pools": pools}))
    assert config.warnings == (
        "resource_pools[0].provider.walltime: 2m is too short for work to start, save a checkpoint and leave: "
        "give at least 3m, unless all work ends within that time",
        "resource_pools[1].provider.walltimes: no work of unknown length starts on a pilot of 5m: "
        "give at least 9m",
    )
