"""A trial whose metrics depend on nothing but its hyperparameters and the epoch, and that resumes exactly."""

import json
import math
import time

from windlass import core

EPOCHS = 8
EPOCH_S = 0.12


def loss(x: float, previous: float, epoch: int) -> float:
    """Depends on every epoch before: a lost or repeated epoch would show."""
    return previous * 0.9 + math.sin(x * epoch) / epoch


def main() -> None:
    with core.init() as context:
        x = context.info.trial.hparams["x"]
        epoch, value = 0, 1.0
        if context.info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
                state = json.loads((path / "state.json").read_text())
                epoch, value = state["epoch"], state["value"]
        while epoch < EPOCHS:
            epoch += 1
            time.sleep(EPOCH_S)
            value = loss(x, value, epoch)
            context.train.report_validation_metrics(epoch, {"loss": value, "epochs": epoch})
            with context.checkpoint.store_path({"steps_completed": epoch}) as (path, _):
                (path / "state.json").write_text(json.dumps({"epoch": epoch, "value": value}))
            if context.preempt.should_preempt():
                return


if __name__ == "__main__":
    main()
