"""`det experiment continue` and `fork`: go on with an experiment that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.completion import ExperimentId
from windlass.cli.config_file import naming, read_config, tell_warnings, with_overrides
from windlass.cli.connect import client_for
from windlass.cli.experiment.waiting import follow_first_trial
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.text import print_json

app = typer.Typer()

ConfigFileOption = Annotated[
    Path | None, typer.Option("--config-file", help="Experiment configuration (YAML).")
]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", help="Override a key: searcher.max_length=100")
]
FollowOption = Annotated[
    bool,
    typer.Option("-f", "--follow-first-trial", help="Print the first trial's log until it ends."),
]


@app.command("continue")
def continue_(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    config_file: ConfigFileOption = None,
    config: ConfigOption = None,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment that has ended again, from its last checkpoints.

    A single trial goes on with changed settings; a random or grid search runs the trials that have not completed.
    """
    override = (
        read_config(config_file, config or []) if config_file else with_overrides("", config or [])
    )
    client = client_for(ctx)
    with naming(config_file):
        answer = client.continue_experiment(experiment_id, override)
    tell_warnings("experiment", answer)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"Continued experiment {experiment_id}")
    if follow:
        follow_first_trial(client, experiment_id, {})


@app.command()
def fork(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    config_file: ConfigFileOption = None,
    config: ConfigOption = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not start it yet.")] = False,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Submit an experiment with the model code of another; without a file also with its configuration and template."""
    client = client_for(ctx)
    template = None
    if config_file:
        text = read_config(config_file, config or [])
    else:
        parent = client.experiment(experiment_id)
        text = with_overrides(str(parent["experiment"]["originalConfig"]), config or [])
        template = parent.get("template") or None  # masters of 0.2 do not say
    with naming(config_file):
        answer = client.fork_experiment(experiment_id, text, activate=not paused, template=template)
    tell_warnings("experiment", answer)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"Created experiment {answer['experiment']['id']}")
    if follow:
        follow_first_trial(client, int(answer["experiment"]["id"]), {})
