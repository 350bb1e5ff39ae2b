"""A trial that says where it runs, and works until a file appears; it resumes where its checkpoint was.

hyperparameters: `gate`: the file it waits for; `steps`: how many it makes then.
"""

import json
import os
import time
from pathlib import Path

from windlass import core
from windlass.core import get_cluster_info


def main() -> None:
    info = get_cluster_info()
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
    print(f"rank {info.container_rank} of {len(info.container_addrs)}: gpus {gpus}", flush=True)
    if info.container_rank:
        while not Path(info.trial.hparams["gate"]).exists():
            time.sleep(0.05)
        return
    with core.init(distributed=core.DummyDistributedContext()) as context:
        hparams = context.info.trial.hparams
        gate, steps = Path(hparams["gate"]), int(hparams.get("steps", 4))
        runs, step = [], 0
        if context.info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
                runs, step = json.loads((path / "state.json").read_text())
        runs.append(context.info.trial.trial_run_id)
        print(f"run {len(runs)}, from step {step}", flush=True)

        def save() -> None:
            with context.checkpoint.store_path({"steps_completed": step}) as (path, _):
                (path / "state.json").write_text(json.dumps([runs, step]))

        while not gate.exists() or step < steps:
            if gate.exists() or step < steps - 1:
                step += 1
                loss = round(1.0 / step, 6)
                context.train.report_validation_metrics(step, {"loss": loss, "legs": len(runs)})
            if context.preempt.should_preempt():
                save()
                return
            time.sleep(0.05)
        save()


if __name__ == "__main__":
    main()
