"""Deleting the TensorBoard files of an experiment: they lie beside its checkpoints, in a directory of their own."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import structlog

from master.core.actor import Actor
from windlass.base.errors import InvalidState
from windlass.base.json_types import JsonMapping

log = structlog.get_logger(__name__)


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
    target = base / relative
    # Whoever may write to the storage must not lead us out of it by a link.
    if target.resolve() != base.resolve() / relative:
        raise InvalidState(f"{target} leads out of the checkpoint storage: not deleted")
    if target.exists():
        shutil.rmtree(target)
