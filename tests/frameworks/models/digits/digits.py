"""Four kinds of small pictures: where in a noisy 8 x 8 square the light is. The same data on every machine."""

import torch
from torch.utils.data import TensorDataset

PIXELS = 64
KINDS = 4


def pictures(count: int, seed: int) -> TensorDataset:
    numbers = torch.Generator().manual_seed(seed)
    kinds = torch.arange(count) % KINDS
    images = torch.rand(count, 8, 8, generator=numbers)
    for kind in range(KINDS):
        row, column = 4 * (kind // 2), 4 * (kind % 2)
        images[kinds == kind, row : row + 4, column : column + 4] += 0.5
    return TensorDataset(images.reshape(count, PIXELS), kinds)
