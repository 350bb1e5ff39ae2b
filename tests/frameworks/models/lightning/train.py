"""Lightning with the logger of the published package; checkpoints and preemption by its core_v2, in a callback."""

import logging
import time
from pathlib import Path
from typing import Any

import determined
import torch
from determined.experimental import core_v2
from determined.lightning.experimental import DetLogger
from lightning import pytorch as pl
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 16
KINDS = 4
BATCHES = 40
SAVE_EVERY = 8
PAUSE_S = 0.2
FILE = "lightning.ckpt"


def points(count: int, seed: int) -> TensorDataset:
    """Around the centre of their kind."""
    numbers = torch.Generator().manual_seed(seed)
    kinds = torch.arange(count) % KINDS
    centres = torch.eye(KINDS, FEATURES) * 3
    return TensorDataset(centres[kinds] + torch.randn(count, FEATURES, generator=numbers), kinds)


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, KINDS))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        time.sleep(PAUSE_S)
        features, kinds = batch
        loss = nn.functional.cross_entropy(self.layers(features), kinds)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        features, kinds = batch
        self.log("val_loss", nn.functional.cross_entropy(self.layers(features), kinds))


class Cluster(pl.Callback):
    """What the logger does not: validation metrics for the search, checkpoints, and an end when the cluster asks."""

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        step = trainer.global_step
        preempted = core_v2.preempt.should_preempt()
        if step % SAVE_EVERY == 0 or preempted:
            trainer.save_checkpoint(f"out/{FILE}")
            core_v2.checkpoint.upload("out", metadata={"steps_completed": step})
        trainer.should_stop = preempted

    def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if not trainer.sanity_checking:
            metrics = {"val_loss": float(trainer.callback_metrics["val_loss"])}
            core_v2.train.report_validation_metrics(trainer.global_step, metrics)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=determined.LOG_FORMAT)
    info = determined.get_cluster_info()
    assert info is not None
    pl.seed_everything(7)
    logger = DetLogger()
    _ = logger.experiment  # core_v2 is there from here on
    start = None
    if info.latest_checkpoint:
        core_v2.checkpoint.download(info.latest_checkpoint, "begun")
        start = Path("begun") / FILE
    trainer = pl.Trainer(
        max_steps=BATCHES,
        accelerator="cpu",
        logger=logger,
        callbacks=[Cluster()],
        log_every_n_steps=4,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loaders = [
        DataLoader(points(count, seed), batch_size=16) for count, seed in ((640, 1), (160, 2))
    ]
    trainer.fit(Model(), *loaders, ckpt_path=start, weights_only=False)


if __name__ == "__main__":
    main()
