"""Queues and nodes, as `qstat -Q -f` and `pbsnodes -av` tell of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provisioner.batch.base import Queue
from provisioner.batch.pbs.text import Record, duration_s, mib, number

_OUT = frozenset(
    {"offline", "down", "unknown", "state-unknown", "stale", "provisioning", "maintenance", "sleep"}
)
_BUSY = frozenset({"job-busy", "job-exclusive", "resv-exclusive", "busy"})
EXECUTION = "Execution"


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsNode:
    """One host: the sum of its vnodes."""

    name: str
    queues: frozenset[str]
    """Empty: every queue that names none."""
    gpus: int
    cpus: int
    memory_mib: int
    is_up: bool
    is_idle: bool


def nodes_of(vnodes: Mapping[str, Record]) -> list[PbsNode]:
    """A host whose natural vnode has nothing has it in others."""
    by_host: dict[str, list[Record]] = {}
    for name, record in vnodes.items():
        if "state" in record:
            host = record.get("resources_available.host") or record.get("Mom") or name
            by_host.setdefault(host, []).append(record)
    return [_node(host, records) for host, records in by_host.items()]


def queues_of(
    queues: Mapping[str, Record], nodes: Sequence[PbsNode], *, default: str = ""
) -> dict[str, Queue]:
    """Routing queues have no nodes and no limits of their own."""
    return {name: _queue(name, record, nodes, default) for name, record in queues.items()}


def _node(host: str, vnodes: Sequence[Record]) -> PbsNode:
    states = frozenset(word for one in vnodes for word in one["state"].replace(" ", "").split(","))
    taken = any(one.get("jobs") for one in vnodes)
    queues = {one["queue"] for one in vnodes if one.get("queue")}
    is_up = not states & _OUT
    return PbsNode(
        name=host,
        queues=frozenset(queues),
        gpus=sum(_amount(one, "ngpus") for one in vnodes),
        cpus=sum(_amount(one, "ncpus") for one in vnodes),
        memory_mib=sum(mib(one.get("resources_available.mem", "")) or 0 for one in vnodes),
        is_up=is_up,
        is_idle=is_up and not taken and not states & _BUSY,
    )


def _queue(name: str, record: Record, nodes: Sequence[PbsNode], default: str) -> Queue:
    own = [node for node in nodes if name in node.queues]
    mine = own or [node for node in nodes if not node.queues]
    counts = Counter(node.gpus for node in mine if node.gpus)
    is_routing = record.get("queue_type", EXECUTION) not in (EXECUTION, "E", "e")
    return Queue(
        name=name,
        is_default=name == default,
        is_open=_is_true(record, "enabled") and _is_true(record, "started"),
        nodes=len(mine),
        idle_nodes=0 if is_routing else sum(node.is_idle for node in mine),
        gpus_per_node=max(counts, key=lambda n: (counts[n], n), default=0),
        cpus_per_node=min((node.cpus for node in mine), default=1) or 1,
        memory_mib_per_node=min((node.memory_mib for node in mine), default=0) or None,
        max_nodes=number(record.get("resources_max.nodect", "")),
        max_walltime_s=duration_s(record.get("resources_max.walltime", "")),
        default_walltime_s=duration_s(record.get("resources_default.walltime", "")),
    )


def _amount(vnode: Record, resource: str) -> int:
    return number(vnode.get(f"resources_available.{resource}", "")) or 0


def _is_true(record: Record, key: str) -> bool:
    return record.get(key, "True").lower() == "true"
