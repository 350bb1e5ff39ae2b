"""A trial that says each of its epochs once, whatever happens to it; it resumes where its checkpoint was.

GATE: the file it waits for after an epoch, unless it is preempted there.
"""

import json
import os
import time
from pathlib import Path

from windlass import core

EPOCHS = 6
EPOCH_S = 0.3
GATE = os.environ.get("GATE")


def main() -> None:
    with core.init() as context:
        epoch = 0
        if context.info.latest_checkpoint is not None:
            with context.checkpoint.restore_path(context.info.latest_checkpoint) as path:
                epoch = json.loads((path / "state.json").read_text())["epoch"]
        print("as", os.getuid(), Path("/etc/debian_version").exists(), flush=True)
        while epoch < EPOCHS:
            epoch += 1
            time.sleep(EPOCH_S)
            print("epoch", epoch, flush=True)
            context.train.report_validation_metrics(epoch, {"loss": 1 / epoch})
            with context.checkpoint.store_path({"steps_completed": epoch}) as (path, _):
                (path / "state.json").write_text(json.dumps({"epoch": epoch}))
            while (
                not (stop := context.preempt.should_preempt()) and GATE and not Path(GATE).exists()
            ):
                time.sleep(0.05)
            if stop:
                return


if __name__ == "__main__":
    main()
