"""What a TensorBoard is asked for: experiments and trials, found for whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, cast

from pydantic import Field

from master.api.experiments.bulk import Filters
from master.api.interactive.requests import Found, LaunchRequest, LaunchTask
from master.api.request_models import Int32
from master.api.services import ApiContext
from master.auth.actions import Action, Target
from master.auth.permissions import allowed, visibility
from master.core.expconf.secrets import values
from master.core.visibility import Visibility
from master.experiments.queries.experiments import ExperimentFilter, ExperimentRow
from master.parsing import in_parsing_thread
from master.store.paging import Page
from master.tasks.tensorboards import (
    MAX_TRIALS,
    Watched,
    details_of,
    environment_of,
    require_few,
    require_open_storage,
)
from windlass.base.errors import InvalidArgument, NotFound

MAX_IDS = 10_000
"""Of one request. How many are shown is checked when it is known what they are."""
Ids = Annotated[tuple[Int32, ...], Field(max_length=MAX_IDS)]


class TensorboardFilters(Filters):
    """Of experiments. Called so in the description of the API, which has another form of the other."""


class LaunchTensorboard(LaunchTask):
    experiment_ids: Ids = ()
    trial_ids: Ids = ()
    filters: TensorboardFilters | None = None


async def look_up(request: LaunchRequest) -> Found:
    """Raises NotFound, InvalidArgument, PermissionDenied."""
    api, body = request.api, request.body
    visible = visibility(request.by, Action.VIEW_ARTIFACTS)
    watched = await _watched(api, cast("LaunchTensorboard", body), visible)
    require_few(watched)
    shows = {one.id: visible.shows_secrets_of(one.owner_id) for one in watched}
    require_open_storage(watched, shows=shows, lent=await _lent(request, watched))
    newest = max(watched, key=lambda one: one.id)
    own = newest.owner_id == request.by.user_id
    config = environment_of(
        body.config, newest, own=own, shown=shows[newest.id], template=request.template
    )
    details = await in_parsing_thread(details_of, watched, api.services.info.cluster_id)
    return Found(config=config, details=details.model_dump(mode="json"))


async def _lent(request: LaunchRequest, watched: Iterable[Watched]) -> dict[int, set[str]]:
    found = {}
    for id_ in {one.workspace_id for one in watched}:
        target = Target(kind="workspace", id=id_, workspace_id=id_)
        if allowed(request.by, Action.CREATE_EXPERIMENT, target):
            defaults = await request.api.services.rules.defaults(id_)
            found[id_] = values(defaults.checkpoint_storage)
    return found


async def _watched(
    api: ApiContext, body: LaunchTensorboard, visible: Visibility
) -> Sequence[Watched]:
    queries = api.reads.experiments
    if body.filters is not None and body.experiment_ids:
        raise InvalidArgument("experimentIds: give either these or filters")
    if body.filters is None and not (body.experiment_ids or body.trial_ids):
        raise InvalidArgument("experimentIds, trialIds: say which experiments or trials to show")
    of_trials = await queries.experiments_of(body.trial_ids, visible)
    whole: Sequence[ExperimentRow] = ()
    if body.filters is not None or body.experiment_ids:
        where = (body.filters or Filters()).where(body.experiment_ids)
        whole = await _rows(api, where, visible)
    missing_trials = [id_ for id_ in body.trial_ids if id_ not in of_trials]
    known = {row.experiment.id for row in whole}
    _require_found([id_ for id_ in body.experiment_ids if id_ not in known], missing_trials)
    others = sorted({*of_trials.values()} - known)
    rows = [
        *whole,
        *(await _rows(api, ExperimentFilter(ids={"incl": others}), visible) if others else ()),
    ]
    if not rows:
        raise InvalidArgument("filters: no experiment matches them")
    return [
        Watched(
            id=row.experiment.id,
            config=row.experiment.config,
            owner_id=row.experiment.owner_id,
            whole=row.experiment.id in known,
            trials=row.num_trials,
            workspace_id=row.project.workspace_id,
            unmanaged=row.experiment.unmanaged,
            trial_ids=[t for t, e in of_trials.items() if e == row.experiment.id],
        )
        for row in rows
    ]


async def _rows(
    api: ApiContext, where: ExperimentFilter, visible: Visibility
) -> Sequence[ExperimentRow]:
    page = Page(limit=MAX_IDS)
    return (await api.reads.experiments.experiments(where, page, visible)).rows


def _require_found(experiments: Iterable[int], trials: Iterable[int]) -> None:
    """All that are missing in one error."""
    missing = [("experiment", id_) for id_ in dict.fromkeys(experiments)]
    missing += [("trial", id_) for id_ in dict.fromkeys(trials)]
    if missing:
        (kind, id_), *more = missing
        hint = "".join(f", nor {other} '{number}'" for other, number in more[:MAX_TRIALS])
        raise NotFound(kind, id_, hint)
