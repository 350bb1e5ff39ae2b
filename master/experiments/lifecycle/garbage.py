"""What is to be deleted from checkpoint storage, as it is written down: `master.checkpoints` carries it out."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from master.experiments.lifecycle.state import ExperimentState

EVERYTHING = ("**/*",)
"""The globs that delete a checkpoint as a whole."""


class GcKind(StrEnum):
    POLICY = "POLICY"
    """What the keep counts of the experiment do not keep, when it is carried out."""
    FILES = "FILES"
    """What the globs name in the given checkpoints."""
    TENSORBOARD = "TENSORBOARD"
    """The TensorBoard files of the experiment."""
    TRIAL = "TRIAL"
    """All checkpoints of one trial, its TensorBoard files, and then every row of it."""
    EXPERIMENT = "EXPERIMENT"
    """All checkpoints, the TensorBoard files, and then every row of it."""


def gc_row(
    kind: GcKind,
    experiment_id: int,
    *,
    task: uuid.UUID,
    by: int,
    now: datetime,
    trial: int | None = None,
    checkpoints: Sequence[str] = (),
    globs: Sequence[str] = EVERYTHING,
) -> dict[str, object]:
    """A row of `tables.CheckpointGc`. `task`: the second part of its task id; `by`: a user id."""
    return {
        "task_id": f"{experiment_id}.{task}",
        "experiment_id": experiment_id,
        "kind": kind.value,
        "trial_id": trial,
        "checkpoints": list(checkpoints),
        "globs": list(globs),
        "asked_by": by,
        "asked_at": now,
        "attempts": 0,
        "seen": False,
        "error": "",
    }


def task_row(garbage: Mapping[str, object], owner: int) -> dict[str, object]:
    """Its row of `tables.Task`, whose log says what becomes of it. `owner`: that of the experiment."""
    return {
        "id": garbage["task_id"],
        "type": "CHECKPOINT_GC",
        "job_id": garbage["task_id"],
        "owner_id": owner,
        "experiment_id": garbage["experiment_id"],
        "trial_id": None,
        "created_at": garbage["asked_at"],
        "ended_at": None,
    }


def row_at_end(state: ExperimentState) -> dict[str, object] | None:
    """For an experiment that ends with this state; None if it has no checkpoint.

    The checkpoints of an unmanaged one are its user's: nobody here knows whether it goes on.
    """
    if (
        state.ended_at is None
        or state.unmanaged
        or not any(t.latest_checkpoint for t in state.trials.values())
    ):
        return None
    # Derived: a step is pure.
    task = uuid.uuid5(uuid.NAMESPACE_OID, f"{state.job_id} {state.ended_at.isoformat()}")
    return gc_row(GcKind.POLICY, state.id, task=task, by=state.owner_id, now=state.ended_at)


def changed_checkpoint(
    known: Mapping[str, int], state: str, left: Mapping[str, int]
) -> dict[str, object]:
    """The columns of a checkpoint of which these files are left: none means deleted, others than before partially.

    What is deleted keeps the list of what it had last.
    """
    if not any(not name.endswith("/") for name in left):
        return {"resources": dict(known), "state": "DELETED", "size": 0}
    if dict(left) != dict(known):
        state = "PARTIALLY_DELETED"
    return {"resources": dict(left), "state": state, "size": sum(left.values())}
