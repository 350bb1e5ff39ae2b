"""`windlass simulate`: what a master.yaml would cost and how long its users would wait, by a trace of jobs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from provisioner.simulator.replay import ClusterPlan, MakeBuyer, Played
    from provisioner.simulator.report import Summary
    from provisioner.simulator.trace import Trace

MOST_SIZES = 8
"""Sizes of jobs whose cheapest machines are named."""

app = typer.Typer(help="Simulate a master.yaml on a trace of jobs.", add_completion=False)


@app.command()
def simulate(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="Simulate this master.yaml.", show_default=False)
    ],
    trace: Annotated[
        Path,
        typer.Option(
            "--trace",
            "-t",
            help="Play this CSV file. Columns: arrival_s, slots, duration_s; "
            "optional: job_id, user, pool, preemptible, single_agent.",
            show_default=False,
        ),
    ],
    compare: Annotated[
        Path | None,
        typer.Option("--compare", help="Simulate this master.yaml, too.", show_default=False),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Simulate other ways to buy machines for --config, too: always on, sum of slots, least waste.",
        ),
    ] = False,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            metavar="POOL=COUNTxSLOTS",
            help="A pool without a provider has so many agents of so many slots. May be repeated.",
            show_default=False,
        ),
    ] = None,
    outages: Annotated[
        Path | None,
        typer.Option(
            help="Offers are out of stock as this CSV file says. Columns: from_s, until_s; "
            "optional: instance_type, zone, market (empty: any).",
            show_default=False,
        ),
    ] = None,
    interruptions: Annotated[
        float, typer.Option(min=0, help="How often a spot machine is taken back, per hour.")
    ] = 0.0,
    checkpoint_every: Annotated[
        str, typer.Option(help="How often jobs checkpoint: work since then is lost with a machine.")
    ] = "30m",
    checkpoint_time: Annotated[
        str, typer.Option(help="How long a job takes to checkpoint when it is asked to leave.")
    ] = "30s",
    restart_time: Annotated[
        str, typer.Option(help="How long a job takes to go on after it was interrupted.")
    ] = "1m",
    seed: Annotated[int, typer.Option(help="Interruptions are drawn by this number.")] = 0,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip bad rows of the trace, and sort it by arrival.")
    ] = False,
    csv_to: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FOLDER",
            help="Write jobs.csv, machines.csv and timeline.csv into this folder.",
            show_default=False,
        ),
    ] = None,
    plot_to: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FOLDER",
            help="Draw slots.png (with cost) and waits.png into this folder. Needs matplotlib.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a master.yaml would have cost on a trace of jobs, and how long the jobs would have waited.

    The scheduler and the planner are those of the master; machines and work are simulated. Nothing is launched.
    """
    from master.simulate.inputs import World, cluster_plan, read_agents, read_outages
    from provisioner.simulator.report import summary
    from provisioner.simulator.trace import read_trace
    from windlass.cli.output.text import print_json

    if plot_to is not None:
        _require_matplotlib()
    world = World(
        agents=read_agents(agents or ()),
        outages=read_outages(outages) if outages is not None else (),
        interruptions_per_hour=interruptions,
        checkpoint_every_s=_seconds("--checkpoint-every", checkpoint_every, least=1.0),
        checkpoint_s=_seconds("--checkpoint-time", checkpoint_time),
        restart_s=_seconds("--restart-time", restart_time),
        seed=seed,
    )
    plans = {str(path): cluster_plan(path, world) for path in (config, compare) if path is not None}
    for name, plan in plans.items():
        for what in plan.left_out:
            typer.echo(f"warning: {name}: {what}", err=True)
    jobs = read_trace(trace, lenient=lenient)
    if jobs.skipped:
        typer.echo(f"skipped {jobs.skipped} bad rows of {trace}", err=True)
    played = {name: _play(name, plan, jobs) for name, plan in plans.items()}
    for name, each in played.items():
        _say_refused(name, each)
    if baselines:
        played |= _play_baselines(played[str(config)], jobs)
    if csv_to is not None:
        _write_tables(csv_to, played)
    if plot_to is not None:
        from provisioner.simulator.plots import plot

        for file in plot(played, plot_to):
            typer.echo(f"drew {file}", err=True)
    summaries = {name: summary(each) for name, each in played.items()}
    if as_json:
        print_json({name: each.as_json() for name, each in summaries.items()})
    else:
        _print_summaries(summaries)


def _play(name: str, plan: ClusterPlan, trace: Trace, buyer: MakeBuyer | None = None) -> Played:
    import asyncio

    from provisioner.simulator.replay import play, provisioner_of

    with _quiet(), _progress(f"simulating {name}", len(trace.jobs)) as progress:
        return asyncio.run(play(plan, trace.jobs, progress=progress, buyer=buyer or provisioner_of))


def _play_baselines(ours: Played, trace: Trace) -> dict[str, Played]:
    """By name; without those that leave some job waiting for ever."""
    from provisioner.simulator.baselines import baselines
    from windlass.base.errors import InvalidConfig

    played = {}
    for name, buyer in baselines(ours).items():
        try:
            played[name] = _play(name, ours.plan, trace, buyer)
        except InvalidConfig as error:
            typer.echo(f"warning: {name} is left out: {'; '.join(error.problems)}", err=True)
    return played


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what a master's log says of each refused launch: the table counts them."""
    import logging

    provisioner = logging.getLogger("provisioner")
    before = provisioner.level
    provisioner.setLevel(logging.ERROR)
    try:
        yield
    finally:
        provisioner.setLevel(before)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of jobs on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def _say_refused(name: str, played: Played) -> None:
    """Jobs that could never run, by reason."""
    reasons: dict[str, list[str]] = {}
    for job, why in played.refused:
        reasons.setdefault(why, []).append(job.job_id)
    for why, ids in reasons.items():
        shown = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        typer.echo(f"warning: {name} refuses {shown}: {why}", err=True)


def _write_tables(folder: Path, played: Mapping[str, Played]) -> None:
    from provisioner.simulator.report import tables

    for number, (name, each) in enumerate(played.items()):
        place = folder if len(played) == 1 else folder / f"{number + 1}-{Path(name).stem}"
        place.mkdir(parents=True, exist_ok=True)
        for file, (columns, rows) in tables(each).items():
            with (place / file).open("w", newline="", encoding="utf-8") as out:
                csv.writer(out, lineterminator="\n").writerows([columns, *rows])
        typer.echo(f"wrote {place}/jobs.csv, machines.csv, timeline.csv", err=True)


_USD, _HOURS, _MINUTES, _PLAIN = "{:,.2f} USD", "{:,.1f} h", "{:,.1f} min", "{:,}"


def _lines(one: Summary) -> list[tuple[str, str, float]]:
    """What is shown of it: name, format, value."""
    return [
        ("cost", _USD, one.usd),
        ("  least possible", _USD, one.least_usd),
        ("  cost / least", "{:.3f}", one.usd_over_least),
        ("  busy", _USD, one.busy_usd),
        ("  of that done again", _USD, one.redone_usd),
        ("  booting", _USD, one.boot_usd),
        ("  idle", _USD, one.idle_usd),
        ("  disks of stopped machines", _USD, one.stopped_usd),
        ("  free slots beside work", _USD, one.unused_usd),
        ("mean wait", _MINUTES, one.waits.mean_s / 60),
        ("  median", _MINUTES, one.waits.p50_s / 60),
        ("  95th percentile", _MINUTES, one.waits.p95_s / 60),
        ("  99th percentile", _MINUTES, one.waits.p99_s / 60),
        ("  longest", _MINUTES, one.waits.longest_s / 60),
        ("  least mean, nothing idle", _MINUTES, one.boot_wait_s / 60),
        ("machines launched", _PLAIN, one.machines),
        ("  most at once", _PLAIN, one.most_machines),
        ("  busy", _HOURS, one.busy_hours),
        ("  idle", _HOURS, one.idle_hours),
        ("  booting", _HOURS, one.boot_hours),
        ("stopped machines started", _PLAIN, one.starts),
        ("launches refused", _PLAIN, one.refused_launches),
        ("interruptions", _PLAIN, one.interruptions),
        ("jobs done", _PLAIN, one.jobs),
        ("  in another pool than their own", _PLAIN, one.fell_back),
        ("jobs refused", _PLAIN, one.refused_jobs),
        ("last job ends after", _HOURS, one.makespan_s / 3600),
    ]


def _print_summaries(summaries: Mapping[str, Summary]) -> None:
    from windlass.cli.output.columns import print_rows

    columns = [_lines(one) for one in summaries.values()]
    rows: list[Sequence[Any]] = []
    for line in zip(*columns, strict=True):
        values = [form.format(value) for _, form, value in line]
        ratio = f"{line[1][2] / line[0][2]:.3f}" if len(line) == 2 and line[0][2] else ""
        rows.append([line[0][0], *values, *([ratio] if len(line) == 2 else [])])
    names = list(summaries)
    for name, one in summaries.items():
        typer.echo(f"least possible of {name} assumes {_assumed(one.least_machines)}", err=True)
    print_rows(["", *names, *(["ratio"] if len(names) == 2 else [])], rows)


def _assumed(machines: Mapping[int, str]) -> str:
    """E.g. `1 slot on 1 x g5.xlarge, 8 slots on 8 x g5.xlarge`."""
    each = [f"{slots} slot{'s' * (slots > 1)} on {on}" for slots, on in machines.items()]
    more = len(each) - MOST_SIZES
    return ", ".join(each[:MOST_SIZES]) + (f" and {more} more" if more > 0 else "")


def _seconds(option: str, text: str, *, least: float = 0.0) -> float:
    from windlass.base.formats.durations import parse_duration

    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if seconds < least:
        raise typer.BadParameter(f"{text} is less than {least:g}s", param_hint=option)
    return seconds


def _require_matplotlib() -> None:
    from importlib.util import find_spec

    from windlass.base.errors import InvalidArgument
    from windlass.base.packages import DISTRIBUTION

    if find_spec("matplotlib") is None:
        raise InvalidArgument(f"--plot needs matplotlib: pip install '{DISTRIBUTION}[simulate]'")
