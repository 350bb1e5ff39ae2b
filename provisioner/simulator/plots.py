"""Curves of one or two simulations, as PNG files. Needs matplotlib (the extra `simulate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provisioner.simulator.replay import Played, Sample

DAY_S = 86400.0


def plot(played: Mapping[str, Played], folder: Path) -> Sequence[Path]:
    """A curve for each name; the files that were written. Raises ModuleNotFoundError without matplotlib; OSError."""
    from matplotlib.figure import Figure

    slots = Figure(figsize=(10, 3 * len(played)), layout="constrained")
    axes: Any = slots.subplots(len(played), 1, squeeze=False)
    for (axis,), (name, each) in zip(axes, played.items(), strict=True):
        days = [sample.at_s / DAY_S for sample in each.samples]
        axis.fill_between(days, _of(each.samples, "up_slots"), step="post", alpha=0.3, label="up")
        axis.fill_between(days, _of(each.samples, "busy_slots"), step="post", label="busy")
        axis.plot(days, _of(each.samples, "waiting_slots"), lw=0.8, color="black", label="waiting")
        axis.set(title=name, xlabel="days", ylabel="slots")
        axis.legend(loc="upper right")
    waits = Figure(figsize=(10, 4), layout="constrained")
    axis = waits.subplots()
    for name, each in played.items():
        ordered = sorted(job.waited_s / 60 for job in each.jobs)
        axis.step(ordered, [(n + 1) / len(ordered) for n in range(len(ordered))], label=name)
    axis.set(xlabel="minutes of waiting", ylabel="share of jobs", xscale="symlog", ylim=(0, 1))
    axis.legend(loc="lower right")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, figure in (("slots.png", slots), ("waits.png", waits)):
        figure.savefig(folder / name, dpi=120)
        files.append(folder / name)
    return files


def _of(samples: Sequence[Sample], column: str) -> list[float]:
    return [getattr(sample, column) for sample in samples]
