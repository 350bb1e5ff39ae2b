"""Webhooks: the calls, by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Session

_PATH = "/api/v1/webhooks"


class Webhooks:
    def __init__(self, session: Session) -> None:
        self._session = session

    def listed(self) -> list[Json]:
        """Those that one may see, by id."""
        return list(self._session.get(_PATH)["webhooks"])

    def create(
        self,
        name: str,
        url: str,
        triggers: Sequence[Mapping[str, Any]],
        *,
        slack: bool = False,
        specific: bool = False,
        workspace_id: int | None = None,
    ) -> Json:
        """`triggers`: {"triggerType", "condition"} each. `specific`: only experiments that name it call it."""
        body = {
            "name": name,
            "url": url,
            "webhookType": "WEBHOOK_TYPE_SLACK" if slack else "WEBHOOK_TYPE_DEFAULT",
            "mode": "WEBHOOK_MODE_SPECIFIC" if specific else "WEBHOOK_MODE_WORKSPACE",
            "workspaceId": workspace_id or 0,
            "triggers": [dict(one) for one in triggers],
        }
        return dict(self._session.post(_PATH, body)["webhook"])

    def set_url(self, webhook_id: int, url: str) -> None:
        self._session.request("PATCH", f"{_PATH}/{webhook_id}", body={"url": url})

    def delete(self, webhook_id: int) -> None:
        """Calls that wait are not made."""
        self._session.request("DELETE", f"{_PATH}/{webhook_id}")

    def test(self, webhook_id: int) -> None:
        """Raises InvalidArgument with what the receiver answered."""
        self._session.post(f"{_PATH}/{webhook_id}/test")

    def deliveries(self, webhook_id: int, limit: int = 100) -> list[Json]:
        """Calls that wait, and those of the last days, the newest first."""
        path = f"/api/v1/windlass/webhooks/{webhook_id}/deliveries"
        return list(self._session.get(path, {"limit": limit})["deliveries"])

    def signing_key(self) -> str:
        """By which receivers know that a call is of this cluster. For administrators."""
        return str(self._session.get("/api/v1/windlass/webhook-signing-key")["signingKey"])
