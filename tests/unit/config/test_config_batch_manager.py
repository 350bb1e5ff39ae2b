"""`resource_manager: {type: slurm}` or `pbs`: every published key, and what becomes of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from master.config import MasterConfig, ResolvedPool, load, masked
from master.config.partitions import Partition
from master.wiring.agents import pilot_sides
from master.wiring.batch.pools import dispatch_options, files_of
from provisioner.batch.disks import LocalDisk
from provisioner.sections.batch import BatchSection, PbsSection, SlurmSection
from rm_backends.auto_modes import PilotSide
from rm_backends.batch.shapes import shape_of
from tests.fakes.agents_world import allocation
from windlass.base.errors import InvalidConfig

PARTITIONS = (
    Partition(name="GPU", is_default=True, has_gpus=True),
    Partition(name="closed", is_open=False),
    Partition(name="cpu"),
)
PUBLISHED: dict[str, Any] = {
    "cluster_name": "site",
    "name": None,
    "metadata": {"a": "b"},
    "master_host": "login1",
    "master_port": 8081,
    "host": "localhost",
    "port": 8181,
    "protocol": "https",
    "security": {
        "tls": {
            "enabled": True,
            "skip_verify": False,
            "certificate": "/c.pem",
            "certificate_name": "n",
        }
    },
    "container_run_type": "podman",
    "auth_file": "/root/.launcher.token",
    "slot_type": "cuda",
    "rendezvous_network_interface": "ib0",
    "proxy_network_interface": "eth0",
    "user_name": "launcher",
    "group_name": "launchers",
    "sudo_authorized": "%research",
    "apptainer_image_root": "/shared/images",
    "job_storage_root": "/shared/jobs",
    "path": "/opt/slurm/bin:/opt/tools",
    "ld_library_path": "/opt/slurm/lib",
    "launcher_jvm_args": "-Xmx1g",
    "tres_supported": True,
    "gres_supported": False,
    "job_project_source": "label:pay:",
    "default_aux_resource_pool": "cpu",
    "default_compute_resource_pool": "GPU",
    "partition_overrides": {
        "gpu": {
            "description": "big nodes",
            "rendezvous_network_interface": "hsn*",
            "proxy_network_interface": "eth1",
            "slot_type": "rocm",
            "task_container_defaults": {"work_dir": "/scratch"},
        }
    },
}
"""Every key of config-reference for slurm and pbs."""


def loaded(
    tmp_path: Path,
    manager: dict[str, Any],
    partitions: tuple[Partition, ...] = PARTITIONS,
    **others: Any,
) -> MasterConfig:
    file = tmp_path / "master.yaml"
    file.write_text(yaml.safe_dump({"resource_manager": {"type": "slurm"} | manager, **others}))
    return load(file).with_partitions(partitions)


def pool(config: MasterConfig, name: str) -> ResolvedPool:
    return next(one for one in config.pools() if one.name == name)


def section(config: MasterConfig, name: str = "cpu") -> BatchSection:
    found = pool(config, name).batch
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
def test_every_published_key_is_accepted(tmp_path: Path, kind: str) -> None:
    """Those of the launcher with one warning, and others without effect with one each."""
    config = loaded(tmp_path, PUBLISHED | {"type": kind})
    assert len(config.pools()) == len(PARTITIONS)
    about = [line.partition(" no effect: ")[0] for line in config.warnings]
    assert about == [
        "resource_manager: auth_file, group_name, host, launcher_jvm_args, port, protocol, security, "
        "sudo_authorized and user_name have",
        "resource_manager.cluster_name has",
        "resource_manager.metadata has",
        "resource_manager.partition_overrides.gpu.proxy_network_interface has",
        "resource_manager.proxy_network_interface has",
        "resource_manager.tres_supported has",
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("slurm", SlurmSection(type="slurm", partition="cpu", job_project_source="project")),
        ("pbs", PbsSection(type="pbs", queue="cpu", job_project_source="project")),
    ],
)
def test_a_pool_is_a_provider_of_its_partition(
    tmp_path: Path, kind: str, expected: BatchSection
) -> None:
    config = loaded(tmp_path, {"type": kind})
    assert [one.name for one in config.pools()] == ["GPU", "closed", "cpu"]
    assert section(config) == expected


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"master_host": "login1", "master_port": 9}, "master_url", "http://login1:9"),
        ({"master_host": "login1"}, "master_url", "http://login1:8080"),
        ({"master_url": "https://w:1"}, "master_url", "https://w:1"),
        ({"container_run_type": "singularity"}, "container_runtime", "singularity"),
        ({"container_run_type": "apptainer"}, "container_runtime", "apptainer"),
        ({"container_run_type": "enroot"}, "container_runtime", "enroot"),
        ({"slot_type": "rocm"}, "slot_type", "rocm"),
        ({"slot_type": "gpu"}, "slot_type", "cuda"),
        ({}, "slot_type", None),
        ({"rendezvous_network_interface": "ib0"}, "rendezvous_network_interface", "ib0"),
        ({"singularity_image_root": "/i"}, "image_root", "/i"),
        ({"apptainer_image_root": "/i"}, "image_root", "/i"),
        ({"job_storage_root": "/j"}, "job_storage_root", "/j"),
        ({"path": "/opt/bin"}, "path", "/opt/bin"),
        ({"ld_library_path": "/opt/lib"}, "ld_library_path", "/opt/lib"),
        ({"gres_supported": False}, "gres_supported", False),
        ({"walltime": "4h"}, "walltime", timedelta(hours=4)),
        ({"account": "team"}, "account", "team"),
        ({"visible_gpus": "all"}, "visible_gpus", "all"),
        ({}, "job_project_source", "project"),
        ({"job_project_source": "workspace"}, "job_project_source", "workspace"),
        ({"job_project_source": "label"}, "job_project_source", "label"),
        ({"job_project_source": "label:pay:"}, "job_project_source", "label:pay:"),
    ],
)
def test_what_is_said_once_holds_for_every_pool(
    tmp_path: Path, given: dict[str, Any], key: str, value: object
) -> None:
    config = loaded(tmp_path, given)
    assert {getattr(section(config, one.name), key) for one in PARTITIONS} == {value}


def test_the_master_is_reached_by_https_if_it_speaks_that(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"master_host": "h"}, security={"tls": {"self_signed": True}})
    assert section(config).master_url == "https://h:8443"


def test_partitions_differ_where_they_are_overridden(tmp_path: Path) -> None:
    """Names in any case of letters."""
    config = loaded(
        tmp_path, PUBLISHED, task_container_defaults={"work_dir": "/home", "startup_hook": "true"}
    )
    big, plain = pool(config, "GPU"), pool(config, "cpu")
    assert (big.section.description, plain.section.description) == ("big nodes", "")
    assert (section(config, "GPU").slot_type, section(config).slot_type) == ("rocm", "cuda")
    assert section(config, "GPU").rendezvous_network_interface == "hsn*"
    assert section(config).rendezvous_network_interface == "ib0"
    assert (big.containers().work_dir, plain.containers().work_dir) == ("/scratch", "/home")
    assert big.containers().startup_hook == "true"


def test_pools_beside_partitions(tmp_path: Path) -> None:
    """One of the same name stands for its partition; hpc is the type of the manager, with its keys."""
    written = [
        {
            "pool_name": "cpu",
            "provider": {"type": "hpc", "partition": "cpu"},
            "fall_back_to": ["cloud"],
        },
        {
            "pool_name": "long",
            "provider": {"type": "hpc", "partition": "GPU"},
            "description": "mine",
            "task_container_defaults": {"startup_hook": "false"},
        },
        {"pool_name": "cloud", "provider": {"type": "embedded"}},
    ]
    config = loaded(tmp_path, PUBLISHED, resource_pools=written)
    assert [one.name for one in config.pools()] == ["GPU", "closed", "cpu", "long", "cloud"]
    assert pool(config, "cpu").fall_back.pools == ("cloud",)
    assert section(config, "long") == section(config, "GPU")
    long = pool(config, "long")
    assert (long.section.description, long.containers().work_dir) == ("mine", "/scratch")
    assert long.containers().startup_hook == "false"


def test_a_provider_of_the_same_system_takes_what_it_does_not_say(tmp_path: Path) -> None:
    """Pilots have walltimes of their own."""
    written = [
        {
            "pool_name": "long",
            "provider": {"type": "slurm", "partition": "GPU", "qos": "long", "account": "mine"},
        },
        {
            "pool_name": "search",
            "providers": [
                {"type": "slurm", "mode": "pilot", "partition": "GPU", "walltimes": ["1h"]},
                {"type": "embedded"},
            ],
        },
        {"pool_name": "both", "provider": {"type": "slurm", "mode": "auto", "partition": "GPU"}},
    ]
    config = loaded(tmp_path, PUBLISHED | {"walltime": "4h"}, resource_pools=written)
    both, on_pilots = section(config, "both"), pool(config, "both-pilots").providers[0]
    assert both is not None
    assert isinstance(on_pilots, SlurmSection)
    assert (both.walltime, on_pilots.walltime) == (timedelta(hours=4), None)
    long, pilot = section(config, "long"), pool(config, "search").providers[0]
    assert isinstance(long, SlurmSection)
    assert isinstance(pilot, SlurmSection)
    assert (long.qos, long.account, long.walltime) == ("long", "mine", timedelta(hours=4))
    assert pilot.walltime is None
    for one in (long, pilot):
        assert (one.path, one.image_root, one.container_runtime) == (
            "/opt/slurm/bin:/opt/tools",
            "/shared/images",
            "podman",
        )
    assert len(pool(config, "search").providers) == 2


@pytest.mark.parametrize(
    ("partitions", "compute", "aux"),
    [
        (PARTITIONS, "GPU", "cpu"),
        ((Partition(name="a", is_default=True), Partition(name="b")), "a", "a"),
        ((Partition(name="a", is_default=True, has_gpus=True),), "a", "a"),
        ((Partition(name="a", has_gpus=True), Partition(name="b")), None, "b"),
    ],
)
def test_work_that_names_no_pool(
    tmp_path: Path, partitions: tuple[Partition, ...], compute: str | None, aux: str
) -> None:
    """Goes to the site's default; without slots to a partition without GPUs."""
    config = loaded(tmp_path, {}, partitions)
    assert (config.default_compute_pool, config.default_aux_pool) == (compute, aux)
    config = loaded(tmp_path, {"default_aux_resource_pool": partitions[0].name}, partitions)
    assert config.default_aux_pool == partitions[0].name


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"singularity_image_root": "/a", "apptainer_image_root": "/b"},
            "singularity_image_root and apptainer_image_root are the same: give one of them",
        ),
        ({"apptainer_image_root": "images"}, '"images" is not an absolute path'),
        ({"job_project_source": "user"}, '"user" is none of project, workspace, label'),
        ({"master_port": 9}, "master_port needs master_host"),
        ({"job_storage_root": "jobs"}, '"jobs" is not an absolute path'),
        ({"slot_type": "tpu"}, "slot_type: value must be one of"),
        ({"container_run_type": "docker"}, "container_run_type: value must be one of"),
        ({"partition_overrides": {"a": {}, "A": {}}}, "has a name twice"),
        ({"schedule": {}}, 'additionalProperties "schedule" not allowed'),
    ],
)
def test_what_a_manager_may_not_say(tmp_path: Path, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfig, match="resource_manager") as caught:
        loaded(tmp_path, given)
    (line,) = caught.value.problems
    assert problem in line


def test_names_of_no_pool_are_refused_when_the_partitions_are_known(tmp_path: Path) -> None:
    written = [{"pool_name": "a", "provider": {"type": "embedded"}, "fall_back_to": ["cpus"]}]
    with pytest.raises(InvalidConfig) as caught:
        loaded(tmp_path, {"default_compute_resource_pool": "gpu"}, resource_pools=written)
    assert caught.value.problems == (
        '<master.yaml>.resource_manager.default_compute_resource_pool: "gpu" is not a resource pool '
        "(there are GPU, closed, cpu, a)",
        '<master.yaml>.resource_pools: fall_back_to of a: "cpus" is not a resource pool '
        "(there are GPU, closed, cpu, a)",
    )


def test_an_override_of_no_partition_is_told(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"partition_overrides": {"gpus": {"slot_type": "cpu"}}})
    assert "partition_overrides.gpus has no effect: there is no such partition" in "".join(
        config.warnings
    )


def test_hpc_needs_such_a_manager(tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text("resource_pools: [{pool_name: a, provider: {type: hpc, partition: x}}]")
    with pytest.raises(InvalidConfig, match="must be of type slurm or pbs"):
        load(file)


def effective(pool: ResolvedPool) -> tuple[object, ...]:
    """Wherever it was written."""
    section = pool.section
    return (
        *(pool.settings, pool.scheduler, pool.task_container_defaults, pool.task_metadata),
        *(pool.providers, pool.batch, pool.fall_back, section.description),
        *(section.max_aux_containers_per_agent, section.agent_reconnect_wait),
        section.require_isolation,
    )


def test_what_is_shown_means_the_same_when_it_is_loaded(tmp_path: Path) -> None:
    config = loaded(tmp_path, PUBLISHED)
    file = tmp_path / "shown.yaml"
    file.write_text(yaml.safe_dump(masked(config)))
    again = load(file).with_partitions(PARTITIONS)
    assert list(map(effective, again.pools())) == list(map(effective, config.pools()))
    assert again.default_compute_pool == config.default_compute_pool
    assert "host" not in masked(config)["resource_manager"]


def test_keys_reach_the_agents_of_a_job(tmp_path: Path) -> None:
    config = loaded(tmp_path, PUBLISHED)
    files = files_of(
        section(config, "GPU"),
        disk=LocalDisk(),
        data_dir=tmp_path,
        master_url="http://m:1",
        master_cert=None,
    )
    assert str(files.root) == "/shared/jobs"
    assert {key: files.agent[key] for key in ("master_url", "network_interface")} == {
        "master_url": "http://login1:8081",
        "network_interface": "hsn*",
    }
    assert files.agent["container_runtime"] == "podman"
    assert files.agent["image_root"] == "/shared/images"
    assert files.agent["image_cache_dir"] == "/shared/jobs/images"
    assert (files.path, files.libraries) == ("/opt/slurm/bin:/opt/tools", "/opt/slurm/lib")
    options = dispatch_options(pool(config, "GPU"))
    shape = shape_of(allocation(1, slots=1), options, None)
    assert (shape.asks_for_gpus, shape.slot_type, shape.queue) == (False, "rocm", "GPU")


def test_users_do_not_share_the_images_that_their_jobs_make(tmp_path: Path) -> None:
    """Who makes an image first would decide what the others run."""
    files = files_of(
        SlurmSection(type="slurm", impersonate="sudo", job_storage_root="/shared/jobs"),
        disk=LocalDisk(),
        data_dir=tmp_path,
        master_url="http://m:1",
        master_cert=None,
    )
    assert "image_cache_dir" not in files.agent


def test_a_pool_of_mode_auto_is_one_of_jobs_and_one_of_pilots(tmp_path: Path) -> None:
    """What is of one side has no effect on the other; who names no pool goes to the first."""
    provider = {"type": "slurm", "mode": "auto", "partition": "GPU", "account": "mine"}
    written = {
        "pool_name": "gpu",
        "provider": {**provider, "walltime": "12h", "walltimes": ["4h", "1h"]},
        "max_instances": 3,
        "fall_back_to": ["cloud"],
    }
    cloud = {"pool_name": "cloud", "provider": {"type": "embedded"}}
    file = tmp_path / "master.yaml"
    file.write_text(yaml.safe_dump({"resource_pools": [written, cloud]}))
    config = load(file)
    assert [one.name for one in config.pools()] == ["gpu", "gpu-pilots", "cloud"]
    jobs, pilots = pool(config, "gpu"), pool(config, "gpu-pilots")
    assert jobs.batch is not None
    assert (jobs.batch.mode, jobs.batch.walltime, jobs.batch.walltimes) == (
        "dispatch",
        timedelta(hours=12),
        (),
    )
    assert (jobs.is_elastic, jobs.fall_back.pools) == (False, ("cloud",))
    (section_,) = pilots.providers
    assert isinstance(section_, SlurmSection)
    assert pilots.batch is None
    assert (section_.mode, section_.walltime, section_.account) == ("pilot", None, "mine")
    assert (pilots.settings.max_instances, pilots.fall_back.pools) == (3, ())
    (side,) = pilot_sides(config).items()
    assert side == ("gpu", PilotSide(pool="gpu-pilots", lasts_s=4 * 3600 * 0.9 - 60))
    assert [one["pool_name"] for one in masked(config)["resource_pools"]] == ["gpu", "cloud"]
    alone = tmp_path / "alone.yaml"
    alone.write_text(
        yaml.safe_dump({"resource_pools": [{"pool_name": "gpu", "provider": provider}]})
    )
    assert load(alone).default_compute_pool == "gpu"
