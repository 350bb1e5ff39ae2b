"""`det experiment`: submit, wait, steer. Commands that only look are in `show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.option_groups import with_groups
from windlass.cli.completion import ExperimentId, TemplateOption
from windlass.cli.config_file import config_of, naming, read_config, tell_warnings
from windlass.cli.connect import client_for
from windlass.cli.experiment import again as experiment_again
from windlass.cli.experiment import code as experiment_code
from windlass.cli.experiment import compare as experiment_compare
from windlass.cli.experiment import history as experiment_history
from windlass.cli.experiment import label as experiment_label
from windlass.cli.experiment import settings as experiment_set
from windlass.cli.experiment import show as experiment_show
from windlass.cli.experiment.copies import CopyOptions, without_metric
from windlass.cli.experiment.failures import print_failure
from windlass.cli.experiment.preview import print_preview
from windlass.cli.experiment.waiting import follow_first_trial, has_ended, wait_for_end
from windlass.cli.groups import command_group
from windlass.cli.job.words import already_ended
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.progress import upload
from windlass.cli.output.text import notice, print_json, see_log, state_name
from windlass.cli.places import ProjectName, WorkspaceName, project_of
from windlass.cli.published_ports import PublishOption, published_ports
from windlass.sdk.client import ExperimentAction

app = command_group()
app.add_typer(experiment_set.app, name="set")
app.add_typer(experiment_label.app, name="label")


@app.command()
def create(
    ctx: typer.Context,
    config_file: Annotated[Path, typer.Argument(help="Experiment configuration (YAML).")],
    model_dir: Annotated[
        Path | None, typer.Argument(help="Directory of the model code; may be left out.")
    ] = None,
    include: Annotated[
        list[Path] | None,
        typer.Option("-i", "--include", help="Add a file or directory to the model code."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", help="Override a key: searcher.metric=loss")
    ] = None,
    template: TemplateOption = None,
    project_id: Annotated[
        int | None, typer.Option("--project_id", "--project-id", help="Put it into this project.")
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not start it yet.")] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "-f", "--follow-first-trial", help="Print the first trial's log until it ends."
        ),
    ] = False,
    publish: PublishOption = None,
    preview: Annotated[
        bool,
        typer.Option(
            "--preview",
            help="Check it, show where its values come from, where it would start and at what price. Submit nothing.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Submit an experiment. With --follow-first-trial the exit code is 1 if that trial failed."""
    from windlass.sdk.context_dir import Packed, pack_directory

    if follow and paused:
        raise InvalidArgument("--follow-first-trial cannot be used with --paused: no trial starts")
    if publish and not follow:
        raise InvalidArgument("-p needs --follow-first-trial: ports lead to the trial meanwhile")
    text = read_config(config_file, config or [])
    ports = published_ports(publish, config_of(text)) if publish else {}
    packed = Packed()
    if model_dir is not None:
        packed = pack_directory(model_dir, include or [])
    elif include:
        raise InvalidArgument("--include needs a MODEL_DIR")
    for line in packed.notices:
        notice(line)
    client = client_for(ctx)
    if preview:
        found = client.preview_experiment(text, project_id=project_id, template=template)
        print_preview(found, config_file, as_json=as_json)
        return
    with naming(config_file), upload(client.session, "Uploading model code"):
        answer = client.create_experiment(
            text, packed.files, activate=not paused, project_id=project_id, template=template
        )
    experiment_id = int(answer["experiment"]["id"])
    tell_warnings("experiment", answer)
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"Created experiment {experiment_id}")
    if follow:
        follow_first_trial(client, experiment_id, ports)


app.add_typer(experiment_again.app)

# Here, so that --help lists them between `create` and the commands that change something.
app.add_typer(experiment_show.app)
app.add_typer(experiment_compare.app)
app.add_typer(experiment_history.of_experiments)
app.add_typer(experiment_code.app)


@app.command()
def wait(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    polling_interval: Annotated[
        float, typer.Option("--polling-interval", min=0.1, help="Seconds between requests.")
    ] = 1.0,
) -> None:
    """Wait until an experiment ends. The exit code is 0 only if it completed."""
    client = client_for(ctx)
    experiment = wait_for_end(client, experiment_id, polling_interval)
    state = str(experiment.get("state"))
    typer.echo(f"Experiment {experiment_id}: {state_name(state)}")
    if state != "STATE_COMPLETED":
        print_failure(client, experiment)
        raise typer.Exit(1)
    if problem := experiment.get("error"):
        notice(f"warning: {problem}")


@app.command()
def pause(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Save checkpoints and release the slots; `activate` resumes."""
    _act(ctx, experiment_id, "pause", "Paused")


@app.command()
def activate(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Start or resume an experiment."""
    _act(ctx, experiment_id, "activate", "Activated")


@app.command()
def cancel(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Stop an experiment after its trials have saved a checkpoint."""
    _end(ctx, experiment_id, "cancel", "Canceling")


@app.command()
def kill(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Stop an experiment at once."""
    _end(ctx, experiment_id, "kill", "Killed")


@app.command()
def archive(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Hide an experiment that has ended from lists."""
    _act(ctx, experiment_id, "archive", "Archived")


@app.command()
def unarchive(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Show an archived experiment in lists again."""
    _act(ctx, experiment_id, "unarchive", "Unarchived")


@app.command()
def move(
    ctx: typer.Context, experiment_id: ExperimentId, workspace: WorkspaceName, project: ProjectName
) -> None:
    """Move an experiment to another project. Its runs get other local ids."""
    client = client_for(ctx)
    target = project_of(client, workspace, project)
    client.move_experiment(experiment_id, int(target["id"]))
    notice(f"Moved experiment {experiment_id} to project {target['name']}")


@app.command()
def delete(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> None:
    """Delete an experiment that has ended: checkpoints, metrics, logs and TensorBoard files."""
    if not yes:
        typer.confirm(
            f"Delete experiment {experiment_id} with all checkpoints, metrics and logs for good?",
            abort=True,
        )
    client_for(ctx).delete_experiment(experiment_id)
    notice(f"Deleting experiment {experiment_id}")


@app.command()
@with_groups
def download(
    ctx: typer.Context,
    experiment_id: ExperimentId,
    *,
    output_dir: Annotated[
        Path, typer.Option("-o", "--output-dir", help="Write into UUID below this directory.")
    ] = Path("checkpoints"),
    top_n: Annotated[
        int, typer.Option("--top-n", min=1, help="How many, the best ones first.")
    ] = 1,
    copy: CopyOptions,
) -> None:
    """Copy the best checkpoints of an experiment, by its metric, to this machine."""
    client = client_for(ctx)
    checkpoints = client.checkpoints(experiment_id, best=top_n)
    if not checkpoints:
        raise InvalidState(f"Experiment {experiment_id} has no checkpoint to download")
    for found in checkpoints:
        if why := without_metric(found):
            notice(f"warning: checkpoint {found['uuid']} is not known to be the best: {why}")
        target = output_dir / str(found["uuid"])
        copy.fetch(client, found, target)
        copy.tell(found, target)


@app.command("delete-tensorboard-files")
def delete_tensorboard_files(ctx: typer.Context, experiment_id: ExperimentId) -> None:
    """Delete the TensorBoard files of an experiment that has ended; its checkpoints stay."""
    tasks = client_for(ctx).delete_tensorboard_files(experiment_id)
    notice(f"Deleting the TensorBoard files of experiment {experiment_id}{see_log(tasks)}")


def _act(ctx: typer.Context, experiment_id: int, action: ExperimentAction, done: str) -> None:
    client_for(ctx).act(experiment_id, action)
    notice(f"{done} experiment {experiment_id}")


def _end(ctx: typer.Context, experiment_id: int, action: ExperimentAction, done: str) -> None:
    """What has ended already is no error, but nothing was done either."""
    experiment = client_for(ctx).experiment(experiment_id)["experiment"]
    if has_ended(experiment):
        notice(already_ended(experiment_id, experiment["state"]))
    else:
        _act(ctx, experiment_id, action, done)
