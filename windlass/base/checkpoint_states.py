"""What the states of checkpoints mean to whoever wants their files."""

from __future__ import annotations

from enum import StrEnum

DOWNLOADABLE = ("STATE_COMPLETED", "STATE_PARTIALLY_DELETED")
_WHY = {
    "ACTIVE": "it is still being written: try again when it is COMPLETED",
    "ERROR": "it was not stored as a whole: `det checkpoint list {experiment}` shows others",
    "DELETED": (
        "its files were deleted, as somebody asked or as the keep counts of experiment {experiment} say: "
        "`det checkpoint list {experiment}` shows what is left, `det experiment set gc-policy` changes how many "
        "are kept"
    ),
}


class DownloadFrom(StrEnum):
    """How files come to a user's machine."""

    AUTO = "auto"
    """Direct; if that is not possible, through the master."""
    DIRECT = "direct"
    """From the storage."""
    MASTER = "master"


def not_downloadable(uuid: str, state: str, experiment_id: object) -> str:
    """For people. `state` as the master has it, without STATE_."""
    why = _WHY.get(state, "").format(experiment=experiment_id)
    return f"Checkpoint {uuid} cannot be downloaded, its state is {state}" + (
        f": {why}" if why else ""
    )
