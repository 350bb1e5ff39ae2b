"""One trial: train a small network on the digits, report every epoch, checkpoint, stop when asked."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from windlass import core

CHECKPOINT_EVERY = 5


def build(hparams: dict[str, Any], seed: int) -> MLPClassifier:
    return MLPClassifier(
        hidden_layer_sizes=(hparams["hidden"],) * hparams["layers"],
        learning_rate_init=hparams["learning_rate"],
        alpha=hparams["alpha"],
        batch_size=32,
        random_state=seed,
    )


def save(context: core.Context, network: MLPClassifier, epoch: int) -> None:
    with context.checkpoint.store_path({"steps_completed": epoch}) as (path, _):
        state = pickle.dumps({"network": network, "epoch": epoch})
        (path / "network.pkl").write_bytes(state)


def restore(path: Path) -> tuple[MLPClassifier, int]:
    with (path / "network.pkl").open("rb") as file:
        state = pickle.load(file)  # noqa: S301  (our own checkpoint, from our own storage)
    return state["network"], state["epoch"]


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    with core.init() as context:
        trial = context.info.trial
        digits = load_digits()
        x_train, x_valid, y_train, y_valid = train_test_split(
            digits.data / 16.0, digits.target, test_size=0.2, random_state=0
        )
        network, start = build(trial.hparams, trial.trial_seed), 0
        if context.info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
                network, start = restore(path)
            print(f"resumed after epoch {start}", flush=True)
        for epoch in range(start + 1, trial.hparams["epochs"] + 1):
            network.partial_fit(x_train, y_train, classes=np.arange(10))
            error = 1.0 - network.score(x_valid, y_valid)
            context.train.report_training_metrics(epoch, {"loss": float(network.loss_)})
            context.train.report_validation_metrics(
                epoch, {"validation_error": float(error), "epochs": epoch}
            )
            context.train.report_progress(epoch / trial.hparams["epochs"])
            stop = context.preempt.should_preempt()
            if stop or epoch % CHECKPOINT_EVERY == 0 or epoch == trial.hparams["epochs"]:
                save(context, network, epoch)
            if stop:
                print(f"asked to stop after epoch {epoch}", flush=True)
                return


if __name__ == "__main__":
    main()
