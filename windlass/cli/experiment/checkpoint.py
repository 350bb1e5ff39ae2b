"""`det checkpoint`: look at checkpoints, copy them to this machine, delete them or files of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.base.option_groups import with_groups
from windlass.cli.completion import CheckpointUuid
from windlass.cli.connect import client_for
from windlass.cli.experiment.copies import CopyOptions, OutputDirOption, show
from windlass.cli.experiment.show import list_checkpoints
from windlass.cli.groups import command_group
from windlass.cli.metadata import RemoveOption, SetOption, changed
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.text import notice, print_json, see_log
from windlass.cli.output.times import UtcOption

app = command_group()
app.command("list")(list_checkpoints)

YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
Uuids = Annotated[str, typer.Argument(metavar="UUIDS", help="UUIDs, separated by commas.")]


@app.command()
@with_groups
def download(
    ctx: typer.Context,
    uuid: CheckpointUuid,
    *,
    output_dir: OutputDirOption = None,
    as_json: JsonOption = False,
    copy: CopyOptions,
) -> None:
    """Copy a checkpoint to this machine. Run it again to go on after an interruption."""
    client = client_for(ctx)
    checkpoint = client.checkpoint(uuid)
    target = output_dir or Path("checkpoints") / uuid
    copy.fetch(client, checkpoint, target)
    if as_json:
        print_json({"path": str(target), "checkpoint": checkpoint})
    else:
        copy.tell(checkpoint, target)


@app.command()
def describe(
    ctx: typer.Context, uuid: CheckpointUuid, as_json: JsonOption = False, utc: UtcOption = False
) -> None:
    """Show a checkpoint."""
    checkpoint = client_for(ctx).checkpoint(uuid)
    if as_json:
        print_json(checkpoint)
    else:
        show(checkpoint, None)


@app.command()
def delete(ctx: typer.Context, uuids: Uuids, yes: YesOption = False) -> None:
    """Delete checkpoints with all their files."""
    some = _parsed(uuids)
    if not yes:
        typer.confirm(f"Delete {_counted(some)} from storage for good?", abort=True)
    tasks = client_for(ctx).delete_checkpoints(some)
    notice(f"Deleting {_counted(some)}{see_log(tasks)}")


@app.command()
def rm(
    ctx: typer.Context,
    uuids: Uuids,
    glob: Annotated[
        list[str] | None,
        typer.Option(
            "--glob",
            help="Delete files that match; may be repeated. Without it only the list of files is read again.",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Remove files from checkpoints."""
    some = _parsed(uuids)
    if glob and not yes:
        what = " and ".join(glob)
        typer.confirm(f"Remove {what} from {_counted(some)} for good?", abort=True)
    tasks = client_for(ctx).remove_checkpoint_files(some, glob or [])
    verb = f"Removing {' and '.join(glob)} from" if glob else "Reading the files again of"
    notice(f"{verb} {_counted(some)}{see_log(tasks)}")


@app.command()
def metadata(
    ctx: typer.Context,
    uuid: CheckpointUuid,
    change: SetOption = None,
    remove: RemoveOption = None,
) -> None:
    """Show or change the metadata of a checkpoint. The files in storage stay as they are."""
    client = client_for(ctx)
    known = dict(client.checkpoint(uuid).get("metadata") or {})
    if change or remove:
        new = changed(known, change, remove, what=f"Checkpoint {uuid}")
        known = client.set_checkpoint_metadata(uuid, new)["metadata"]
    print_json(known)


def _parsed(uuids: str) -> list[str]:
    found = [uuid.strip() for uuid in uuids.split(",") if uuid.strip()]
    if not found:
        raise InvalidArgument("No checkpoint is named: give UUIDs separated by commas")
    return list(dict.fromkeys(found))


def _counted(uuids: list[str]) -> str:
    return f"checkpoint {uuids[0]}" if len(uuids) == 1 else f"{len(uuids)} checkpoints"
