"""The same Trial with a trace by PyTorch's profiler, slow enough for several reports of the package's own."""

import time
from typing import Any

import torch
from determined import pytorch
from model import DigitsTrial

PAUSE_S = 0.5


class TracedTrial(DigitsTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        context.set_profiler(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        )

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        time.sleep(PAUSE_S)
        return super().train_batch(batch, epoch_idx, batch_idx)
