"""Conditions that keep a query to what its reader may see: none at all for one who may see everything."""

from __future__ import annotations

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, or_, select

from master.core.visibility import Visibility
from master.store import tables

Conditions = list[ColumnElement[bool]]
_P, _E, _K, _C, _S = (
    tables.Project,
    tables.Experiment,
    tables.Task,
    tables.Command,
    tables.ShownExperiment,
)


def workspace_visible(
    workspace_id: SQLColumnExpression[int | None], visible: Visibility
) -> Conditions:
    if visible.workspaces is None:
        return []
    return [workspace_id.in_(sorted(visible.workspaces))]


def project_visible(project_id: SQLColumnExpression[int | None], visible: Visibility) -> Conditions:
    if visible.is_everything:
        return []
    here = workspace_visible(_P.workspace_id, visible)
    return [project_id.in_(select(_P.id).where(*here))]


def experiment_visible(
    experiment_id: SQLColumnExpression[int | None], visible: Visibility
) -> Conditions:
    if visible.is_everything:
        return []
    here = project_visible(_E.project_id, visible)
    return [experiment_id.in_(select(_E.id).where(*here))]


def interactive_visible(visible: Visibility) -> Conditions:
    """Of a command, notebook, TensorBoard or the like: `tables.Command`."""
    boards = visible.tensorboards
    own = workspace_visible(_C.workspace_id, visible)
    if boards is None or visible.is_everything:
        return own
    is_board = _C.type == "TENSORBOARD"
    shown = [is_board, *workspace_visible(_C.workspace_id, Visibility(boards.workspaces))]
    if boards.experiments is not None:
        elsewhere = (
            select(_S.task_id)
            .join(_E, _E.id == _S.experiment_id)
            .join(_P, _P.id == _E.project_id)
            .where(_S.task_id == _C.id, _P.workspace_id.not_in(sorted(boards.experiments)))
        )
        shown.append(~elsewhere.exists())
    return [or_(and_(~is_board, *own), and_(*shown))]


def task_visible(task_id: SQLColumnExpression[str], visible: Visibility) -> Conditions:
    """Of an experiment, or a command."""
    if visible.is_everything and visible.of_interactive.is_everything:
        return []
    of_experiments = select(_K.id).where(*experiment_visible(_K.experiment_id, visible))
    commands = select(_C.id).where(*interactive_visible(visible.of_interactive))
    return [or_(task_id.in_(of_experiments), task_id.in_(commands))]
