"""What a configuration says to batch systems, as requests carry it."""

from __future__ import annotations

from master.core.expconf.sections import Slurm
from rm_backends.base import BatchOptions


def batch_options(section: Slurm) -> BatchOptions:
    return BatchOptions(
        slots_per_node=section.slots_per_node,
        gpu_type=section.gpu_type or "",
        arguments=section.sbatch_args,
    )
