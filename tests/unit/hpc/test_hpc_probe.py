"""What jobs of `windlass hpc check --probe` found, in words; and that nothing of them is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hpc_world import HOME, facts

from agent_bootstrap.agent.batch.node_probe import NodeReport
from master.hpc.plan import SitePlan, plan_of
from master.hpc.site.probe import Probed, probe, probe_findings
from provisioner.batch.slurm.system import SlurmSystem
from tests.fakes.slurm_commands import FakeSlurm
from windlass.base.checks import Check, CheckStatus
from windlass.base.packages import VERSION

GOOD = NodeReport(
    node="n1",
    python="3.11.7",
    windlass=VERSION,
    kernel="5.14.0",
    gpus=("A100",),
    gpu_notes=(),
    isolation="namespaces",
    isolation_problem="",
    runtimes=("apptainer",),
    ways={"direct": "", "relay": ""},
    scratch="/tmp",
    scratch_free_bytes=10**12,
    scratch_problem="",
)


def found(**changes: Any) -> list[Check]:
    pool = next(pool for pool in plan_of(facts(), uid=1).pools if pool.name == "gpu")
    return list(probe_findings(Probed(pool=pool, report=GOOD.model_copy(update=changes))))


def test_a_good_node() -> None:
    assert [check.status for check in found()] == [CheckStatus.OK] * 5


def test_ways_that_lead_to_the_master_and_why_others_do_not() -> None:
    ways = {"direct": "No route to host", "relay": "", "files": ""}
    (check,) = [one for one in found(ways=ways) if one.name == "gpu: way to the master"]
    assert check.status is CheckStatus.OK
    assert check.found == "by relay, files (not direct: No route to host)"


@pytest.mark.parametrize(
    ("changes", "status", "words", "way_out"),
    [
        ({"gpus": ()}, "failed", "asked for 1 GPU sees none on n1", "nvidia-smi"),
        (
            {"ways": {"direct": "No route to host", "ssh": "Permission denied (publickey)."}},
            "failed",
            "n1 does not reach it (direct: No route to host; ssh: Permission denied (publickey).)",
            "--host",
        ),
        (
            {"isolation": "", "isolation_problem": "no user namespaces"},
            "warning",
            "none on n1: no user namespaces",
            "by apptainer",
        ),
        (
            {"isolation": "", "runtimes": ()},
            "failed",
            "no container runtime is there",
            "ask the site for Apptainer or for user namespaces",
        ),
        (
            {"scratch_problem": "Disk quota exceeded"},
            "failed",
            "/tmp of n1 cannot be written: Disk quota exceeded",
            "`scratch` of master.yaml",
        ),
        ({"scratch_free_bytes": 1024**2}, "warning", "has 1 MiB left", "`scratch` of master.yaml"),
        ({"windlass": "0.0.9"}, "failed", "nodes have Windlass 0.0.9", "install the same one"),
    ],
)
def test_what_a_node_lacks_is_said_with_the_way_out(
    changes: dict[str, Any], status: str, words: str, way_out: str
) -> None:
    (check,) = [check for check in found(**changes) if check.status is not CheckStatus.OK]
    assert check.status == status
    assert words in check.found
    assert way_out in check.advice


def a_plan(tmp_path: Path) -> SitePlan:
    plan = plan_of(facts(address="127.0.0.1"), uid=1)
    gpu = tuple(pool for pool in plan.pools if pool.name == "gpu")
    return replace(plan, shared=replace(HOME, path=str(tmp_path)), pools=gpu)


@pytest.mark.slow
async def test_a_job_that_does_not_start_is_cancelled_with_the_sites_reason(
    tmp_path: Path,
) -> None:
    slurm = FakeSlurm(holds_back=True)
    (probed,) = await probe(SlurmSystem(slurm), a_plan(tmp_path), limit_s=0.0, port=None)
    (check,) = probe_findings(probed)
    assert check.status is CheckStatus.WARNING
    assert "its job has not started: " in check.found
    assert "--probe-timeout" in check.advice
    assert [job.state for job in slurm.jobs.values()] == ["CANCELLED"]
    assert not any(tmp_path.iterdir())  # noqa: ASYNC240 - a test has nothing else to do


@pytest.mark.slow
async def test_a_job_whose_node_does_not_see_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, and neither a report nor a log appears."""
    monkeypatch.setattr("master.hpc.site.probe.VISIBLE_AFTER_S", 0.0)
    monkeypatch.setattr("master.hpc.site.probe.LOOK_S", 0.0)

    class Ending(FakeSlurm):
        async def run(self, words: Any, **settings: Any) -> Any:
            done = await super().run(words, **settings)
            for job in self.jobs.values():
                job.finish("FAILED", 1.0)
            return done

    (probed,) = await probe(SlurmSystem(Ending()), a_plan(tmp_path), limit_s=60, port=1)
    (check,) = probe_findings(probed)
    assert check.status is CheckStatus.FAILED
    assert "its job ended, and nothing of it is seen" in check.found
    assert "same path" in check.advice
