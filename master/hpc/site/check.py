"""`windlass hpc check`: the doctor of a site."""

from __future__ import annotations

import os
from itertools import chain
from urllib.parse import urlsplit

from master.checks.site import site_checks
from master.config import load
from master.hpc.place import find_place
from master.hpc.plan import SitePlan, plan_of
from master.hpc.private import answers
from master.hpc.site.findings import findings
from master.hpc.site.gather import GivenPlaces, batch_system, gather
from master.hpc.site.probe import probe, probe_findings
from provisioner.batch.commands import LocalCommands
from windlass.base.checks import Check, CheckStatus
from windlass.base.errors import InvalidConfig


async def checks_of(
    where: GivenPlaces, *, account: str, probe_limit_s: float | None
) -> list[Check]:
    """`probe_limit_s`: how long to wait for a job in each queue; None: no jobs."""
    facts = await gather(where)
    plan = plan_of(facts, uid=os.geteuid(), account=account, path=where.path)
    found = [*findings(facts, plan), *await _of_master(where)]
    if probe_limit_s is None or any(check.status is CheckStatus.FAILED for check in found):
        return found
    system = batch_system(plan.system, LocalCommands(path=plan.path))
    probed = await probe(system, plan, limit_s=probe_limit_s, port=_port(where, plan))
    return [*found, *chain.from_iterable(map(probe_findings, probed))]


async def _of_master(where: GivenPlaces) -> list[Check]:
    """What the master.yaml of our master needs, if there is one."""
    known = find_place(where.shared)
    if known is None or not known[0].master_yaml.exists():
        return []
    try:
        config = load(known[0].master_yaml)
    except InvalidConfig as error:
        advice = f"windlass master config --config-file {known[0].master_yaml} names every problem"
        return [
            Check(
                name="master.yaml",
                status=CheckStatus.FAILED,
                found=error.problems[0],
                advice=advice,
            )
        ]
    return await site_checks(config)


def _port(where: GivenPlaces, plan: SitePlan) -> int | None:
    """Of our master, if it runs at that address."""
    if (known := find_place(where.shared)) is None or not answers(known[1]):
        return None
    at = urlsplit(known[1].url)
    return at.port if at.hostname == plan.address else None
