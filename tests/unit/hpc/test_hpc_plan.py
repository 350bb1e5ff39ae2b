"""What `windlass hpc` makes of a site: folders, pools, and a master.yaml that our own models take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hpc_world import CPU, DISK, GPU, HOME, facts

from master.config import load
from master.hpc.master_yaml import master_yaml
from master.hpc.plan import SitePlan, plan_of
from master.hpc.site.facts import Association
from master.hpc.site.findings import findings
from provisioner.batch.base import SiteFacts
from provisioner.sections.batch import PbsSection, SlurmSection
from windlass.base.checks import Check, CheckStatus


def planned(account: str = "", **changes: Any) -> SitePlan:
    return plan_of(facts(**changes), uid=1000, account=account)


def config_of(tmp_path: Path, plan: SitePlan) -> Any:
    file = tmp_path / "master.yaml"
    file.write_text(master_yaml(plan, 21000))
    return load(file)


def failed(**changes: Any) -> list[Check]:
    found = facts(**changes)
    checks = findings(found, plan_of(found, uid=1000))
    assert all(check.advice for check in checks if check.status is not CheckStatus.OK)
    return [check for check in checks if check.status is not CheckStatus.OK]


def test_each_partition_is_a_pool_with_its_share_of_a_node(tmp_path: Path) -> None:
    accounts = (
        Association(name="physics", qos=("normal", "high"), max_submit=20, is_default=True),
    )
    config = config_of(tmp_path, planned(accounts=accounts))
    pools = {pool.name: pool.batch for pool in config.pools()}
    gpu, short, cpu = pools["gpu"], pools["short"], pools["cpu"]
    assert isinstance(gpu, SlurmSection)
    assert (gpu.partition, gpu.cpus_per_slot, gpu.max_queued) == ("gpu", 16, 20)
    assert gpu.memory_per_slot == 121_600 * 1024**2
    assert gpu.walltime is not None
    assert gpu.walltime.total_seconds() == 4 * 3600
    assert short.walltime is None, "the partition has a default"
    assert (cpu.slots_per_node, cpu.cpus_per_slot) == (48, None)
    assert config.default_compute_pool == "gpu"
    assert config.default_aux_pool == "cpu"
    assert config.checkpoint_storage.host_path == "/home/me/windlass/checkpoints"
    assert (config.host, config.port) == ("10.0.0.5", 21000)
    assert config.security.tls.self_signed
    assert not config.warnings


def test_names_that_yaml_would_take_for_something_else_are_quoted(tmp_path: Path) -> None:
    queues = {name: replace(CPU, name=name) for name in ("yes", "123", "a: b", "on")}
    config = config_of(tmp_path, planned(site=SiteFacts(queues=queues)))
    assert {pool.batch.partition for pool in config.pools()} == set(queues)


def test_a_pbs_site(tmp_path: Path) -> None:
    config = config_of(tmp_path, planned(account="team", system="pbs"))
    section = config.pools()[0].batch
    assert isinstance(section, PbsSection)
    assert (section.queue, section.account) == ("cpu", "team")


def test_queues_that_do_not_take_our_jobs_are_left_out_with_the_reason(tmp_path: Path) -> None:
    queues = {
        "gpu": GPU,
        "down": replace(GPU, name="down", is_open=False),
        "empty": replace(GPU, name="empty", nodes=0),
        "staff": replace(GPU, name="staff"),
    }
    plan = planned(
        site=SiteFacts(queues=queues), closed_to_us={"staff": "it is for the groups staff"}
    )
    assert [pool.name for pool in plan.pools] == ["gpu"]
    assert "# staff: left out, it is for the groups staff" in master_yaml(plan, 1)
    config_of(tmp_path, plan)


def test_the_database_is_never_put_on_a_network_file_system_unasked() -> None:
    lustre = replace(HOME, file_system="lustre", origin="--data-dir", has_locks=True)
    memory = replace(DISK, file_system="tmpfs", path="/tmp/windlass-1000")
    assert planned().data == DISK
    assert planned(local=(HOME, memory)).data == memory
    assert planned(local=(memory, DISK)).data == DISK
    assert planned(local=(HOME,)).data is None
    assert planned(local=(replace(DISK, other_owner=True),)).data is None
    assert planned(local=(lustre,)).data == lustre
    assert planned(local=(replace(lustre, has_locks=False),)).data is None


def test_our_files_go_where_nodes_see_them() -> None:
    work = replace(HOME, path="/work/me/windlass", origin="$WORK")
    own_disk = replace(HOME, file_system="ext4")
    full = replace(HOME, problem="your quota on /home/me is used up")
    assert planned(shared=(own_disk, work)).shared == work
    assert planned(shared=(full, work)).shared == work
    assert planned(shared=(own_disk,)).shared is None
    assert planned(shared=(own_disk,), is_only_machine=True).shared == own_disk
    named = replace(own_disk, origin="--dir")
    assert planned(shared=(named,)).shared == named


def test_a_good_site_has_nothing_to_be_mended() -> None:
    assert failed() == []


@pytest.mark.parametrize(
    ("changes", "status", "words", "way_out"),
    [
        ({"system": ""}, "failed", "neither sbatch nor qsub", "--ssh user@login"),
        (
            {"system_problem": "squeue did not end within 60 s"},
            "failed",
            "Slurm does not answer: squeue",
            "is up",
        ),
        (
            {"site": SiteFacts(version="21.08.8-2", queues={"gpu": GPU})},
            "warning",
            "Slurm 21.08.8-2 is older than what Windlass was tried with (22.05)",
            "check --probe",
        ),
        (
            {"system": "pbs", "site": SiteFacts(version="2022.1.1.2022", queues={"gpu": GPU})},
            "warning",
            "PBS 2022.1.1.2022 is older than what Windlass was tried with (23.06)",
            "check --probe",
        ),
        (
            {"site": SiteFacts(version="22.05.8", queues={"gpu": GPU}, accounts={})},
            "failed",
            "me has no account, and the site takes no jobs without one",
            "sacctmgr show assoc user=me",
        ),
        (
            {"address": "10.9.9.9", "address_problem": "Cannot assign requested address"},
            "failed",
            "10.9.9.9 is no address of login1 (Cannot assign requested address)",
            "--host",
        ),
        (
            {"site": SiteFacts(queues={"gpu": replace(GPU, is_open=False)})},
            "failed",
            "no partition takes your jobs (gpu: it is closed by the site)",
            "sbatch --wrap hostname",
        ),
        (
            {"shared": (replace(HOME, file_system="ext4"),)},
            "failed",
            "/home/me/windlass (ext4) is a disk of this machine alone",
            "--dir",
        ),
        (
            {"shared": (replace(HOME, problem="your quota on /home/me is used up"),)},
            "failed",
            "your quota on /home/me is used up",
            "free some space",
        ),
        (
            {"shared": (replace(HOME, other_owner=True),)},
            "failed",
            "may be written by others",
            "--dir",
        ),
        (
            {"shared": (replace(HOME, file_system="ext4", origin="--dir"),)},
            "warning",
            "looks like a disk of this machine alone",
            "check --probe",
        ),
        (
            {"shared": (replace(HOME, free_bytes=10**6),)},
            "warning",
            "has only 0 MiB left",
            "checkpoints need disk space",
        ),
        (
            {"shared": (replace(HOME, others_enter=True),)},
            "warning",
            "others may look into /home/me/windlass",
            "chmod go-rwx /home/me/windlass",
        ),
        (
            {"shared": (replace(HOME, origin="$SCRATCH"),)},
            "warning",
            "scratch space",
            "det checkpoint download",
        ),
        (
            {"local": (replace(HOME, has_locks=False), replace(DISK, problem="no space"))},
            "failed",
            "/home/me/windlass (nfs4) has no file locks; no space",
            "--as-job",
        ),
        (
            {"local": (replace(DISK, file_system="tmpfs"),)},
            "warning",
            "a reboot of login1 loses experiments",
            "--data-dir",
        ),
        (
            {"local": (replace(HOME, origin="--data-dir"),)},
            "warning",
            "is a network file system",
            "windlass master backup",
        ),
        (
            {"address": "", "address_problem": "login1: unknown"},
            "failed",
            "no address",
            "--host",
        ),
        ({"address": "127.0.1.1"}, "warning", "as 127.0.1.1 only", "--host"),
        ({"python_folder": DISK}, "warning", "nodes may not see it", "--probe"),
        (
            {"isolation": "", "isolation_problem": "user namespaces are off"},
            "warning",
            "user namespaces are off",
            "user namespaces or Apptainer",
        ),
        (
            {"isolation": "", "runtimes": {"apptainer": "/usr/bin/apptainer"}},
            "warning",
            "none on login1 (kernel 4.18.0)",
            "environment.image; apptainer is installed",
        ),
        (
            {"ends_processes": "a process may use 30 minutes of CPU on this machine (ulimit -t)"},
            "warning",
            "30 minutes of CPU",
            "hpc up --as-job",
        ),
    ],
)
def test_what_stands_against_a_site_is_said_with_the_way_out(
    changes: dict[str, Any], status: str, words: str, way_out: str
) -> None:
    (check,) = failed(**changes)
    assert check.status == status
    assert words in check.found
    assert way_out in check.advice


@pytest.mark.parametrize("version", ["", "unknown", "22.05.8", "25.11.0-0rc1"])
def test_releases_that_were_tried_or_cannot_be_read_are_not_warned_of(version: str) -> None:
    assert failed(site=SiteFacts(version=version, queues={"gpu": GPU})) == []


def test_a_single_node_is_one(tmp_path: Path) -> None:
    site = SiteFacts(queues={"gpu": replace(GPU, nodes=1)})
    found = facts(site=site)
    told = findings(found, plan_of(found, uid=1))
    assert "1 node of 4 GPUs" in next(one for one in told if one.name == "partition gpu").found
    assert "# 1 node of 4 GPUs;" in master_yaml(planned(site=site), 21000)


def test_limits_of_the_account_and_its_qos_are_told() -> None:
    mine = Association(name="physics", qos=("normal", "long"), limits=("4 running jobs",))
    limits = {"long": ("gres/gpu=2 for a user",), "others": ("1 running jobs of a user",)}
    found = facts(accounts=(mine,), qos_limits=limits)
    (told,) = [one for one in findings(found, plan_of(found, uid=1)) if one.name == "limits"]
    assert told.found == "account physics: 4 running jobs; QOS long: gres/gpu=2 for a user"
    free = facts(accounts=(Association(name="physics"),))
    assert not [one for one in findings(free, plan_of(free, uid=1)) if one.name == "limits"]


def test_an_account_that_is_not_the_users() -> None:
    found = facts(accounts=(Association(name="physics"), Association(name="biology")))
    (check,) = [
        check
        for check in findings(found, plan_of(found, uid=1, account="chemistry"))
        if check.status is not CheckStatus.OK
    ]
    assert "chemistry is not an account of me" in check.found
    assert "physics, biology" in check.advice


def test_a_time_that_holds_no_checkpoint_is_told_with_what_would() -> None:
    debug = replace(GPU, name="debug", max_walltime_s=120.0)
    site = SiteFacts(queues={"debug": debug, "gpu": GPU})
    found = {check.name: check for check in findings(facts(site=site), planned(site=site))}
    assert found["partition gpu"].status is CheckStatus.OK
    check = found["partition debug"]
    assert check.status is CheckStatus.WARNING
    assert check.found.endswith("a job gets 2m")
    assert check.advice.startswith("give jobs at least 3m (walltime in master.yaml)")
