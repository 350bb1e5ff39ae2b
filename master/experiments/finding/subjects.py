"""What is looked for, as SQL for both databases: experiments or runs, with the columns that they have there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Select,
    SQLColumnExpression,
    String,
    and_,
    case,
    cast,
    false,
    func,
    not_,
    null,
    or_,
    select,
)
from sqlalchemy.orm import aliased

from master.experiments.finding.live_states import ACTIVE, QUEUED, RUNNING, LiveStates
from master.store import tables
from master.store.sql.portable import Json, Portable

Expression = ColumnElement[Any]
_E, _T, _C, _U = tables.Experiment, tables.Trial, tables.Checkpoint, tables.User
_P, _W = tables.Project, tables.Workspace
BEST = aliased(tables.Trial, name="best")
"""The trial of an experiment with the best searcher metric."""

_LIVE = _C.state != "DELETED"
NOTHING_LIVE = LiveStates()
_username: Expression = (
    select(_U.username).where(_U.id == _E.owner_id).correlate(_E).scalar_subquery()
)


class Subject(Protocol):
    """What is looked for: where its values are."""

    @property
    def id(self) -> SQLColumnExpression[int]: ...

    @property
    def live(self) -> LiveStates: ...

    def column(self, name: str) -> SQLColumnExpression[Any]: ...

    @property
    def summary(self) -> Json:
        """Metrics."""
        ...

    def is_live(self, state: str) -> ColumnElement[bool]:
        """Whether it is active and in this one of the states of `LIVE`."""
        ...


@dataclass(frozen=True)
class Runs:
    """Trials, joined with their experiments."""

    db: Portable
    now: datetime
    live: LiveStates = NOTHING_LIVE

    @property
    def id(self) -> SQLColumnExpression[int]:
        return _T.id

    @property
    def summary(self) -> Json:
        return _T.summary_metrics

    def column(self, name: str) -> SQLColumnExpression[Any]:
        return self._columns[name]

    def is_live(self, state: str) -> ColumnElement[bool]:
        elsewhere = _T.last_activity.is_not(None)
        return and_(run_state() == ACTIVE, _in_state(self, state, elsewhere))

    @cached_property
    def _columns(self) -> Mapping[str, SQLColumnExpression[Any]]:
        of_run = and_(_C.trial_id == _T.id, _LIVE)
        of_project = _P.id == _E.project_id
        return {
            **_of_experiment(self.db),
            "id": _T.id,
            "startTime": _T.created_at,
            "endTime": _T.ended_at,
            "duration": _duration(self.db, _T.created_at, _T.ended_at, self.now),
            "state": run_state(),
            "searcherMetricsVal": _T.searcher_metric,
            "checkpointSize": _size(of_run).correlate(_T).scalar_subquery(),
            "checkpointCount": _count(of_run).correlate(_T).scalar_subquery(),
            "experimentName": _E.name,
            "experimentDescription": _E.description,
            "experimentProgress": _E.progress,
            "experimentId": _E.id,
            "externalRunId": null(),
            "localId": (
                select(local_id(_P.key, _T.local_number)).where(of_project).correlate(_E, _T)
            ).scalar_subquery(),
            "isExpMultitrial": _is_multitrial(self.db),
            "archived": run_archived(),
        }


@dataclass(frozen=True)
class Experiments:
    """Experiments, each with its best trial if it has one."""

    db: Portable
    now: datetime
    live: LiveStates = NOTHING_LIVE

    @property
    def id(self) -> SQLColumnExpression[int]:
        return _E.id

    @property
    def summary(self) -> Json:
        return BEST.summary_metrics

    def column(self, name: str) -> SQLColumnExpression[Any]:
        return self._columns[name]

    def is_live(self, state: str) -> ColumnElement[bool]:
        return and_(_E.state == ACTIVE, _in_state(self, state, _E.unmanaged.is_(True)))

    @cached_property
    def _columns(self) -> Mapping[str, SQLColumnExpression[Any]]:
        here = and_(_C.experiment_id == _E.id, _LIVE)
        trials = select(func.count()).select_from(_T).where(_T.experiment_id == _E.id)
        return {
            **_of_experiment(self.db),
            "id": _E.id,
            "name": _E.name,
            "description": _E.description,
            "startTime": _E.created_at,
            "endTime": _E.ended_at,
            "duration": _duration(self.db, _E.created_at, _E.ended_at, self.now),
            "numTrials": trials.correlate(_E).scalar_subquery(),
            "state": _E.state,
            "searcherMetricsVal": BEST.searcher_metric,
            "progress": _E.progress,
            "checkpointSize": _size(here).correlate(_E).scalar_subquery(),
            "checkpointCount": _count(here).correlate(_E).scalar_subquery(),
            "externalTrialId": null(),
        }

    def best(self) -> ColumnElement[int]:
        """The id of the best trial, for a join."""
        smaller = self.db.leaf(_E.config, ("searcher", "smaller_is_better")).boolean
        metric = _T.searcher_metric
        # SQLite does not know the experiment's columns in an ORDER BY of the inner query.
        return case(
            (smaller.is_(false()), _first_trial(metric.desc())), else_=_first_trial(metric.asc())
        )


def _first_trial(by: ColumnElement[Any]) -> ColumnElement[int]:
    return (
        select(_T.id)
        .where(_T.experiment_id == _E.id, _T.searcher_metric.is_not(None))
        .order_by(by, _T.id)
        .limit(1)
        .correlate(_E)
        .scalar_subquery()
    )


def _in_state(
    subject: Runs | Experiments, state: str, elsewhere: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Of an active one. `elsewhere`: no agent of this master runs it, and so it counts as running."""
    ids = subject.live.ids
    if state == QUEUED:
        known = [id_ for of_state in ids.values() for id_ in of_state]
        return and_(not_(elsewhere), not_(subject.db.among(subject.id, known)))
    here = subject.db.among(subject.id, ids.get(state, ()))
    return or_(elsewhere, here) if state == RUNNING else and_(not_(elsewhere), here)


def run_state() -> Expression:
    """As it is stored: a trial that is not over rests with its experiment."""
    return case((and_(_T.state == "ACTIVE", _E.state == "PAUSED"), "PAUSED"), else_=_T.state)


def parent_archived() -> ColumnElement[bool]:
    return or_(_P.archived, _W.archived)


def local_id(key: SQLColumnExpression[str], number: SQLColumnExpression[int]) -> Expression:
    """The project's key, and a number that no other run of it has."""
    return key.concat("-").concat(cast(number, String))


def _of_experiment(db: Portable) -> Mapping[str, SQLColumnExpression[Any]]:
    return {
        "projectName": _of_project(_P.name),
        "workspaceName": _of_project(_W.name),
        "parentArchived": _of_project(parent_archived()),
        "tags": _E.labels,
        "forkedFrom": _E.parent_id,
        "searcherType": _searcher(db, "name"),
        "searcherMetric": _searcher(db, "metric"),
        "resourcePool": _E.resource_pool,
        "user": _username,
        "projectId": _E.project_id,
        "externalExperimentId": _E.external_id,
        "archived": _E.archived,
    }


def _of_project(value: SQLColumnExpression[Any]) -> SQLColumnExpression[Any]:
    """Of the experiment's, or of its workspace."""
    return (
        select(value)
        .join_from(_P, _W, _W.id == _P.workspace_id)
        .where(_P.id == _E.project_id)
        .correlate(_E)
        .scalar_subquery()
    )


def run_places(db: Portable) -> Select[int, str, int, int, bool, bool, bool]:
    """Of all runs."""
    return select(
        *(_T.id, _T.state, _E.id, _E.project_id),
        *(run_archived(), _E.archived, _is_multitrial(db)),
    ).join(_E, _E.id == _T.experiment_id)


def run_archived() -> ColumnElement[bool]:
    """By itself, or with its experiment."""
    return or_(_T.archived, _E.archived)


def _is_multitrial(db: Portable) -> ColumnElement[bool]:
    return _searcher(db, "name") != "single"


def _searcher(db: Portable, key: str) -> Expression:
    return db.leaf(_E.config, ("searcher", key)).text


def _count(where: ColumnElement[bool]) -> Select[int]:
    return select(func.count()).select_from(_C).where(where)


def _size(where: ColumnElement[bool]) -> Select[int]:
    return select(func.coalesce(func.sum(_C.size), 0)).select_from(_C).where(where)


def _duration(
    db: Portable,
    start: SQLColumnExpression[datetime],
    end: SQLColumnExpression[datetime | None],
    now: datetime,
) -> ColumnElement[Any]:
    """Never negative, also after the clock was set back."""
    seconds = db.whole_seconds(start, func.coalesce(end, now))
    return case((seconds < 0, 0), else_=seconds)
