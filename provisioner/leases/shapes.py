"""What a job of a pool asks its site for. Pure."""

from __future__ import annotations

from provisioner.batch.base import Queue
from provisioner.batch.job_files import JobShape
from provisioner.sections.batch import BatchSection


def job_shape(section: BatchSection, queue: Queue | None, nodes: int, slots: int) -> JobShape:
    """Of so many nodes, with so many slots on each, which may be 0. Without a time limit."""
    slot_type = section.slot_type_in(queue)
    gpus, share = slot_type != "cpu", max(1, slots)
    cpus, memory = section.cpus_per_slot or (None if gpus else 1), section.memory_mib_per_slot
    return JobShape(
        system=section.type,
        queue=section.where or ("" if queue is None else queue.name),
        nodes=nodes,
        slots_per_node=slots,
        gpus_per_node=slots if gpus else 0,
        slot_type=slot_type,
        gpu_type=section.gpu_type if gpus else "",
        asks_for_gpus=section.gres_supported,
        cpus_per_node=None if cpus is None else cpus * share,
        memory_mib_per_node=None if memory is None else memory * share,
        arguments=section.all_arguments,
    )
