"""Trains until a file appears in a folder that is mounted into it, so that a test decides when it may end."""

import time
from pathlib import Path

from windlass import core

GATE = Path("/gates/open")


def main() -> None:
    with core.init() as context:
        step = 0
        while True:
            step += 1
            context.train.report_training_metrics(step, {"x": step})
            if GATE.exists():
                context.train.report_validation_metrics(step, {"loss": 1.0})
                return
            time.sleep(0.05)


if __name__ == "__main__":
    main()
