"""A rank: finds the others by the published Core API, and says where it runs."""

import os
import sys
from collections.abc import Callable

import determined
from determined import core


class Horovod:
    """The functions of its module."""

    def __getattr__(self, name: str) -> Callable[[], int]:
        return lambda: int(os.environ[f"HOROVOD_{name.upper()}"])


def ranks_of(launcher: str) -> core.DistributedContext:
    if launcher == "horovod":
        return core.DistributedContext.from_horovod(Horovod())
    if launcher == "deepspeed":
        return core.DistributedContext.from_deepspeed()
    return core.DistributedContext.from_torch_distributed()


def main(launcher: str) -> None:
    ranks = ranks_of(launcher)
    manual = core.TensorboardMode.MANUAL
    with core.init(distributed=ranks, tensorboard_mode=manual) as context:
        where = determined.get_cluster_info().agent_id
        nodes = ranks.allgather(where)
        print(f"{launcher}: rank {ranks.rank} of {ranks.size} on {where}, all: {nodes}", flush=True)
        if ranks.rank == 0:
            context.train.report_validation_metrics(len(launcher), {"loss": float(len(nodes))})


if __name__ == "__main__":
    main(sys.argv[1])
