"""A PyTorchTrial of the published `determined` package, run by its Trainer, on random data that is made here."""

import logging
from typing import Any

import determined
import torch
from determined import pytorch
from torch import nn
from torch.utils.data import TensorDataset

FEATURES = 16
CLASSES = 4


def made_up(count: int, seed: int) -> TensorDataset:
    """Points around the centre of their class. The same on every machine."""
    numbers = torch.Generator().manual_seed(seed)
    classes = torch.arange(count) % CLASSES
    centres = torch.eye(CLASSES, FEATURES) * 3
    return TensorDataset(
        centres[classes] + torch.randn(count, FEATURES, generator=numbers), classes
    )


class ExampleTrial(pytorch.PyTorchTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext, hparams: dict[str, Any]) -> None:
        self.context = context
        self.batch_size = int(hparams["batch_size"])
        hidden = int(hparams["hidden"])
        layers = nn.Sequential(nn.Linear(FEATURES, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))
        self.model = context.wrap_model(layers)
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=hparams["learning_rate"])
        )

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(made_up(1280, seed=1), batch_size=self.batch_size)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(made_up(320, seed=2), batch_size=self.batch_size)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        features, classes = batch
        loss = nn.functional.cross_entropy(self.model(features), classes)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        features, classes = batch
        return {"val_loss": nn.functional.cross_entropy(self.model(features), classes)}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=determined.LOG_FORMAT)
    info = determined.get_cluster_info()
    if info is None:
        raise SystemExit("Submit this: det experiment create search.yaml .")
    hparams = info.trial.hparams
    with pytorch.init() as context:
        trainer = pytorch.Trainer(ExampleTrial(context, hparams), context)
        trainer.fit(
            max_length=pytorch.Epoch(hparams["epochs"]),  # a search with max_time gives no length
            validation_period=pytorch.Epoch(1),  # the search decides after each validation
            checkpoint_period=pytorch.Epoch(1),
            latest_checkpoint=info.latest_checkpoint,
        )


if __name__ == "__main__":
    main()
