"""A Core API experiment of the published package. It counts to the hyperparameter `steps`.

At steps in HELD_AT it waits to be preempted.
"""

import json
import logging
import os
import time

import determined
from determined import core

HELD_AT = {int(step) for step in os.environ.get("HELD_AT", "").split()}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=determined.LOG_FORMAT)
    info = determined.get_cluster_info()
    assert info is not None
    assert info.trial is not None
    steps, done = info.trial.hparams.get("steps", 12), 0
    with core.init(tensorboard_mode=core.TensorboardMode.MANUAL) as context:
        if info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(info.latest_checkpoint) as path:
                done = json.loads((path / "state.json").read_text())["done"]
            print(f"resumed at step {done}", flush=True)
        for step in range(done + 1, steps + 1):
            time.sleep(0.2)
            context.train.report_training_metrics(
                step, {"loss": info.trial.hparams["scale"] / step}
            )
            context.train.report_progress(step / steps)
            print(f"step {step} of {steps}", flush=True)
            while not (stop := context.preempt.should_preempt()) and step in HELD_AT:
                time.sleep(0.05)
            if stop or step == steps:
                context.train.report_validation_metrics(step, {"val_loss": 1.0 / step})
                with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                    (path / "state.json").write_text(json.dumps({"done": step}))
            if stop:
                print("preempted", flush=True)
                return


if __name__ == "__main__":
    main()
