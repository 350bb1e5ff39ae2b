"""What programs say: `core_context.alert` of a trial."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from master.api.access import Caller, require
from master.api.permits import IN_BODY, permit
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, Text, Word
from master.api.routing import ApiRoute
from master.api.services import TheApi
from master.api.targets import experiment_target, trial_target
from master.auth.actions import Action
from master.core.webhooks.types import CustomFacts

router = APIRouter(route_class=ApiRoute, tags=["webhooks"])

LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
MAX_TITLE, MAX_DESCRIPTION = 1_000, 10_000


class AlertData(Body):
    title: Annotated[Text, Field(max_length=MAX_TITLE)] = ""
    description: Annotated[Text, Field(max_length=MAX_DESCRIPTION)] = ""
    level: Annotated[str, Word("LOG_LEVEL_", LEVELS)] = ""


class Alert(Body):
    experiment_id: Annotated[Int32, Field(ge=1)]
    trial_id: Annotated[Int32, Field(ge=0)] = 0
    data: AlertData = AlertData()


@router.post("/api/v1/webhooks/custom")
@permit(Action.REPORT, IN_BODY)
async def alert(body: Alert, principal: Caller, api: TheApi) -> Reply[Empty]:
    """Calls the webhooks that the configuration of the experiment names; none is no error."""
    if body.trial_id:
        target = await trial_target(api, body.trial_id)
    else:
        target = await experiment_target(api, body.experiment_id)
    require(api, principal, Action.REPORT, target)
    said = body.data
    facts = CustomFacts(title=said.title, description=said.description, level=said.level or "INFO")
    if target.experiment_id is not None:
        await api.services.experiments.alert(target.experiment_id, body.trial_id or None, facts)
    return reply()
