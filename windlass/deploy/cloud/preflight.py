"""What is looked at in the cloud before anything is made. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.deploy.cloud.options import CommonOptions


@dataclass(frozen=True, slots=True)
class Purchase:
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
class Need:
    quota: str
    text: str
    """What needs it."""
    amount: float


def purchases(options: CommonOptions, compute: Purchase) -> list[Purchase]:
    most = options.max_dynamic_agents
    aux = Purchase("aux-pool", options.aux_agent_instance_type, most)
    return [Purchase("the master", options.master_instance_type, 1), aux, compute]


def short_of(needs: Iterable[Need], left: Mapping[str, float]) -> dict[str, str]:
    """By quota: how much there is, and what needs how much. Needs are added up; unknown quotas are left out."""
    by_quota: dict[str, list[Need]] = defaultdict(list)
    for need in needs:
        by_quota[need.quota].append(need)
    return {
        quota: f"{left[quota]:g}, and {' and '.join(each.text for each in wanted)} need {total:g}"
        for quota, wanted in by_quota.items()
        if quota in left and left[quota] < (total := sum(each.amount for each in wanted))
    }
