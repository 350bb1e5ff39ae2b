"""What a configuration says to batch systems, as requests carry it."""

from __future__ import annotations

from collections.abc import Iterator

from master.core.expconf.models.sections import Pbs, Slurm
from provisioner.batch.pbs.arguments import without_effect
from rm_backends.base import BatchOptions, JobOptions


def batch_options(slurm: Slurm, pbs: Pbs) -> BatchOptions:
    return BatchOptions(
        slurm=JobOptions(
            slots_per_node=slurm.slots_per_node,
            gpu_type=slurm.gpu_type or "",
            arguments=slurm.sbatch_args,
        ),
        pbs=JobOptions(slots_per_node=pbs.slots_per_node, arguments=pbs.pbsbatch_args),
    )


def arguments_without_effect(pbs: Pbs) -> Iterator[str]:
    """One sentence for each."""
    return (f"pbs.pbsbatch_args: {line}" for line in without_effect(pbs.pbsbatch_args))
