"""Runs the train.py beside it as it is, but with a pause in each step: slow enough to be interrupted in an epoch."""

import runpy
import sys
import time
from typing import Any

PAUSE_S = 0.2


def pause_in(owner: Any, name: str) -> None:
    step = getattr(owner, name)

    def with_pause(*args: Any, **kwargs: Any) -> Any:
        time.sleep(PAUSE_S)
        return step(*args, **kwargs)

    setattr(owner, name, with_pause)


def main(framework: str) -> None:
    if framework == "huggingface":
        import torch
        import transformers

        # Ranks without GPUs load their optimizers to a device of a name that PyTorch does not know there.
        torch.serialization.register_package(
            5, lambda _: None, lambda found, where: found if where == "cpu:0" else None
        )
        pause_in(transformers.Trainer, "training_step")
    elif framework == "lightning":
        import lightning.pytorch as pl

        pause_in(pl.LightningModule, "optimizer_step")
    else:
        import keras

        pause_in(keras.callbacks.CallbackList, "on_train_batch_end")
    runpy.run_path("train.py", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
