"""Prints as JSON what the ranks of an epoch get from DataLoaders, interrupted and gone on with by fewer ranks."""

import json

import torch
from torch.utils.data import DataLoader

from windlass import core
from windlass.core.data import ShardedSampler


class Rank(core.DummyDistributedContext):
    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size


def main() -> None:
    dataset = torch.arange(103)
    taken: list[int] = []
    states = []
    for rank in range(3):
        sampler = ShardedSampler(len(dataset), Rank(rank, 3), seed=1)
        loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=1)
        for step, batch in enumerate(sampler.track(loader, 4), 1):
            taken += batch.tolist()
            if step == 5:
                states.append(sampler.state_dict())
                break
    for rank in range(2):
        sampler = ShardedSampler(len(dataset), Rank(rank, 2), seed=1)
        sampler.load_state_dict(states[0])
        for batch in sampler.track(DataLoader(dataset, batch_size=6, sampler=sampler), 6):
            taken += batch.tolist()
    print(json.dumps({"taken": taken, "states": states, "epoch": sampler.epoch}))


if __name__ == "__main__":
    main()
