"""Partitions and nodes as queues, and how `scontrol show ... -o` tells of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from provisioner.batch.base import Queue
from provisioner.batch.slurm.text import (
    UNLIMITED,
    gpus,
    limit_s,
    node_state,
    records,
)

_OUT = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "NOT_RESPONDING", "FUTURE"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    name: str
    partitions: tuple[str, ...]
    gpus: Mapping[str, int]
    cpus: int
    memory_mib: int
    is_idle: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPartition:
    """As the site tells of it."""

    name: str
    is_default: bool = False
    is_open: bool = True
    nodes: int | None = None
    """None: those that name it."""
    max_nodes: int | None = None
    max_walltime_s: float | None = None
    default_walltime_s: float | None = None


def nodes_of(text: str) -> list[SlurmNode]:
    """Of `scontrol show node -o`."""
    return [
        SlurmNode(
            name=record["NodeName"],
            partitions=tuple(filter(None, record.get("Partitions", "").split(","))),
            gpus=gpus(record.get("Gres", "")),
            cpus=_number(record.get("CPUTot", "")) or 1,
            memory_mib=_number(record.get("RealMemory", "")) or 0,
            is_idle=is_idle(node_state(record.get("State", ""))),
        )
        for record in records(text)
        if record.get("NodeName")
    ]


def partitions_of(text: str) -> list[SlurmPartition]:
    """Of `scontrol show partition -o`."""
    return [
        SlurmPartition(
            name=record["PartitionName"],
            is_default=record.get("Default") == "YES",
            is_open=record.get("State", "UP") == "UP",
            nodes=_number(record.get("TotalNodes", "")),
            max_nodes=_number(record.get("MaxNodes", "")),
            max_walltime_s=_limit(record.get("MaxTime", "")),
            default_walltime_s=_limit(record.get("DefaultTime", "")),
        )
        for record in records(text)
        if record.get("PartitionName")
    ]


def queues_of(partitions: Iterable[SlurmPartition], nodes: Sequence[SlurmNode]) -> dict[str, Queue]:
    """Nodes that are powered down may be missing from `nodes`."""
    return {partition.name: _queue(partition, nodes) for partition in partitions}


def _queue(partition: SlurmPartition, nodes: Sequence[SlurmNode]) -> Queue:
    mine = [node for node in nodes if partition.name in node.partitions]
    counts = Counter(sum(node.gpus.values()) for node in mine)
    counts.pop(0, None)
    return Queue(
        name=partition.name,
        is_default=partition.is_default,
        is_open=partition.is_open,
        nodes=partition.nodes or len(mine),
        idle_nodes=sum(node.is_idle for node in mine),
        gpus_per_node=_most_common(counts),
        gpu_types=frozenset(type_ for node in mine for type_ in node.gpus if type_),
        cpus_per_node=min((node.cpus for node in mine), default=1),
        memory_mib_per_node=min((node.memory_mib for node in mine), default=0) or None,
        max_nodes=partition.max_nodes,
        max_walltime_s=partition.max_walltime_s,
        default_walltime_s=partition.default_walltime_s,
    )


def is_idle(words: Set[str]) -> bool:
    """By the words of a node's state, upper case."""
    return "IDLE" in words and not words & _OUT


def _most_common(counts: Counter[int]) -> int:
    """Of several, the largest."""
    return max(counts, key=lambda number: (counts[number], number), default=0)


def _limit(text: str) -> float | None:
    return None if text == UNLIMITED else limit_s(text)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
