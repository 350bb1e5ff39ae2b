"""A trial that works until a file appears, then finishes its search; it resumes where its checkpoint was.

hyperparameters: `gate`: the file it waits for; `stubborn`: it does not leave when it is asked to.
"""

import json
import time
from pathlib import Path

from windlass import core

EPOCHS = 4


def main() -> None:
    # One process for all its slots: it trains on none of them.
    with core.init(distributed=core.DummyDistributedContext()) as context:
        hparams = context.info.trial.hparams
        gate, stubborn = Path(hparams["gate"]), hparams.get("stubborn", False)
        runs, epoch = [], 0
        if context.info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
                runs = json.loads((path / "runs.json").read_text())
        runs.append(context.info.trial.trial_run_id)
        print(f"run after {len(runs) - 1} before", flush=True)

        def save() -> None:
            with context.checkpoint.store_path({"steps_completed": len(runs)}) as (path, _):
                (path / "runs.json").write_text(json.dumps(runs))

        if stubborn:
            save()
        while not gate.exists():
            time.sleep(0.05)
            if not stubborn and context.preempt.should_preempt():
                save()
                return
        while epoch < EPOCHS:
            epoch += 1
            metrics = {"loss": 1.0 / epoch, "epochs": epoch, "runs": len(runs)}
            context.train.report_validation_metrics(100 * len(runs) + epoch, metrics)
            if context.preempt.should_preempt():
                save()
                return
        save()


if __name__ == "__main__":
    main()
