"""Conditions that keep a query to what its reader may see: none at all for one who may see everything."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlmodel import col

from master.core.visibility import Visibility
from master.store import tables

Conditions = list[ColumnElement[bool]]
_P, _E, _K, _C = (
    tables.Project,
    tables.Experiment,
    tables.Task,
    tables.Command,
)


def workspace_visible(workspace_id: Any, visible: Visibility) -> Conditions:
    if visible.workspaces is None:
        return []
    return [workspace_id.in_(sorted(visible.workspaces))]


def project_visible(project_id: Any, visible: Visibility) -> Conditions:
    if visible.is_everything:
        return []
    here = workspace_visible(col(_P.workspace_id), visible)
    return [project_id.in_(select(col(_P.id)).where(*here))]


def experiment_visible(experiment_id: Any, visible: Visibility) -> Conditions:
    if visible.is_everything:
        return []
    here = project_visible(col(_E.project_id), visible)
    return [experiment_id.in_(select(col(_E.id)).where(*here))]


def task_visible(task_id: Any, visible: Visibility) -> Conditions:
    """Of an experiment, or a command."""
    if visible.is_everything:
        return []
    of_experiments = select(col(_K.id)).where(*experiment_visible(col(_K.experiment_id), visible))
    commands = select(col(_C.id)).where(*workspace_visible(col(_C.workspace_id), visible))
    return [or_(task_id.in_(of_experiments), task_id.in_(commands))]
