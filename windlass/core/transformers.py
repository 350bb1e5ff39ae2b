"""Hugging Face Transformers on the cluster: a callback for its Trainer.

callback = TrialCallback(core_context)
trainer = Trainer(..., args=args, callbacks=[callback])
trainer.train(resume_from_checkpoint=callback.latest_checkpoint(args.output_dir))
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from windlass.core._context import Context
from windlass.core._framework_trial import (
    TRAINING,
    VALIDATION,
    FrameworkTrial,
    missing_framework,
)

try:
    import transformers  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as missing:
    raise missing_framework(missing, "transformers") from missing

__all__ = ["TrialCallback"]
_SUMMARY = "train_runtime"
"""Of the log at the very end: means over the whole run, at a step that has been reported."""
_SPEEDS = ("_runtime", "_per_second", "_compilation_time")
"""How fast an evaluation was, which is other at each time."""


class TrialCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Reports what the Trainer logs, stores what it saves, and stops it at a step when the cluster says so.

    When and what is for `TrainingArguments` to say: `logging_steps`, `eval_steps`, `save_steps`. Metrics have the names
    that the Trainer gives them (`eval_loss`), and `batches` and `epochs` beside them.
    """

    def __init__(self, context: Context) -> None:
        self._trial = FrameworkTrial(context)

    @property
    def preempted(self) -> bool:
        """Whether training stopped because the cluster said so: the program should end."""
        return self._trial.preempted

    def latest_checkpoint(self, output_dir: str | os.PathLike[str]) -> str | None:
        """Where this trial goes on, as `Trainer.train(resume_from_checkpoint=...)` takes it. All ranks call."""
        metadata = self._trial.fetch(output_dir)
        if metadata is None:
            return None
        return str(Path(output_dir) / _folder(metadata["steps_completed"]))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if not logs or _SUMMARY in logs or any(name.startswith("eval_") for name in logs):
            return
        self._trial.report(TRAINING, state.global_step, _with_time(logs, state))
        self._trial.report_progress(state.global_step, state.max_steps)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **others: Any
    ) -> None:
        found = {n: v for n, v in (metrics or {}).items() if not n.endswith(_SPEEDS)}
        self._trial.report(VALIDATION, state.global_step, _with_time(found, state))

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._trial.upload(args.output_dir, _folder(state.global_step), state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self._trial.should_stop():
            control.should_save = True
            control.should_training_stop = True


def _folder(step: int) -> str:
    """As the Trainer names it."""
    return f"checkpoint-{step}"


def _with_time(metrics: dict[str, Any], state: Any) -> dict[str, Any]:
    """What `searcher.time_metric` may name."""
    return {**metrics, "batches": state.global_step, "epochs": state.epoch or 0}
