"""A Lightning Trainer on points around the centre of their kind, which are made here."""

import logging
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset

from windlass import core
from windlass.core.lightning import ResumableDataLoader, TrialCallback


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        return self.loss("loss", *batch)

    def validation_step(self, batch: Any, index: int) -> None:
        self.loss("val_loss", *batch)

    def loss(self, name: str, features: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.layers(features), kinds)
        self.log(name, loss)
        return loss


def points(count: int, seed: int) -> ResumableDataLoader:
    kinds = torch.arange(count) % 4
    noise = torch.randn(count, 16, generator=torch.Generator().manual_seed(seed))
    features = torch.eye(4, 16)[kinds] * 3 + noise
    return ResumableDataLoader(TensorDataset(features, kinds), batch_size=16)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    pl.seed_everything(7)
    with core.init() as context:
        callback = TrialCallback(context, save_every=8)
        trainer = pl.Trainer(
            max_steps=40, log_every_n_steps=4, callbacks=[callback], enable_checkpointing=False
        )
        trainer.fit(Model(), points(640, 1), points(160, 2), ckpt_path=callback.latest_checkpoint())


if __name__ == "__main__":
    main()
