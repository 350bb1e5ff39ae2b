"""Resource pools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from master.api.agents.wire import device_type
from master.api.enums import FittingPolicy, PoolType, SchedulerType
from master.api.resource_pools.clouds import aws_detail, gcp_detail
from master.api.resource_pools.replies import ResourcePool
from master.config import ResolvedPool
from master.core.scheduler.types import SchedulerSettings
from provisioner.types import Market, Offer
from rm_backends.views import PoolView

_TYPES = {"aws": PoolType.AWS, "gcp": PoolType.GCP}
_QUEUES = {
    "slurm": SchedulerType.SLURM,
    "pbs": SchedulerType.PBS,
    "kubernetes": SchedulerType.KUBERNETES,
}
_FITTING = {
    "slurm": FittingPolicy.SLURM,
    "pbs": FittingPolicy.PBS,
    "kubernetes": FittingPolicy.KUBERNETES,
}
"""By types of pools where others decide what starts on which nodes."""


def resource_pool(
    view: PoolView,
    config: ResolvedPool | None,
    sold: Sequence[Offer],
    *,
    cluster_name: str,
    default_compute: bool,
    default_aux: bool,
) -> ResourcePool:
    settings = view.settings or SchedulerSettings()
    planned = None if config is None else config.settings
    # Pilots are jobs, too, but machines on which we schedule.
    queue = "" if config is not None and config.is_elastic else view.type
    return {
        "name": view.name,
        "description": view.description,
        "type": _TYPES.get(view.type, PoolType.STATIC),
        "numAgents": view.agents,
        "slotsAvailable": view.slots,
        "slotsUsed": view.slots_used,
        "slotType": device_type(view.slot_kind),
        "accelerator": view.slot_brand,
        "slotsPerAgent": _slots_per_agent(view, sold),
        "auxContainerCapacity": view.aux_capacity,
        "auxContainersRunning": view.aux_running,
        "auxContainerCapacityPerAgent": config.section.max_aux_containers_per_agent
        if config
        else 0,
        "defaultComputePool": default_compute,
        "defaultAuxPool": default_aux,
        "preemptible": any(offer.key.market is Market.SPOT for offer in sold),
        "minAgents": planned.min_instances if planned else 0,
        "maxAgents": planned.max_instances if planned else 0,
        "maxIdleAgentPeriod": planned.max_idle_s if planned and planned.max_instances else 0,
        "maxAgentStartingPeriod": planned.max_starting_s or 0 if planned else 0,
        "location": _location(view, sold),
        "clusterName": cluster_name,
        "resourceManagerName": "default",
        "resourceManagerMetadata": {},
        "schedulerType": _QUEUES.get(queue) or _scheduler_type(view),
        "schedulerFittingPolicy": _FITTING.get(queue)
        or FittingPolicy[settings.fitting_policy.upper()],
        "details": {
            "aws": aws_detail(config),
            "gcp": gcp_detail(config),
            "priorityScheduler": {
                "preemption": bool(settings.preemption),
                "defaultPriority": settings.usual_priority,
                "k8Priorities": [],
            },
        },
        "imageId": _each(offer.image for offer in sold),
        "instanceType": _each(offer.key.instance_type for offer in sold),
        "masterUrl": "",
        "masterCertName": "",
        "startupScript": "",
        "containerStartupScript": "",
        "agentDockerNetwork": "",
        "agentDockerRuntime": "",
        "agentDockerImage": "",
        "agentFluentImage": "",
    }


def _slots_per_agent(view: PoolView, sold: Sequence[Offer]) -> int:
    sizes = {offer.slots for offer in sold}
    if view.slots_per_agent is None and not view.agents and len(sizes) == 1:
        return sizes.pop()
    return -1 if view.slots_per_agent is None else view.slots_per_agent


def _location(view: PoolView, sold: Sequence[Offer]) -> str:
    """Of clouds the regions."""
    regions = _each(offer.key.region for offer in sold) if view.type in _TYPES else ""
    return regions or ("cloud" if view.dynamic else "on-prem")


def _each(words: Iterable[str]) -> str:
    """In the order of what may be bought, each once; the published page shows only one."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def _scheduler_type(view: PoolView) -> SchedulerType:
    return SchedulerType[view.settings.type.upper()] if view.settings else SchedulerType.UNSPECIFIED
