"""`det checkpoint`: look at a checkpoint, and copy its files from storage that this machine can reach."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from windlass.base.errors import InvalidArgument, InvalidState
from windlass.cli.completion import CheckpointUuid
from windlass.cli.connect import client_for
from windlass.cli.groups import AliasedGroup
from windlass.cli.output import JsonOption, print_fields, print_json, state_name
from windlass.cli.progress import transfer
from windlass.cli.times import UtcOption, local_time
from windlass.sdk.wire import Json

app = typer.Typer(
    cls=AliasedGroup,
    no_args_is_help=True,
    add_completion=False,
    help="Show and download checkpoints.",
)

METADATA = "metadata.json"
"""Training code finds a whole checkpoint by it: it is written last."""
COPIED_AT_ONCE = 1024 * 1024
_DOWNLOADABLE = ("STATE_COMPLETED", "STATE_PARTIALLY_DELETED")


@app.command()
def download(
    ctx: typer.Context,
    uuid: CheckpointUuid,
    output_dir: Annotated[
        Path | None,
        typer.Option("-o", "--output-dir", help="Write into this directory: checkpoints/UUID."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Print only the path of the checkpoint.")
    ] = False,
    mode: Annotated[
        Literal["auto", "direct"],
        typer.Option("--mode", help="Read the storage directly, which is what auto does, too."),
    ] = "auto",
    utc: UtcOption = False,
) -> None:
    """Copy a checkpoint from storage that this machine can reach (shared_fs or directory)."""
    checkpoint = client_for(ctx).checkpoint(uuid)
    if checkpoint["state"] not in _DOWNLOADABLE:
        raise InvalidState(
            f"Checkpoint {uuid} cannot be downloaded: its state is {state_name(checkpoint['state'])}"
        )
    target = output_dir or Path("checkpoints") / uuid
    if not (target / METADATA).exists():
        _copy(_source(checkpoint), target, checkpoint)
    if quiet:
        typer.echo(target)
    else:
        _print(checkpoint, target)


@app.command()
def describe(
    ctx: typer.Context, uuid: CheckpointUuid, as_json: JsonOption = False, utc: UtcOption = False
) -> None:
    """Show a checkpoint."""
    checkpoint = client_for(ctx).checkpoint(uuid)
    if as_json:
        print_json(checkpoint)
    else:
        _print(checkpoint, None)


def _print(checkpoint: Json, path: Path | None) -> None:
    training = checkpoint.get("training") or {}
    sizes = (checkpoint.get("resources") or {}).values()
    print_fields(
        [
            ("path", path),
            ("checkpoint", checkpoint["uuid"]),
            ("state", state_name(checkpoint["state"])),
            ("experiment", training.get("experimentId")),
            ("trial", training.get("trialId")),
            ("steps", (checkpoint.get("metadata") or {}).get("steps_completed")),
            ("reported", local_time(checkpoint.get("reportTime"))),
            ("bytes", sum(int(size) for size in sizes)),
            ("metrics", (training.get("validationMetrics") or {}).get("avgMetrics")),
            ("metadata", checkpoint.get("metadata")),
        ]
    )


def _source(checkpoint: Json) -> Path:
    """Where its files lie. Raises InvalidArgument with what would make them reachable."""
    from windlass.storage import open_storage

    uuid = str(checkpoint["uuid"])
    config: dict[str, Any] = (checkpoint.get("training") or {}).get("experimentConfig") or {}
    storage = config.get("checkpoint_storage") or {}
    if storage.get("type") not in ("shared_fs", "directory"):
        raise InvalidArgument(
            f"Checkpoint {uuid} is in storage of type {storage.get('type')}; this command reads "
            "shared_fs and directory. Use the tools of that storage"
        )
    path = open_storage(storage).local_path(uuid)
    if path is None or not path.is_dir():
        raise InvalidArgument(
            f"Checkpoint {uuid} is not at {path} on this machine: run this where that directory is mounted"
        )
    return path


def _copy(source: Path, target: Path, checkpoint: Json) -> None:
    from windlass.storage import list_files

    files = list_files(source)
    total, done = sum(files.values()), 0
    with transfer(f"Downloading {checkpoint['uuid']}") as report:
        for name in sorted(files, key=lambda name: (name == METADATA, name)):
            place = target / name
            if name.endswith("/"):
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with (source / name).open("rb") as reader, place.open("wb") as writer:
                while chunk := reader.read(COPIED_AT_ONCE):
                    writer.write(chunk)
                    done += len(chunk)
                    report(done, total)
            shutil.copystat(source / name, place)
    if METADATA not in files:
        target.mkdir(parents=True, exist_ok=True)
        (target / METADATA).write_text(json.dumps(checkpoint.get("metadata") or {}))
