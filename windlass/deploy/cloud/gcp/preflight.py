"""What Google is asked before a cluster is made: whether quotas of the region are large enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.session import GcpSession
from windlass.deploy.cloud.preflight import MachinesAtOnce, QuotaNeed, purchases, short_of
from windlass.deploy.cloud.tables import loaded


def gcp_problems(
    options: GcpOptions, *, is_new: bool, regions: Any = None, machine_types: Any = None
) -> list[str]:
    """Each with its way out. Of a cluster that is there its own use is not counted. The clients: for tests.

    Raises ProviderError where Google cannot be asked.
    """
    google = GcpSession(keypath=options.keypath)
    quota_of = loaded("quotas", "gcp")
    with google.doing("ask for quotas"):
        project, region = options.project_id, options.region
        found = (regions or google.regions()).get(project=project, region=region)
        limits = {quota.metric: float(quota.limit) for quota in found.quotas}
        used = {quota.metric: float(quota.usage) if is_new else 0.0 for quota in found.quotas}
        types = machine_types or google.machine_types()
        needs = []
        for each in _wanted(options):
            if each.gpus:
                metric = quota_of(each.machine_type, each.gpu, limits, each.spot)
                needs.append(QuotaNeed(metric, each.text, each.count * each.gpus))
            cpus = types.get(
                project=project, zone=options.effective_zone, machine_type=each.machine_type
            ).guest_cpus
            metric = quota_of(each.machine_type, "", limits, each.spot)
            needs.append(QuotaNeed(metric, each.text, each.count * cpus))
    left = {metric: limit - used[metric] for metric, limit in limits.items()}
    return [
        f"the quota {metric} of {region} has {why}: ask for more at "
        f"https://console.cloud.google.com/iam-admin/quotas?project={project}, or lower --max-dynamic-agents"
        for metric, why in short_of(needs, left).items()
    ]


def _wanted(options: GcpOptions) -> Iterator[MachinesAtOnce]:
    compute = MachinesAtOnce(
        "compute-pool",
        options.compute_agent_instance_type,
        options.max_dynamic_agents,
        spot=options.preemptible,
        gpu=options.gpu_type,
        gpus=options.gpu_num,
    )
    yield from purchases(options, compute)
