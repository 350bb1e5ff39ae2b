"""The calls that the command line needs, by name. JSON objects come back as the master sent them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from windlass.sdk.context_dir import FileEntry
from windlass.sdk.session import Query, Session
from windlass.sdk.wire import Json

PAGE = 200
TERMINAL_STATES = frozenset(
    f"STATE_{name}" for name in ("COMPLETED", "CANCELED", "ERROR", "DELETED", "DELETE_FAILED")
)

ExperimentAction = Literal["activate", "pause", "cancel", "kill"]


class Client:
    """A thin face of one Session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def info(self) -> Json:
        """Version and names of the master. Needs no login."""
        return self.session.get("/info")

    def me(self) -> Json:
        return dict(self.session.get("/api/v1/me")["user"])

    def logout(self) -> None:
        self.session.post("/api/v1/auth/logout")

    def agents(self) -> list[Json]:
        return list(self.session.get("/api/v1/agents").get("agents") or [])

    def resource_pools(self) -> list[Json]:
        return list(self.session.get("/api/v1/resource-pools").get("resourcePools") or [])

    def create_experiment(
        self,
        config: str,
        files: Sequence[FileEntry],
        *,
        activate: bool = True,
        project_id: int | None = None,
        template: str | None = None,
    ) -> Json:
        """Submit. `config` is YAML text. Returns {"experiment", "config", "warnings"}."""
        return self.session.post(
            "/api/v1/experiments",
            {
                "config": config,
                "modelDefinition": [file.to_json() for file in files],
                "activate": activate,
                "validateOnly": False,
                "projectId": project_id,
                "template": template,
            },
        )

    def experiment(self, experiment_id: int) -> Json:
        """{"experiment", "config", "jobSummary"}."""
        return self.session.get(f"/api/v1/experiments/{experiment_id}")

    def experiments(self, *, user: str | None = None, archived: bool | None = False) -> list[Json]:
        query = {"archived": archived, "users": user}
        return list(self._pages("/api/v1/experiments", "experiments", query))

    def act(self, experiment_id: int, action: ExperimentAction) -> None:
        self.session.post(f"/api/v1/experiments/{experiment_id}/{action}")

    def trials(self, experiment_id: int) -> list[Json]:
        query = {"sortBy": "SORT_BY_ID", "orderBy": "ORDER_BY_ASC"}
        return list(self._pages(f"/api/v1/experiments/{experiment_id}/trials", "trials", query))

    def checkpoints(self, experiment_id: int, *, best: int | None = None) -> list[Json]:
        """All checkpoints, or the `best` ones by the searcher's metric, best first."""
        path = f"/api/v1/experiments/{experiment_id}/checkpoints"
        if best is None:
            return list(self._pages(path, "checkpoints", {}))
        query = {
            "limit": best,
            "sortByAttr": "SORT_BY_SEARCHER_METRIC",
            "states": "STATE_COMPLETED",
        }
        return list(self.session.get(path, query).get("checkpoints") or [])

    def trial(self, trial_id: int) -> Json:
        return dict(self.session.get(f"/api/v1/trials/{trial_id}")["trial"])

    def workloads(self, trial_id: int, *, batch_metrics: bool = False) -> list[Json]:
        """Each item has one of `training`, `validation` and `checkpoint`."""
        query = {"includeBatchMetrics": batch_metrics}
        return list(self._pages(f"/api/v1/trials/{trial_id}/workloads", "workloads", query))

    def kill_trial(self, trial_id: int) -> None:
        self.session.post(f"/api/v1/trials/{trial_id}/kill")

    def logs(
        self,
        trial_id: int,
        *,
        follow: bool = False,
        head: int | None = None,
        tail: int | None = None,
    ) -> Iterator[Json]:
        """Log entries, oldest first. `follow` goes on until the trial has ended."""
        path = f"/api/v1/trials/{trial_id}/logs"
        if tail is not None:
            newest = self.session.stream(path, {"limit": tail, "orderBy": "ORDER_BY_DESC"})
            yield from reversed(list(newest))
        else:
            yield from self.session.stream(path, {"limit": head, "follow": follow or None})

    def _pages(self, path: str, key: str, query: Query) -> Iterator[Json]:
        offset = 0
        while True:
            page = self.session.get(path, {**query, "limit": PAGE, "offset": offset})
            yield from page.get(key) or []
            bounds = page.get("pagination") or {}
            end = int(bounds.get("endIndex") or 0)
            if end <= offset or end >= int(bounds.get("total") or 0):
                return
            offset = end
