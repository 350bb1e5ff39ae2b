"""Config policies: the calls, by workload type ("EXPERIMENT" or "NTSC") and workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Session

_PATH = "/api/v1/config-policies"


class ConfigPolicies:
    """`workspace_id` None: the cluster's."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, workload: str, workspace_id: int | None = None) -> Json:
        """As it was written; {} if there is none."""
        return dict(self._session.get(_one(workload, workspace_id))["configPolicies"])

    def set(self, workload: str, text: str, workspace_id: int | None = None) -> Json:
        """Replace it by this YAML or JSON: {"configPolicies", "affected"}, the latter in sentences."""
        body = {
            "configPolicies": text,
            "workloadType": workload,
            **({} if workspace_id is None else {"workspaceId": workspace_id}),
        }
        return self._session.request("PUT", _one(workload, workspace_id), body=body)

    def delete(self, workload: str, workspace_id: int | None = None) -> None:
        """One that is not there is no error."""
        self._session.request("DELETE", _one(workload, workspace_id))


def _one(workload: str, workspace_id: int | None) -> str:
    scope = "global" if workspace_id is None else f"workspaces/{workspace_id}"
    return f"{_PATH}/{scope}/{workload}"
