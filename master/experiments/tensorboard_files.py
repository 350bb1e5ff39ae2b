"""Deleting the TensorBoard files of an experiment: they lie beside its checkpoints, in a directory of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path

import structlog

from master.core.actor import Actor
from windlass.base.errors import InvalidState
from windlass.base.json_types import JsonMapping

log = structlog.get_logger(__name__)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


async def delete_tensorboard_files(
    storage: JsonMapping, *, cluster_id: str, experiment_id: int, by: Actor
) -> None:
    """Files that are gone already are fine. Raises InvalidState if this machine cannot reach the storage."""
    base = _base(storage)
    relative = Path(cluster_id, "tensorboard", "experiment", str(experiment_id))
    await asyncio.to_thread(_delete, base, relative, experiment_id)
    log.info("tensorboard files deleted", experiment=experiment_id, by=str(by))


def _base(storage: JsonMapping) -> Path:
    match storage.get("type"):
        case "shared_fs":
            return Path(str(storage["host_path"])) / str(storage.get("storage_path") or "")
        case "directory":
            return Path(str(storage["container_path"]))
        case other:
            raise InvalidState(
                f"checkpoint_storage.type {other}: the master cannot delete files there; "
                "use the tools of that storage"
            )


def _delete(base: Path, relative: Path, experiment_id: int) -> None:
    if not base.is_dir():
        raise InvalidState(
            f"checkpoint storage {base} of experiment {experiment_id} is not mounted on the master: "
            f"delete {base / relative} on a machine that has it"
        )
    folder = os.open(base, _FOLDER)
    try:
        for name in relative.parent.parts:
            # Whoever may write to the storage must not lead us out of it by a link.
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        last = os.stat(relative.name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(last.st_mode):
            raise NotADirectoryError
        shutil.rmtree(relative.name, dir_fd=folder)
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise InvalidState(
            f"{base / relative} leads out of the checkpoint storage: not deleted"
        ) from error
    except OSError as error:
        raise InvalidState(f"{base / relative}: {error.strerror}: not deleted") from error
    finally:
        os.close(folder)
