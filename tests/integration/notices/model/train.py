"""A trial that is in its fifth epoch when its machine is taken back, and resumes exactly where it was.

hyperparameters: `gate`: the file it waits for before it saves and leaves.
"""

import json
import math
import time
from pathlib import Path

from windlass import core

EPOCHS = 8
INTERRUPTED = 5


def loss(previous: float, epoch: int) -> float:
    """Depends on every epoch before: a lost or repeated epoch would show."""
    return previous * 0.9 + math.sin(1.3 * epoch) / epoch


def main() -> None:
    # One process for all its slots: it trains on none of them.
    with core.init(distributed=core.DummyDistributedContext()) as context:
        epoch, value = 0, 1.0
        assert context.info is not None
        latest = context.info.latest_checkpoint
        if latest is not None:
            with context.checkpoint.restore_path(latest) as path:
                state = json.loads((path / "state.json").read_text())
                epoch, value = state["epoch"], state["value"]
        while epoch < EPOCHS:
            if epoch + 1 == INTERRUPTED and latest is None:
                print("in the fifth epoch", flush=True)
                gate = Path(context.info.trial.hparams["gate"])
                while not (context.preempt.should_preempt() and gate.exists()):
                    time.sleep(0.05)
                with context.checkpoint.store_path({"steps_completed": epoch}) as (path, _):
                    (path / "state.json").write_text(json.dumps({"epoch": epoch, "value": value}))
                return
            epoch += 1
            value = loss(value, epoch)
            context.train.report_validation_metrics(epoch, {"loss": value, "epochs": epoch})


if __name__ == "__main__":
    main()
