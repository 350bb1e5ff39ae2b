"""What runs do differently, and what came of it: our own addition to the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import yaml
from fastapi import APIRouter
from fastapi import Query as QueryParameter
from pydantic import Field
from typing_extensions import TypedDict

from master.api.access import Visible
from master.api.experiments import wire
from master.api.experiments.replies import Experiment
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import MAX_ID, Int32, Query, RowId
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.trials.replies import Trial
from master.api.trials.routes import trials_json
from master.api.values import finite
from master.auth.actions import Action
from master.core.settings_difference import NOT_SET, Setting, settings_of
from master.core.visibility import Visibility
from master.experiments.code_difference import (
    FileChange,
    FilesDifference,
    archives_difference,
    text_difference,
)
from master.experiments.queries.experiments import ExperimentRow
from master.parsing import in_parsing_thread
from windlass.base.errors import InvalidArgument, NotFound

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MOST_RUNS = 100
"""Of one comparison."""
MOST_SETTINGS, DEFAULT_SETTINGS = 2_000, 500
"""Of one reply."""

Ids = Annotated[tuple[Int32, ...], Field(max_length=MOST_RUNS)]


class ComparedRun(TypedDict):
    experiment: Experiment
    """As lists show it, without its configuration."""
    trial: Trial | None
    """That was asked for, or else the best one of the experiment; null: it has none yet."""
    usd: float | None
    """What the experiment cost so far; null for trials, whose costs are not told apart."""


class SettingValue(TypedDict):
    value: Any


class ComparedSetting(TypedDict):
    path: list[str]
    """Its keys, from the root of the configuration."""
    differs: bool
    values: list[SettingValue | None]
    """One for each run; null: the run does not set it."""


class ComparisonReply(TypedDict):
    runs: list[ComparedRun]
    settings: list[ComparedSetting]
    """Those that differ first, then by path."""
    differing: int
    """How many settings differ."""
    total: int
    """How many there are."""


class ComparedFile(TypedDict):
    path: str
    change: FileChange
    diff: str
    """Unified, with three lines around each change."""
    whyNot: str
    """Why there is no diff: it is too large, or not text."""


class DifferenceReply(TypedDict):
    configuration: str
    """A unified diff of both as YAML; empty: they are the same, or too long."""
    files: list[ComparedFile]
    """Of the model definitions: the first of those that differ, by path."""
    differing: int
    """How many files differ."""
    same: int
    """How many do not."""


class Compare(Query):
    experiment_ids: Ids = ()
    trial_ids: Ids = ()
    """Instead of experiments."""
    all: bool = False
    """Also settings that are the same everywhere."""
    offset: Annotated[Int32, Field(ge=0)] = 0
    limit: Annotated[Int32, Field(ge=0, le=MOST_SETTINGS)] = DEFAULT_SETTINGS
    """Of settings."""


@router.get("/compare")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def compare(
    query: Annotated[Compare, QueryParameter()], visible: Visible, api: TheApi
) -> Reply[ComparisonReply]:
    """Experiments by their configurations and best trials; or trials by theirs, with the hyperparameters each has."""
    if bool(query.experiment_ids) == bool(query.trial_ids):
        raise InvalidArgument("experimentIds, trialIds: name experiments, or else trials")
    if query.experiment_ids:
        runs, configs = await _experiments(api, query.experiment_ids, visible)
    else:
        runs, configs = await _trials(api, query.trial_ids, visible)
    settings = await in_parsing_thread(settings_of, configs)
    differing = [one for one in settings if one.differs]
    same = [one for one in settings if not one.differs] if query.all else []
    shown = [*differing, *same][query.offset :][: query.limit or DEFAULT_SETTINGS]
    return reply(
        {
            "runs": runs,
            "settings": [_setting(one) for one in shown],
            "differing": len(differing),
            "total": len(settings),
        }
    )


@router.get("/experiments/{id}/difference")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def difference(
    id: RowId,
    otherId: Annotated[int, QueryParameter(ge=0, le=MAX_ID)],
    visible: Visible,
    api: TheApi,
) -> Reply[DifferenceReply]:
    """What changes from the first experiment to the other, in the configuration and in the code."""
    one, other = [await api.reads.experiments.experiment(each, visible) for each in (id, otherId)]
    configs = [wire.shown_config(row, visible).config for row in (one, other)]
    blobs = [row.experiment.model_definition for row in (one, other)]
    found = FilesDifference()
    if blobs[0] != blobs[1]:
        archives = [await api.services.blobs.get(blob) if blob else b"" for blob in blobs]
        found = await in_parsing_thread(archives_difference, *archives)
    return reply(
        {
            "configuration": await in_parsing_thread(_configs_difference, *configs),
            "files": [
                {
                    "path": file.path,
                    "change": file.change,
                    "diff": file.diff,
                    "whyNot": file.why_not,
                }
                for file in found.files
            ],
            "differing": found.differing,
            "same": found.same,
        }
    )


def _configs_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    before, after = (
        yaml.safe_dump(finite(config), allow_unicode=True, sort_keys=True) for config in (old, new)
    )
    return text_difference("configuration", before, after)


async def _experiments(
    api: ApiContext, ids: Sequence[int], visible: Visibility
) -> tuple[list[ComparedRun], list[Mapping[str, Any]]]:
    """In the order of `ids`, each once, with what they are configured to do. Raises NotFound."""
    rows = await _rows(api, ids, visible)
    best_ids = await api.reads.comparisons.best_trials(
        {id_: _smaller_is_better(row) for id_, row in rows.items()}
    )
    found = await api.reads.experiments.trials_by_id(sorted(best_ids.values()), visible)
    best = {trial["experimentId"]: trial for trial in await trials_json(api, found)}
    usd = await api.services.costs.experiments_usd(list(rows))
    runs: list[ComparedRun] = [
        {
            "experiment": _experiment(api, row, best.get(id_)),
            "trial": best.get(id_),
            "usd": usd.get(id_, 0.0),
        }
        for id_, row in rows.items()
    ]
    return runs, [wire.shown_config(row, visible).config for row in rows.values()]


async def _trials(
    api: ApiContext, ids: Sequence[int], visible: Visibility
) -> tuple[list[ComparedRun], list[Mapping[str, Any]]]:
    """The same; a trial's configuration has the hyperparameters that were chosen for it."""
    await api.reads.experiments.require_trials(ids, visible)
    found = await api.reads.experiments.trials_by_id(ids, visible)
    trials = {trial["id"]: trial for trial in await trials_json(api, found)}
    rows = await _rows(api, [trial["experimentId"] for trial in trials.values()], visible)
    runs: list[ComparedRun] = []
    configs: list[Mapping[str, Any]] = []
    for id_ in dict.fromkeys(ids):
        if (trial := trials.get(id_)) is None:
            continue  # it was deleted meanwhile
        row = rows[trial["experimentId"]]
        runs.append({"experiment": _experiment(api, row, None), "trial": trial, "usd": None})
        config = wire.shown_config(row, visible).config
        configs.append({**config, "hyperparameters": trial["hparams"]})
    return runs, configs


async def _rows(
    api: ApiContext, ids: Sequence[int], visible: Visibility
) -> dict[int, ExperimentRow]:
    """In the order of `ids`. Raises NotFound for the first that is not there."""
    found = await api.reads.experiments.experiments_by_id(ids, visible)
    if missing := set(ids) - set(found):
        raise NotFound("experiment", min(missing))
    return {id_: found[id_] for id_ in ids}


def _experiment(api: ApiContext, row: ExperimentRow, best: Trial | None) -> Experiment:
    live = api.services.experiments.live(row.experiment.id)
    shown = wire.summary(row.summary, live, api.services.clock.now())
    searcher: Mapping[str, Any] = row.experiment.config.get("searcher") or {}
    shown["searcherType"] = searcher.get("name", "")
    shown["searcherMetric"] = searcher.get("metric")
    if best is not None:
        shown["bestTrialId"] = best["id"]
        shown["bestTrialSearcherMetric"] = best["searcherMetricValue"]
    return shown


def _smaller_is_better(row: ExperimentRow) -> bool:
    searcher: Mapping[str, Any] = row.experiment.config.get("searcher") or {}
    return bool(searcher.get("smaller_is_better", True))


def _setting(one: Setting) -> ComparedSetting:
    return {
        "path": list(one.path),
        "differs": one.differs,
        "values": [None if value is NOT_SET else {"value": finite(value)} for value in one.values],
    }
