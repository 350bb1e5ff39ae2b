"""What master.yaml may not say, in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from master.config import load
from windlass.base.errors import InvalidConfig

POOL = "<master.yaml>.resource_pools[0]"


def problems(tmp_path: Path, text: str, overrides: dict[str, Any] | None = None) -> tuple[str, ...]:
    path = tmp_path / "master.yaml"
    path.write_text(text)
    with pytest.raises(InvalidConfig) as caught:
        load(path, overrides=overrides)
    assert caught.value.what == "master configuration"
    return caught.value.problems


@pytest.mark.parametrize(
    ("storage", "line"),
    [
        (
            "{type: s3, bucket: a/b}",
            "bucket: 'a/b' is not the name of a bucket: it has only letters",
        ),
        (
            "{type: s3, bucket: b, endpoint_url: 'minio?sig=SECRET'}",
            "endpoint_url: 'minio' is no URL: it begins with https:// or http://, then a host",
        ),
        ("{type: gcs, bucket: Upper}", "bucket: 'Upper' is not the name of a bucket"),
        (
            "{type: azure, container: a--b, account_url: 'https://a.blob.core.windows.net'}",
            "container: 'a--b' is not the name of a container",
        ),
    ],
)
def test_storage_that_no_service_has(tmp_path: Path, storage: str, line: str) -> None:
    (problem,) = problems(tmp_path, f"checkpoint_storage: {storage}")
    assert problem.startswith(f"<master.yaml>.checkpoint_storage.{line}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bogus: 1", '<master.yaml>: additionalProperties "bogus" not allowed'),
        ("warnings: []", '<master.yaml>: additionalProperties "warnings" not allowed'),
        (
            "resource_pool: []",
            '<master.yaml>: additionalProperties "resource_pool" not allowed; '
            'did you mean "resource_pools"?',
        ),
        (
            "__internl: {}",
            '<master.yaml>: additionalProperties "__internl" not allowed; '
            'did you mean "__internal"?',
        ),
        (
            "log: {levle: info}",
            '<master.yaml>.log: additionalProperties "levle" not allowed; did you mean "level"?',
        ),
        (
            "log: {level: loud}",
            '<master.yaml>.log.level: value must be one of <nil>, "trace", "debug", "info", '
            '"warn", "error", "fatal"',
        ),
        ("port: http", "<master.yaml>.port: expected integer or null, but got string"),
        ("port: 70000", "<master.yaml>.port: must be <= 65535 but found 70000"),
        ("- a", "<master.yaml>: expected object, but got array"),
        (
            "a: b: c",
            "<master.yaml>: malformed YAML at line 1, column 5: mapping values are not allowed here",
        ),
        (
            "db: {url: x, host: h, name: n}",
            "<master.yaml>.db: give either url, or host and name, not both",
        ),
        ("db: {host: h}", "<master.yaml>.db: host and name go together"),
        (
            "retention_policy: {schedule: often}",
            '<master.yaml>.retention_policy.schedule: "often" is neither a duration such as "24h" '
            "nor five cron fields",
        ),
        (
            "retention_policy: {log_retention_days: 32768}",
            "<master.yaml>.retention_policy.log_retention_days: must be <= 32767 but found 32768",
        ),
        (
            "resource_manager: {type: kubernetes}",
            "<master.yaml>.resource_manager: resource manager type kubernetes is not supported yet",
        ),
        (
            "resource_manager: {type: k9s}",
            '<master.yaml>.resource_manager: type "k9s" is unknown: use one of agent, slurm, pbs',
        ),
        (
            "resource_manager: {default_aux_resource_pool: cpu}",
            '<master.yaml>.resource_manager.default_aux_resource_pool: "cpu" is not a resource '
            "pool (there are default)",
        ),
        (
            "resource_manager: {scheduler: {preemption: true}}",
            "<master.yaml>.resource_manager.scheduler: preemption belongs to type priority, "
            "not to fair_share",
        ),
        (
            "resource_manager: {scheduler: {type: priority, default_priority: 0}}",
            "<master.yaml>.resource_manager.scheduler.default_priority: must be >= 1 but found 0",
        ),
        (
            "resource_manager: {scheduler: {reserve_after: soon}}",
            '<master.yaml>.resource_manager.scheduler.reserve_after: "soon" is not a duration: '
            'write "90s", "30m" or "2h", or off',
        ),
        (
            "resource_manager: {scheduler: {reserve_after: true}}",
            "<master.yaml>.resource_manager.scheduler.reserve_after: true is not a duration: "
            'write "90s", "30m" or "2h", or off',
        ),
        (
            "resource_manager: {scheduler: {reserve_after: 1800}}",
            "<master.yaml>.resource_manager.scheduler.reserve_after: 1800 is not a duration: "
            'write "90s", "30m" or "2h", or off',
        ),
        (
            "resource_manager: {scheduler: {reserve_after: -5m}}",
            "<master.yaml>.resource_manager.scheduler.reserve_after: must be >= 0s but found -5m",
        ),
        (
            "resource_manager: {require_authentication: true}",
            "<master.yaml>.resource_manager: require_authentication is not supported yet: agents "
            "join with a token instead",
        ),
        (
            "additional_resource_managers: [{}]",
            "<master.yaml>.additional_resource_managers: several resource managers are not "
            "supported yet",
        ),
        ("resource_pools: [{}]", f'{POOL}: missing properties: "pool_name"'),
        ("resource_pools: [{pool_name: ''}]", f"{POOL}.pool_name: must not be empty"),
        (
            "resource_pools: [{pool_name: default}, {pool_name: default}]",
            '<master.yaml>.resource_pools[1].pool_name: "default" is already the name of another '
            "pool",
        ),
        (
            "resource_pools: [{pool_name: default, fall_back_to: [big]}]",
            f'{POOL}.fall_back_to[0]: "big" is not a resource pool (there are default): '
            "name one of these, or remove it",
        ),
        (
            "resource_pools: [{pool_name: default, fall_back_to: [default]}]",
            f'{POOL}.fall_back_to[0]: "default" is this pool itself: name other pools, or remove it',
        ),
        (
            "resource_pools: [{pool_name: default, fall_back_to: [b, b]}, {pool_name: b}]",
            f'{POOL}.fall_back_to[1]: "b" is named twice: remove one',
        ),
        (
            "resource_pools: [{pool_name: default, fall_back_after: -1s}]",
            f"{POOL}.fall_back_after: must be >= 0s but found -1s",
        ),
        (
            "resource_pools: [{pool_name: default, agent_reconnect_wait: 25}]",
            f'{POOL}.agent_reconnect_wait: 25 is not a duration: write "90s", "5m" or "1h30m"',
        ),
        (
            "resource_pools: [{pool_name: default, min_instances: 1}]",
            f"{POOL}: min_instances needs a provider: this pool is static",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: hpc, partition: x}}]",
            "<master.yaml>: resource_pools: the provider of pool a is of type hpc, a partition of the "
            "resource_manager, which must be of type slurm or pbs then: set that, or type: slurm here",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: pbs, pbsbatch_args: [-q x]}}]",
            f'{POOL}.provider.pbsbatch_args: "-q x": PBS option -q is not configurable: '
            "name the resource pool of that queue in resources.resource_pool",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, sbatch_args: [-N2]}}]",
            f'{POOL}.provider.sbatch_args: "-N2": slurm option --nodes is not configurable: '
            "set resources.slots_per_trial and slurm.slots_per_node",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, walltime: 30s}}]",
            f"{POOL}.provider.walltime: must be >= 1m but found 30s: batch systems look at times now and then",
        ),
        (
            "resource_pools: [{pool_name: a, providers: [{type: slurm}, {type: embedded}]}]",
            f"{POOL}: a provider of type slurm must be the only one of its pool: set its mode: pilot, or "
            "give the others a pool of their own, and name it in fall_back_to",
        ),
        (
            "resource_pools: [{pool_name: a, max_instances: 3, provider: {type: slurm}}]",
            f"{POOL}: max_instances is not for slurm, which schedules by itself: remove it",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, python: /p, ssh: {host: h}}}]",
            f"{POOL}.provider: job_storage_root is required with ssh: a path on the login node",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, impersonate: sudo}}]",
            f"{POOL}.provider: job_storage_root is required with impersonate: a shared folder of mode 1777",
        ),
        (
            "resource_pools: [{pool_name: a, provider: "
            "{type: pbs, impersonate: sudo, job_storage_root: /j, mode: pilot}}]",
            f"{POOL}.provider: impersonate is of mode dispatch: a pilot runs the work of many users",
        ),
        (
            "resource_pools: [{pool_name: a, provider: "
            "{type: slurm, impersonate: sudo, job_storage_root: /j, python: /p, ssh: {host: h}}}]",
            f"{POOL}.provider: impersonate does not take ssh: it runs the commands of a login node by sudo",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: pbs, ssh: {host: -oProxyCommand=x}}}]",
            f'{POOL}.provider.ssh.host: "-oProxyCommand=x" is not a machine: it begins with a dash',
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, walltimes: [4h]}}]",
            f"{POOL}.provider: walltimes is of pilots: set mode: pilot or auto, or remove it",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, mode: pilot, walltime: 4h}}]",
            f"{POOL}.provider: walltime is of mode dispatch: give walltimes, such as [4h, 1h]",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, mode: pilot, sbatch_args: [-t9]}}]",
            f'{POOL}.provider: "-t9" sets a time limit: give walltimes instead',
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: slurm, mode: auto, sbatch_args: [-t9]}}]",
            f'{POOL}.provider: "-t9" sets a time limit: give walltimes instead',
        ),
        (
            "resource_pools: [{pool_name: a-pilots}, {pool_name: a, provider: {type: slurm, mode: auto}}]",
            f'{POOL}.pool_name: "a-pilots" is what the pilots of pool "a" are called, which is of mode auto: '
            "take another name",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: cloud9}}]",
            f'{POOL}.provider: provider type "cloud9" is unknown: use one of embedded, aws, gcp, slurm, pbs, hpc',
        ),
        (
            "resource_pools: [{pool_name: a, provider: {slots_per_instance: 2}}]",
            f"{POOL}.provider: type is a required property",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: embedded, slots_per_instance: 0}}]",
            f"{POOL}.provider.slots_per_instance: must be >= 1 but found 0",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: embedded, usd_per_hour: -1}}]",
            f"{POOL}.provider.usd_per_hour: must be >= 0 but found -1",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: embedded, region: x}}]",
            f'{POOL}.provider: additionalProperties "region" not allowed',
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: embedded}, min_instances: 6}]",
            f"{POOL}: min_instances must not be more than max_instances",
        ),
        (
            "resource_pools: [{pool_name: a, max_idle_agent_period: 0s, provider: {type: embedded}}]",
            f"{POOL}.max_idle_agent_period: must be > 0s but found 0s",
        ),
        (
            "resource_pools: [{pool_name: a, max_idle_agent_period: 5, provider: {type: embedded}}]",
            f'{POOL}.max_idle_agent_period: 5 is neither a duration such as "5m" nor auto',
        ),
        (
            "resource_pools: [{pool_name: a, task_metadata: direct, provider: {type: embedded}}]",
            f"{POOL}: task_metadata needs a provider of type aws or gcp: machines of others have no metadata service. "
            "Agents that you start yourself have a key of that name in agent.yaml",
        ),
        (
            "resource_pools: [{pool_name: a, warm_agents: 1}]",
            f"{POOL}: warm_agents needs a provider: this pool is static",
        ),
        (
            "resource_pools: [{pool_name: a, warm_agents: 6, provider: {type: embedded}}]",
            f"{POOL}: warm_agents must not be more than max_instances",
        ),
        (
            "resource_pools: [{pool_name: a, stopped_agents: {max: 1}}]",
            f"{POOL}: stopped_agents needs a provider: this pool is static",
        ),
        (
            "resource_pools: [{pool_name: a, stopped_agents: {max: 1}, provider: {type: slurm, mode: pilot}}]",
            f"{POOL}: stopped_agents needs a provider of type aws, gcp or embedded: others cannot stop machines",
        ),
        (
            "resource_pools: [{pool_name: a, stopped_agents: {max: -1}, provider: {type: embedded}}]",
            f"{POOL}.stopped_agents.max: must be >= 0 but found -1",
        ),
        (
            "resource_pools: [{pool_name: a, disruption: {packing: true}}]",
            f"{POOL}: disruption needs a provider: this pool is static",
        ),
        (
            "resource_pools: [{pool_name: a, disruption: {share: 1.5}, provider: {type: embedded}}]",
            f"{POOL}.disruption.share: must be <= 1 but found 1.5",
        ),
        (
            "resource_pools: [{pool_name: a, disruption: {pack: true}, provider: {type: embedded}}]",
            f'{POOL}.disruption: additionalProperties "pack" not allowed; did you mean "packing"?',
        ),
        (
            "resource_pools: [{pool_name: a, disruption: {hours: [22-6]}, provider: {type: embedded}}]",
            f"{POOL}.disruption.hours[0]: '22-6' is no time of the day: write \"22:00-06:00\", in UTC",
        ),
        (
            "resource_pools: [{pool_name: a, disruption: {hours: ['22:00-24:30']}, "
            "provider: {type: embedded}}]",
            f'{POOL}.disruption.hours[0]: "22:00-24:30" is no time of the day: write "22:00-06:00", in UTC',
        ),
        (
            "resource_pools: [{pool_name: a, max_idle_agent_period: ever, provider: {type: embedded}}]",
            f'{POOL}.max_idle_agent_period: "ever" is not a duration: write "90s", "5m" or "1h30m"',
        ),
        (
            "resource_pools:\n- {pool_name: a, max_instances: 2, "
            "provider: {type: embedded, max_instances: 3}}",
            f"{POOL}: max_instances is given differently in the pool and in a provider",
        ),
        (
            "resource_pools: [{pool_name: a, provider: {type: embedded}, "
            "providers: [{type: embedded}]}]",
            f"{POOL}: give either provider or providers, not both",
        ),
        (
            "resource_pools: [{pool_name: a, task_container_defaults: {shm_size_byte: 3}}]",
            f'{POOL}.task_container_defaults: additionalProperties "shm_size_byte" not allowed; '
            'did you mean "shm_size_bytes"?',
        ),
        (
            "task_container_defaults: {shm_size_bytes: 0}",
            "<master.yaml>.task_container_defaults.shm_size_bytes: must be >= 1 but found 0",
        ),
        (
            "task_container_defaults: 3",
            "<master.yaml>.task_container_defaults: expected object or null, but got number",
        ),
        (
            "checkpoint_storage: {type: s3}",
            "<master.yaml>.checkpoint_storage: bucket is a required property",
        ),
        (
            "logging: {type: elastic, host: h}",
            "<master.yaml>.logging: logging type elastic is not supported yet",
        ),
        (
            "saml: {enabled: true}",
            "<master.yaml>.saml: SAML, OIDC, SCIM and OAuth clients are not part of Windlass; "
            "users log in with passwords or access tokens: set enabled to false",
        ),
        (
            "security: {authz: {roles: [{id: 100, name: Own, permissions: [VIEW_ALL]}]}}",
            "<master.yaml>.security.authz.roles[0].permissions: 'VIEW_ALL' is no permission: the page "
            "on roles lists them",
        ),
        (
            "security: {authz: {roles: [{id: 100, name: editor, permissions: []}]}}",
            "<master.yaml>.security.authz.roles: role 100 (editor): its id and its name must be its "
            "own",
        ),
        (
            "security: {tls: {cert: x}}",
            '<master.yaml>.security.tls: cert is "x" and key is missing: name both files, or neither',
        ),
        (
            "security: {tls: {key: y}}",
            '<master.yaml>.security.tls: key is "y" and cert is missing: name both files, or neither',
        ),
        (
            "security: {tls: {cert: x, key: y, self_signed: true}}",
            "<master.yaml>.security.tls: give either cert and key, or self_signed: true",
        ),
        (
            "security: {tls: {ca: z}}",
            "<master.yaml>.security.tls: ca goes with cert and key, or with self_signed: true",
        ),
        (
            'security: {tls: {cert: x, key: "-----BEGIN PRIVATE KEY-----"}}',
            "<master.yaml>.security.tls.key: must be the path of a file, not what is in it",
        ),
        (
            "security: {token: {default_lifespan_days: 40}}",
            "<master.yaml>.security.token: default_lifespan_days must not be more than "
            "max_lifespan_days",
        ),
        (
            "host: 0.0.0.0\nsecurity: {allow_empty_password: true}",
            '<master.yaml>: security.allow_empty_password needs a loopback host; host is "0.0.0.0": '
            "remove the key and give the users passwords, or set host: 127.0.0.1",
        ),
        (
            "security: {trusted_proxies: [10.0.0.0/8, lb.example.org]}",
            '<master.yaml>.security.trusted_proxies: "lb.example.org" is no address or network '
            "such as 10.0.0.5 or 10.0.0.0/24",
        ),
        (
            "security: {ssh: {key_type: RSA, rsa_key_size: 1023}}",
            "<master.yaml>.security.ssh: key_type RSA needs rsa_key_size from 1024 to 16384",
        ),
        (
            "scheduler: {}\nresource_pools: []",
            "<master.yaml>: cannot use the old and the new configuration schema at the same time: "
            "move scheduler into resource_manager and resource_pools",
        ),
        ("scheduler: {fit: 3}", "<master.yaml>.scheduler.fit: expected string"),
        (
            "scheduler: {resource_provider: {type: yarn}}",
            "<master.yaml>.scheduler.resource_provider: unsupported type 'yarn'",
        ),
        (
            "scheduler: {resource_provider: {type: kubernetes}}",
            "<master.yaml>.resource_manager: resource manager type kubernetes is not supported yet",
        ),
        ("provisioner: {}", "<master.yaml>.provisioner.provider: must be aws or gcp, not None"),
        (
            "provisioner: {provider: gcp, zone: us-central1}",
            f'{POOL}.provider.zone: "us-central1" is no zone of Google Cloud: '
            'did you mean "us-central1-a"?',
        ),
        (
            "__internal: {preemption_timeout: 3}",
            '<master.yaml>.__internal.preemption_timeout: write a duration such as "30m"',
        ),
    ],
)
def test_one_mistake_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert problems(tmp_path, text) == (line,)


def test_all_mistakes_come_at_once_and_sorted(tmp_path: Path) -> None:
    text = """
    bogus: 1
    port: 0
    resource_manager: {default_compute_resource_pool: nowhere}
    resource_pools:
      - {pool_name: a, fall_back_to: [b], task_container_defaults: {image: 3}}
      - {pool_nam: b}
    """
    found = problems(tmp_path, text)
    assert list(found) == sorted(found)
    assert [line.split(": ")[0] for line in found] == [
        "<master.yaml>.port",
        "<master.yaml>.resource_manager.default_compute_resource_pool",
        "<master.yaml>.resource_pools[0].fall_back_to[0]",
        "<master.yaml>.resource_pools[0].task_container_defaults.image",
        "<master.yaml>.resource_pools[1]",
        "<master.yaml>.resource_pools[1]",
        "<master.yaml>",
    ]


def test_overrides_are_checked_too(tmp_path: Path) -> None:
    found = problems(tmp_path, "", {"log.level": "loud", "prt": 3})
    assert [line.split(": ")[0] for line in found] == ["<master.yaml>.log.level", "<master.yaml>"]


def test_a_missing_named_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.yaml"
    with pytest.raises(InvalidConfig) as caught:
        load(path)
    assert caught.value.problems == (
        f"<master.yaml>: cannot read {path}: No such file or directory",
    )


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="Is a directory"):
        load(tmp_path)
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig, match="is not UTF-8 text"):
        load(path)
    path.write_bytes(b"#" * (4 * 2**20 + 1))
    with pytest.raises(InvalidConfig, match="is larger than 4194304 bytes"):
        load(path)


def test_secrets_are_not_in_the_message(tmp_path: Path) -> None:
    text = "security: {initial_user_password: [hush]}\ndb: {url: [hush], password: {a: hush}}"
    assert not any("hush" in line for line in problems(tmp_path, text))
