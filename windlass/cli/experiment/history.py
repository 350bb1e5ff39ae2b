"""`events` of experiments and trials; `allocations` and `profile` of trials."""

from __future__ import annotations

import typer

from windlass.base.option_groups import with_groups
from windlass.cli.completion import ExperimentId, TrialId
from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column, Table, TableOptions, decimals
from windlass.cli.output.text import notice, state_name
from windlass.cli.output.times import local_time
from windlass.sdk.histories import Histories
from windlass.sdk.wire import Json

of_experiments = typer.Typer()
of_trials = typer.Typer()


@of_experiments.command("events")
@with_groups
def experiment_events(ctx: typer.Context, experiment_id: ExperimentId, out: TableOptions) -> None:
    """Show what happened to an experiment and its trials, in order; with --limit the newest events."""
    out.show(EVENTS, Histories(client_for(ctx)).experiment_events(experiment_id, out.limit))


@of_trials.command("events")
@with_groups
def trial_events(ctx: typer.Context, trial_id: TrialId, out: TableOptions) -> None:
    """Show what happened to a trial, in order; with --limit the newest events."""
    out.show(EVENTS, Histories(client_for(ctx)).trial_events(trial_id, out.limit))


@of_trials.command()
@with_groups
def allocations(ctx: typer.Context, trial_id: TrialId, out: TableOptions) -> None:
    """List the runs of a trial: when each waited and ran, on which machines, at what price, why it ended."""
    out.show(ALLOCATIONS, Histories(client_for(ctx)).trial_allocations(trial_id, out.limit))


@of_trials.command()
@with_groups
def profile(ctx: typer.Context, trial_id: TrialId, out: TableOptions) -> None:
    """Show how busy the machines and GPUs of a trial were, and which GPUs did almost nothing."""
    found = Histories(client_for(ctx)).trial_profile(trial_id)
    out.show(PROFILE, found["series"])
    if out.as_json:
        return
    if not found["series"]:
        notice(
            "Nothing was measured: submit with `profiling: {enabled: true}`, or call core_context.profiler.on()"
        )
    for gpu in found["idleGpus"]:
        notice(
            f"GPU {gpu['gpuUuid']} of {gpu['agentId']} was used {gpu['percent']:.1f} % in the last ten minutes measured"
        )


def _machines(run: Json) -> str:
    return ", ".join(
        " ".join(
            [m["agentId"], f"({m['slots']})", m["offer"]["market"] if m["offer"] else ""]
        ).strip()
        for m in run["machines"]
    )


def _prices(run: Json) -> str:
    """Of what was bought; nothing for other machines."""
    bought = [m["usdPerHour"] for m in run["machines"] if m["offer"]]
    return ", ".join("unknown" if usd is None else f"{usd:.4f}" for usd in bought)


EVENTS = Table(
    Column("When", "at", local_time),
    Column("Trial", "trialId"),
    Column("What happened", "text", below="what happened"),
)
ALLOCATIONS = Table(
    Column("Run", "runId"),
    Column("State", lambda run: run["outcome"] or run["state"], state_name),
    Column("Requested", "requestedAt", local_time),
    Column("Started", "startedAt", local_time),
    Column("Preemption requested", "preemptionRequestedAt", local_time),
    Column("Ended", "endedAt", local_time),
    Column("Machines (slots)", _machines),
    Column("USD an hour", _prices),
    Column("Why", "exitReason", below="ended because"),
)
PROFILE = Table(
    Column("Metric", "name"),
    Column("Agent", "agentId"),
    Column("GPU", "gpuUuid"),
    Column("Readings", "readings"),
    Column("Least", "min", decimals(1)),
    Column("Mean", "mean", decimals(1)),
    Column("Most", "max", decimals(1)),
)
