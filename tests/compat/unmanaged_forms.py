"""The other forms of `core_v2`, for processes of the published package: RANK of SIZE processes, or one that fails."""

import os
import sys
import warnings

from determined.experimental import core_v2

MANUAL = core_v2.TensorboardMode.MANUAL


def ranks() -> None:
    """Of one trial: only the chief reports, all of them log and write."""
    rank, size = int(os.environ["RANK"]), int(os.environ["SIZE"])
    distributed = core_v2.DistributedContext(
        rank=rank,
        size=size,
        local_rank=rank,
        local_size=size,
        cross_rank=0,
        cross_size=1,
        chief_ip="127.0.0.1",
        port_offset=int(os.environ["PORT_OFFSET"]),
    )
    config = core_v2.Config(
        name="ranks", external_experiment_id="ranks", checkpoint_storage="saved"
    )
    with core_v2.init_context(
        config=config, distributed=distributed, tensorboard_mode=MANUAL
    ) as context:
        print(f"rank {rank} here")
        if rank == 0:
            context.train.report_training_metrics(steps_completed=1, metrics={"loss": 1.0})
        with context.checkpoint.store_path({"steps_completed": 1}, shard=True) as (path, _):
            (path / f"shard-{rank}").write_text("x")


def failing() -> None:
    """By the deprecated names, without external ids."""
    warnings.simplefilter("ignore")
    core_v2.init(defaults=core_v2.DefaultConfig(name="failing"), tensorboard_mode=MANUAL)
    sys.exit(3)


if __name__ == "__main__":
    {"ranks": ranks, "failing": failing}[sys.argv[1]]()
