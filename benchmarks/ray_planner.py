"""Ray's autoscaler (v2) as a function, on the same demand as ours: how long it plans, and for how much an hour.

No Ray cluster is started. Every gang is one GangResourceRequest: all or nothing, as ours.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import NamedTuple

from provisioner.planning.plan_types import MachinePhase, PlanInput


class RayPlan(NamedTuple):
    version: str
    cpu_s: float
    usd_per_hour: float


def ray_plan(state: PlanInput) -> RayPlan | None:
    """None where Ray is not installed (extra `bench`)."""
    try:
        import ray
        from ray.autoscaler.v2.instance_manager.config import NodeTypeConfig
        from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
        from ray.autoscaler.v2.schema import AutoscalerInstance
        from ray.autoscaler.v2.utils import ResourceRequestUtil
        from ray.core.generated.autoscaler_pb2 import GangResourceRequest, NodeState
        from ray.core.generated.instance_manager_pb2 import Instance, NodeKind
    except ImportError:
        return None
    logging.disable(logging.CRITICAL)
    (pool,) = state.pools
    slots = {offer.key.instance_type: offer.slots for offer in pool.offers}
    price: dict[str, float] = {}
    for offer in pool.offers:
        name = offer.key.instance_type
        price[name] = min(offer.usd_per_hour, price.get(name, offer.usd_per_hour))
    types = {
        name: NodeTypeConfig(
            name=name, min_worker_nodes=0, max_worker_nodes=200_000, resources={"GPU": size}
        )
        for name, size in slots.items()
    }
    free = {node.agent_id: node.free_slots for node in pool.demand.nodes}
    instances = []
    for machine in pool.machines:
        kind, up = machine.offer.key.instance_type, machine.phase is MachinePhase.UP
        instance = Instance(
            instance_id=machine.name,
            instance_type=kind,
            node_kind=NodeKind.WORKER,
            status=Instance.RAY_RUNNING if up else Instance.ALLOCATED,
            cloud_instance_id=machine.name,
            node_id=machine.name,
        )
        node = None
        if up:
            node = NodeState(
                node_id=machine.name.encode(),
                instance_id=machine.name,
                ray_node_type_name=kind,
                available_resources={"GPU": free[machine.name]},
                total_resources={"GPU": slots[kind]},
                idle_duration_ms=int((machine.idle_s or 0.0) * 1000),
            )
        instances.append(
            AutoscalerInstance(cloud_instance_id=machine.name, ray_node=node, im_instance=instance)
        )
    gangs = []
    for gang in pool.demand.gangs:
        # A gang over several nodes is so many bundles of 8, the largest type there is.
        bundles = [8] * (gang.slots // 8) + ([gang.slots % 8] if gang.slots % 8 else [])
        requests = [ResourceRequestUtil.make({"GPU": size}) for size in bundles]
        gangs.append(GangResourceRequest(requests=requests, details=gang.request_id))
    request = SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs=types,
        max_num_nodes=200_000,
        idle_timeout_s=300,
        current_instances=instances,
        gang_resource_requests=gangs,
    )
    began = time.process_time()
    reply = ResourceDemandScheduler().schedule(request)
    cpu_s = time.process_time() - began
    bought = Counter({launch.instance_type: launch.count for launch in reply.to_launch})
    return RayPlan(ray.__version__, cpu_s, sum(price[name] * n for name, n in bought.items()))
