"""The Core API with torch's own DistributedDataParallel over gloo: ranks agree on a sum, and each says who it is.

Started by torch's launcher, or with the word "deepspeed" by DeepSpeed's.
"""

import sys

import torch
import torch.distributed
from determined import core
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 5


def main(launcher: str = "") -> None:
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    if launcher == "deepspeed":
        ranks = core.DistributedContext.from_deepspeed()
    else:
        ranks = core.DistributedContext.from_torch_distributed()
    with core.init(distributed=ranks) as context:
        rank, size = ranks.rank, ranks.size
        print(f"rank {rank} of {size}, node {ranks.cross_rank}", flush=True)
        model = DistributedDataParallel(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(1, STEPS + 1):
            inputs = torch.full((8, 4), float(rank + 1))
            loss = (model(inputs) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = loss.detach().clone()
            torch.distributed.all_reduce(total)
            if rank == 0:
                context.train.report_training_metrics(step, {"loss": total.item() / size})
        weights = next(model.parameters()).detach().sum().item()
        everybody = ranks.allgather(weights)
        assert len(set(everybody)) == 1, everybody
        if rank == 0:
            context.train.report_validation_metrics(STEPS, {"val_loss": total.item() / size})


if __name__ == "__main__":
    main(*sys.argv[1:])
