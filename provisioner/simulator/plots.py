"""Curves of simulations, as PNG files. Needs matplotlib (the extra `simulate`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from provisioner.simulator.replay import Played, Sample

HOUR_S, DAY_S = 3600.0, 86400.0
WIDTH, HEIGHT = 11.0, 2.4
"""Of a panel, in inches."""
WAIT_TICKS = {
    0.0: "0", 1.0: "1 min", 3.0: "3 min", 10.0: "10 min", 30.0: "30 min", 60.0: "1 h", 180.0: "3 h", 720.0: "12 h",
    1440.0: "1 d", 4320.0: "3 d", 14400.0: "10 d", 43200.0: "30 d", 144000.0: "100 d",
}  # fmt: skip
"""Minutes -> how they are written."""


def plot(played: Mapping[str, Played], folder: Path) -> Sequence[Path]:
    """The files that were written. Raises ModuleNotFoundError without matplotlib; OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    figures = {"slots.png": slots_and_costs(played), "waits.png": _waits(played)}
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=120)
        files.append(folder / name)
    return files


def slots_and_costs(played: Mapping[str, Played]) -> Any:
    """A panel of slots for each name, and two of costs for all of them, above one time axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    figure = Figure(figsize=(WIDTH, HEIGHT * (len(played) + 2)), layout="constrained")
    axes: Any = figure.subplots(len(played) + 2, 1, sharex=True)
    *panels, rate, total = axes
    unit, unit_s = time_unit(max((each.ended_s for each in played.values()), default=0.0))
    for axis, (name, each) in zip(panels, played.items(), strict=True):
        _slots(axis, each.samples, unit_s)
        axis.set(title=name, ylabel="slots")
        axis.sharey(panels[0])
    for name, each in played.items():
        at = [sample.at_s / unit_s for sample in each.samples]
        rates = [sample.usd_per_hour for sample in each.samples]
        rate.step(at, rates, where="post", lw=0.9, label=name)
        total.plot(
            at, spent_usd(each.samples), lw=1.2, label=name
        )  # between two steps it grows evenly
    rate.set(title="cost", ylabel="USD an hour")
    total.set(ylabel="USD so far", xlabel=unit)
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_locator(MaxNLocator(5, integer=axis is not rate and axis is not total))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
        axis.grid(alpha=0.3)
    for axis in (panels[0], *([rate] if len(played) > 1 else [])):
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    total.set_xlim(left=0)
    total.xaxis.set_major_locator(MaxNLocator(12))
    return figure


def _slots(axis: Any, samples: Sequence[Sample], unit_s: float) -> None:
    at = [sample.at_s / unit_s for sample in samples]
    up, busy, waiting = (
        [getattr(s, f"{what}_slots") for s in samples] for what in ("up", "busy", "waiting")
    )
    axis.fill_between(at, up, step="post", color="tab:blue", alpha=0.25, lw=0, label="up")
    axis.fill_between(at, busy, step="post", color="tab:blue", lw=0, label="busy")
    axis.step(at, waiting, where="post", lw=0.8, color="tab:red", label="waiting")


def _waits(played: Mapping[str, Played]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator, PercentFormatter

    figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
    axis: Any = figure.subplots()
    longest = 1.0
    for name, each in played.items():
        ordered = sorted(job.waited_s / 60 for job in each.jobs)
        shares = [(n + 1) / len(ordered) for n in range(len(ordered))]
        axis.step([0.0, *ordered], [0.0, *shares], where="post", label=name)
        longest = max([longest, *ordered])
    ticks = wait_ticks(longest)
    axis.set_xscale("symlog", linthresh=1.0, linscale=0.3)
    axis.set(
        title="how long jobs waited, all waits of a job together",
        xlabel="wait",
        ylabel="jobs that waited no longer",
    )
    axis.set_xticks(ticks, [WAIT_TICKS[tick] for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(PercentFormatter(1.0))
    axis.set(xlim=(0, ticks[-1]), ylim=(0, 1.02))
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right")
    return figure


def time_unit(length_s: float) -> tuple[str, float]:
    """What a time axis of that length counts, and how long one is."""
    return ("days", DAY_S) if length_s > 3 * DAY_S else ("hours", HOUR_S)


def wait_ticks(longest_min: float) -> list[float]:
    """Up to the first that no wait is longer than."""
    ticks = list(WAIT_TICKS)
    last = next((n for n, tick in enumerate(ticks) if tick >= longest_min), len(ticks) - 1)
    return ticks[: last + 1]


def spent_usd(samples: Sequence[Sample]) -> list[float]:
    """At each sample, what everything has cost until then."""
    spent = [0.0] if samples else []
    for one, after in pairwise(samples):
        spent.append(spent[-1] + one.usd_per_hour * (after.at_s - one.at_s) / HOUR_S)
    return spent
