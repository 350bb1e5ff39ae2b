"""One trial: a loss that falls towards what its hyperparameters allow. No package but windlass is needed."""

from __future__ import annotations

import json
import math
from typing import Any

from windlass import core


def loss(hparams: dict[str, Any], step: int) -> float:
    floor = (math.log10(hparams["learning_rate"]) + 2) ** 2 + (hparams["layers"] - 4) ** 2 / 10
    return float(floor + math.exp(-step / 5))


def main() -> None:
    with core.init() as context:
        trial, start = context.info.trial, 0
        if context.info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
                start = json.loads((path / "state.json").read_text())["step"]
        last = start + trial.hparams["steps"]
        for step in range(start + 1, last + 1):
            context.train.report_validation_metrics(step, {"loss": loss(trial.hparams, step)})
            if step == last or context.preempt.should_preempt():
                with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                    (path / "state.json").write_text(json.dumps({"step": step}))
                return


if __name__ == "__main__":
    main()
