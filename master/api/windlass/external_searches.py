"""Searches that a client drives: it adds trials, stops them, and says when there are no more."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from master.api.access import Caller, Visible
from master.api.permits import experiment, permit, trial
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, FreeObject, RowId, Text
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.trials.replies import TrialReply
from master.api.trials.routes import trials_json
from master.auth.actions import Action
from master.core.searcher.types import TrialAdded

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MAX_KEY = 200


class AddTrial(Body):
    key: Annotated[Text, Field(min_length=1, max_length=MAX_KEY)]
    """The client's own name for the trial, of this experiment: what is sent again with it adds no other trial."""
    hparams: FreeObject = Field(default_factory=dict)
    """Constants of the configuration may be left out."""
    parent_checkpoint: Annotated[Text, Field(max_length=MAX_KEY)] = ""
    """Where the trial starts; empty: as the configuration says."""


@router.post("/experiments/{id}/trials")
@permit(Action.UPDATE_EXPERIMENT, experiment("id"))
async def add_trial(
    id: RowId, body: AddTrial, principal: Caller, visible: Visible, api: TheApi
) -> Reply[TrialReply]:
    """Of the searcher windlass_external."""
    if body.parent_checkpoint:
        await api.reads.checkpoints.checkpoint(body.parent_checkpoint, visible)
    added = TrialAdded(body.key, body.hparams, body.parent_checkpoint or None)
    trial_id = await api.services.experiments.add_trial(id, added, by=principal)
    row = await api.reads.experiments.trial(trial_id, visible)
    return reply({"trial": (await trials_json(api, [row]))[0]})


@router.post("/trials/{id}/stop")
@permit(Action.END_EXPERIMENT, trial("id"))
async def stop_trial(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    """Ask it to save its work and end, as its search would: it counts as completed. Of any searcher."""
    await api.services.experiments.stop_trial(id, by=principal)
    return reply()


@router.post("/experiments/{id}/searcher/close")
@permit(Action.UPDATE_EXPERIMENT, experiment("id"))
async def close_search(id: RowId, principal: Caller, api: TheApi) -> Reply[Empty]:
    """The experiment ends when its last trial does. Of the searcher windlass_external."""
    await api.services.experiments.close_search(id, by=principal)
    return reply()
