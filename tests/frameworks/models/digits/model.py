"""A PyTorchTrial of the published package, slow enough to be interrupted in the middle of an epoch."""

import time
from typing import Any

import torch
from determined import pytorch
from digits import KINDS, PIXELS, pictures
from torch import nn

PAUSE_S = 0.02


class DigitsTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.context = context
        layers = nn.Sequential(nn.Linear(PIXELS, 32), nn.ReLU(), nn.Linear(32, KINDS))
        self.model = context.wrap_model(layers)
        rate = context.get_hparam("learning_rate")
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9)
        )

    def _loader(self, count: int, seed: int) -> pytorch.DataLoader:
        size = self.context.get_per_slot_batch_size()
        # Not shuffled: the published loader draws another order when it goes on in the middle of an epoch.
        return pytorch.DataLoader(pictures(count, seed), batch_size=size)

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return self._loader(640, seed=1)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return self._loader(160, seed=2)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        time.sleep(PAUSE_S)
        images, kinds = batch
        loss = nn.functional.cross_entropy(self.model(images), kinds)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        images, kinds = batch
        scores = self.model(images)
        right = (scores.argmax(1) == kinds).float().mean()
        return {"val_loss": nn.functional.cross_entropy(scores, kinds), "accuracy": right}
