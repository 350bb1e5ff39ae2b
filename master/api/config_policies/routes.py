"""Config policies of the cluster and of workspaces: look, set, delete."""

from __future__ import annotations

from fastapi import APIRouter

from master.api.access import Caller, Visible
from master.api.config_policies.replies import ConfigPoliciesReply, StoredConfigPoliciesReply
from master.api.permits import CLUSTER, SOME, VISIBLE, permit, workspace
from master.api.replies import Empty, Reply, reply
from master.api.request_models import Body, Int32, RowId, Text
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import finite
from master.auth.actions import Action
from master.auth.principal import Principal
from master.core.expconf.policies import Policies, WorkloadType
from master.core.expconf.secrets import masked
from windlass.base.errors import InvalidArgument

router = APIRouter(prefix="/api/v1/config-policies", route_class=ApiRoute, tags=["config policies"])

MAX_AFFECTED = 100
"""Sentences in one answer."""
GLOBAL = "/global/{workload_type}"
OF_WORKSPACE = "/workspaces/{workspace_id}/{workload_type}"


class PutConfigPolicies(Body):
    """The workload type and the workspace are named by the path, too."""

    config_policies: Text
    """YAML or JSON: `invariant_config`, `constraints`, or both."""
    workload_type: Text = ""
    workspace_id: Int32 = 0


@router.get(GLOBAL)
@permit(Action.VIEW_GLOBAL_POLICIES, SOME)
async def get_global(
    workload_type: WorkloadType, visible: Visible, api: TheApi
) -> Reply[ConfigPoliciesReply]:
    return await _shown(api, None, workload_type, shows=visible.all_secrets)


@router.put(GLOBAL)
@permit(Action.UPDATE_GLOBAL_POLICIES, CLUSTER)
async def put_global(
    workload_type: WorkloadType, body: PutConfigPolicies, by: Caller, api: TheApi
) -> Reply[StoredConfigPoliciesReply]:
    """Replaces it."""
    return await _put(api, None, workload_type, body.config_policies, by)


@router.delete(GLOBAL)
@permit(Action.UPDATE_GLOBAL_POLICIES, CLUSTER)
async def delete_global(workload_type: WorkloadType, by: Caller, api: TheApi) -> Reply[Empty]:
    await api.services.config_policies.delete(None, workload_type, by=by)
    return reply()


@router.get(OF_WORKSPACE)
@permit(Action.VIEW_WORKSPACE_POLICIES, VISIBLE)
async def get_of_workspace(
    workspace_id: RowId, workload_type: WorkloadType, visible: Visible, api: TheApi
) -> Reply[ConfigPoliciesReply]:
    row = (await api.reads.workspaces.workspace(workspace_id, visible)).workspace
    shows = visible.shows_secrets_of(row.user_id)
    return await _shown(api, workspace_id, workload_type, shows=shows)


@router.put(OF_WORKSPACE)
@permit(Action.UPDATE_WORKSPACE_POLICIES, workspace("workspace_id"))
async def put_of_workspace(
    workspace_id: RowId,
    workload_type: WorkloadType,
    body: PutConfigPolicies,
    by: Caller,
    api: TheApi,
) -> Reply[StoredConfigPoliciesReply]:
    """Replaces it."""
    return await _put(api, workspace_id, workload_type, body.config_policies, by)


@router.delete(OF_WORKSPACE)
@permit(Action.UPDATE_WORKSPACE_POLICIES, workspace("workspace_id"))
async def delete_of_workspace(
    workspace_id: RowId, workload_type: WorkloadType, by: Caller, api: TheApi
) -> Reply[Empty]:
    await api.services.config_policies.delete(workspace_id, workload_type, by=by)
    return reply()


async def _shown(
    api: ApiContext, workspace_id: int | None, workload: WorkloadType, *, shows: bool
) -> Reply[ConfigPoliciesReply]:
    document = await api.services.rules.config_policies.document(workspace_id, workload)
    return reply({"configPolicies": finite(document if shows else masked(document))})


async def _put(
    api: ApiContext, workspace_id: int | None, workload: WorkloadType, text: str, by: Principal
) -> Reply[StoredConfigPoliciesReply]:
    document = await api.services.config_policies.put(workspace_id, workload, text, by=by)
    affected = await _affected(api, workspace_id, workload)
    return reply({"configPolicies": finite(document), "affected": affected})


async def _affected(api: ApiContext, workspace_id: int | None, workload: WorkloadType) -> list[str]:
    """Who waits or runs otherwise than the policies say."""
    policies: dict[int, Policies] = {}
    found: list[str] = []
    for job in api.services.jobs.all_facts():
        if WorkloadType.of(job.type) is not workload or workspace_id not in (
            None,
            job.workspace_id,
        ):
            continue
        if job.workspace_id not in policies:
            effective = api.services.rules.config_policies.effective
            policies[job.workspace_id] = await effective(job.workspace_id, workload)
        order = job.order
        try:
            policies[job.workspace_id].require_order(
                priority=order.priority, weight=order.weight, max_slots=order.max_slots
            )
        except InvalidArgument as error:
            name = f"{job.type.value.lower()} {job.entity_id} of {job.owner_name}"
            found.append(f"{name}: {error.message}")
        if len(found) == MAX_AFFECTED:
            break
    return found
