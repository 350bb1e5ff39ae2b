"""A metric report as a pure step, and the rows that it writes.

A report of a later allocation may roll back what an earlier one reported at or beyond its steps. Then the metrics of
the trial are computed again from the reports that remain, which only the store has: they are read before the step, and
the step asks for a new reading if any report came between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Select, and_, or_, select, update

from master.experiments.lifecycle import machine
from master.experiments.lifecycle.state import ExperimentState, TrialReports, TrialState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.reports.metrics import (
    VALIDATION,
    PostedMetrics,
    fold,
    rebuild,
    row_document,
)
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from windlass.base.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class History:
    """The reports of a trial that are not rolled back, oldest first, with their row ids."""

    of: TrialReports
    """What the trial's metrics were before it was read. Those of the step are this very object, or it is outdated."""
    reports: list[tuple[int, PostedMetrics]]


class HistoryNeeded(Exception):
    """The step cannot be made without a (newer) `History`."""


def report_metrics(
    state: ExperimentState,
    env: Env,
    request_id: str,
    report: PostedMetrics,
    history: History | None = None,
) -> ExperimentStep:
    """Fold a checked report in; tell the searcher of a validation; both in one commit. Raises HistoryNeeded."""
    trial = current_trial(state, request_id, report.run_id)
    row_id = env.next_metric_id()
    folded = fold(trial.metrics, report, state.settings, row_id)
    rows = UnitOfWork()
    if folded.rolled_back:
        if history is None or history.of is not trial.metrics:
            raise HistoryNeeded
        metrics = rebuild(history.reports, state.settings)
        folded = fold(metrics, report, state.settings, row_id)
        rows.execute(update(tables.Metric).where(_overtaken(report)).values(archived=True))
    if folded.is_repeat:
        return ExperimentStep(state, rows=tuple(rows.operations))
    if folded.merge_into is not None:
        rows.update(tables.Metric, {"id": folded.merge_into}, {"metrics": folded.row})
    else:
        rows.insert(tables.Metric, _metric_row(report, row_id))
    validation = report.avg if report.group == VALIDATION else None
    step = machine.metrics_reported(state, env, request_id, folded.metrics, validation)
    return replace(step, rows=tuple(rows.operations))


def current_trial(state: ExperimentState, request_id: str, run_id: int) -> TrialState:
    """Raises InvalidArgument for a report of another run: an allocation thought dead is refused."""
    trial = state.trials[request_id]
    if trial.run_id != run_id:
        raise InvalidArgument(f"invalid run id, {run_id} (reported) != {trial.run_id} (expected)")
    return trial


def surviving(report: PostedMetrics) -> Select[tables.Metric]:
    """The live rows of the trial that this report does not roll back, oldest first."""
    metric = tables.Metric
    return (
        select(metric)
        .where(
            metric.trial_id == report.trial_id,
            metric.archived.is_(False),
            ~_overtaken(report),
        )
        .order_by(metric.id)
    )


def report_from_row(row: tables.Metric) -> PostedMetrics:
    document = row.metrics
    batches: Sequence[Mapping[str, object]] | None = document["batch_metrics"]
    return PostedMetrics(
        trial_id=row.trial_id,
        run_id=row.run_id,
        group=row.group,
        steps=row.steps,
        avg=document["avg_metrics"],
        batches=None if batches is None else tuple(batches),
        at=row.reported_at,
    )


def _overtaken(report: PostedMetrics) -> ColumnElement[bool]:
    """Rows of earlier allocations that a report of a later allocation rolls back."""
    metric = tables.Metric
    return and_(
        metric.trial_id == report.trial_id,
        metric.run_id < report.run_id,
        metric.archived.is_(False),
        or_(
            and_(metric.group == report.group, metric.steps >= report.steps),
            and_(metric.group != report.group, metric.steps > report.steps),
        ),
    )


def _metric_row(report: PostedMetrics, row_id: int) -> dict[str, object]:
    return {
        "id": row_id,
        "trial_id": report.trial_id,
        "run_id": report.run_id,
        "group": report.group,
        "steps": report.steps,
        "metrics": row_document(report),
        "archived": False,
        "reported_at": report.at,
    }
