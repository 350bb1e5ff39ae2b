"""The numbers of runs in their project, given in the commit that makes a run or moves it."""

from __future__ import annotations

from sqlalchemy import func, select, update

from master.store import tables
from master.store.sql.changes import UNSHOWN
from master.store.unit_of_work import UnitOfWork

_P, _E, _T = tables.Project, tables.Experiment, tables.Trial


def number_runs(experiment_id: int, *, since: int = 0) -> UnitOfWork:
    """The next numbers of its project for the experiment's trials, in their order; for those from id `since` on."""
    here = (_T.experiment_id == experiment_id, _T.id >= since)
    project = select(_E.project_id).where(_E.id == experiment_id).scalar_subquery()
    last = select(_P.last_run).where(_P.id == project).scalar_subquery()
    ranked = (
        select(_T.id, func.row_number().over(order_by=_T.id).label("rank")).where(*here).subquery()
    )
    unit = UnitOfWork()
    unit.execute(update(_T).where(_T.id == ranked.c.id).values(local_number=last + ranked.c.rank))
    count = select(func.count()).select_from(_T).where(*here).scalar_subquery()
    counted = update(_P).where(_P.id == project).values(last_run=_P.last_run + count)
    unit.execute(counted.execution_options(**{UNSHOWN: True}))
    return unit
