"""`windlass hpc` on PBS, by recordings of OpenPBS 23.06."""

from __future__ import annotations

from pathlib import Path

from master.config import load
from master.hpc.master_yaml import master_yaml
from master.hpc.plan import plan_of
from master.hpc.site.findings import findings
from master.hpc.site.gather import GivenPlaces, gather
from provisioner.sections.batch import PbsSection
from tests.pbs import running_pbs
from windlass.base.checks import CheckStatus


async def test_what_is_found_becomes_a_pool_for_each_queue(tmp_path: Path) -> None:
    with running_pbs(tmp_path / "pbs") as pbs:
        where = GivenPlaces(shared=tmp_path / "shared", data=tmp_path / "data", path=pbs.path)
        facts = await gather(where)
        assert pbs.unrecorded == []
    assert (facts.system, facts.system_problem) == ("pbs", "")
    plan = plan_of(facts, uid=1000, path=pbs.path)
    assert not [check for check in findings(facts, plan) if check.status is CheckStatus.FAILED]
    file = tmp_path / "master.yaml"
    file.write_text(master_yaml(plan, 21000))
    sections = {pool.name: pool.batch for pool in load(file).pools()}
    assert sections.keys() == {pool.name for pool in plan.pools}
    assert all(isinstance(one, PbsSection) for one in sections.values())
    assert {one.queue for one in sections.values() if one} <= facts.site.queues.keys()
    gpus = [pool for pool in plan.pools if pool.is_gpu]
    assert gpus
    assert plan.default_pool in {pool.name for pool in gpus}
