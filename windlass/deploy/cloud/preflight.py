"""What is looked at in the cloud before anything is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.base.formats.plurals import counted
from windlass.deploy.cloud.machines import ClusterMachines
from windlass.deploy.cloud.options import CommonOptions


@dataclass(frozen=True, slots=True)
class MachinesAtOnce:
    """Machines that the cluster may have at once."""

    whose: str
    machine_type: str
    count: int
    spot: bool = False
    gpu: str = ""
    gpus: int = 0
    """Added to each machine."""

    @property
    def text(self) -> str:
        return f"{self.count} x {self.machine_type} of {self.whose}"


@dataclass(frozen=True, slots=True)
class QuotaNeed:
    quota: str
    text: str
    """What needs it."""
    amount: float


def purchases(options: CommonOptions, compute: MachinesAtOnce) -> list[MachinesAtOnce]:
    most = options.max_dynamic_agents
    aux = MachinesAtOnce("aux-pool", options.aux_agent_instance_type, most)
    return [MachinesAtOnce("the master", options.master_instance_type, 1), aux, compute]


def short_of(needs: Iterable[QuotaNeed], left: Mapping[str, float]) -> dict[str, str]:
    """By quota: how much there is, and what needs how much. Needs are added up; unknown quotas are left out."""
    by_quota: dict[str, list[QuotaNeed]] = defaultdict(list)
    for need in needs:
        by_quota[need.quota].append(need)
    return {
        quota: f"{left[quota]:g}, and {' and '.join(each.text for each in wanted)} need {total:g}"
        for quota, wanted in by_quota.items()
        if quota in left and left[quota] < (total := sum(each.amount for each in wanted))
    }


def taken(
    cluster_id: str, machines: ClusterMachines, *, where: str, bucket_option: str
) -> list[str]:
    """Why a cluster whose state is nowhere here is not a new one. Raises ProviderError where the cloud cannot be asked.

    A second state of one name would fail on the names of the first, and its `down` would end the machines of the first.
    """
    found = [f"master {address}" for address in machines.masters()]
    if listed := machines.listed():
        found.append(f"{counted(len(listed), 'machine')} of pools")
    if not found:
        return []
    return [
        f"{cluster_id} runs in {where} already ({', '.join(found)}), and its state is not here: name the bucket or "
        f"folder of its state ({bucket_option}, --local-state-path), choose another --cluster-id, or run down where "
        "its state is"
    ]
