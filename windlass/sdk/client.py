"""The calls that the command line needs, by name. JSON objects come back as the master sent them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from windlass.base.errors import NotFound
from windlass.sdk.config_policies import ConfigPolicies
from windlass.sdk.external_search import ExternalSearch
from windlass.sdk.interactive import InteractiveTasks, Kind
from windlass.sdk.models import Models
from windlass.sdk.pool_bindings import PoolBindings
from windlass.sdk.roles import Groups, Roles
from windlass.sdk.templates import Templates
from windlass.sdk.users import AccessTokens, Users
from windlass.sdk.webhooks import Webhooks
from windlass.sdk.wire import Json, hash_password
from windlass.sdk.workspaces import Projects, Workspaces

if TYPE_CHECKING:
    from windlass.sdk.context_dir import FileEntry
    from windlass.sdk.session import Query, Session

PAGE = 200
PAGE_OF_USERS = 2_000
"""The master has all of them in memory, and sorts them for each page."""
LARGE_PAGE = 1_000
"""Of rows without large parts."""
TERMINAL_STATES = frozenset(
    f"STATE_{name}" for name in ("COMPLETED", "CANCELED", "ERROR", "DELETED", "DELETE_FAILED")
)

RunAction = Literal["kill", "pause", "resume", "archive", "unarchive", "delete"]
ExperimentAction = Literal["activate", "pause", "cancel", "kill", "archive", "unarchive"]


_JOIN_TOKENS = "/api/v1/windlass/join-tokens"


class Client:
    """The calls of one Session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def info(self) -> Json:
        """Version and names of the master. Needs no login."""
        return self.session.get("/info")

    def me(self) -> Json:
        return dict(self.session.get("/api/v1/me")["user"])

    def user(self, username: str) -> Json:
        return dict(self.session.get(f"/api/v1/users/{_segment(username)}/by-username")["user"])

    def users(self, *, active: bool | None = None, limit: int | None = None) -> list[Json]:
        """By name."""
        query: Query = {"sortBy": "SORT_BY_USER_NAME", "active": active}
        size = PAGE_OF_USERS if limit is None else min(limit, PAGE_OF_USERS)
        pages = self._all_pages("/api/v1/users", "users", {**query, "limit": size}, 0)
        return list(islice(pages, limit))

    def user_calls(self) -> Users:
        """What is done to users and their sessions."""
        return Users(self.session, self.pages)

    def access_tokens(self) -> AccessTokens:
        """What programs log in with."""
        return AccessTokens(self.session, self.pages)

    def create_user(
        self,
        username: str,
        *,
        password: str | None,
        admin: bool = False,
        remote: bool = False,
        **more: Any,
    ) -> Json:
        """`password` None: for a remote user, who has none. `more`: further keys of a user."""
        user = {"username": username, "admin": admin, "active": True, "remote": remote, **more}
        body: Json = {"user": user, "isHashed": True}
        if password is not None:
            body["password"] = hash_password(password)
        return dict(self.session.post("/api/v1/users", body)["user"])

    def link_agent_user(self, user_id: int, link: Json) -> None:
        """`link`: agentUser, agentUid, agentGroup and agentGid; empty: as the cluster does by default."""
        self.user_calls().edit(user_id, {"agentUserGroup": link})

    def groups(self) -> Groups:
        return Groups(self.session)

    def roles(self) -> Roles:
        return Roles(self.session)

    def fleet(self) -> Json:
        """The instances of elastic pools, and what they have cost."""
        return self.session.get("/api/v1/windlass/fleet")

    def fleet_offers(self) -> Json:
        """`offers`: what elastic pools may buy, at which price, and what refuses; `warnings` of prices."""
        return self.session.get("/api/v1/windlass/fleet/offers")

    def fleet_plan(
        self, experiment: str = "", command: Json | None = None, template: str | None = None
    ) -> Json:
        """What would be launched now, with one of these configurations if it were submitted, too. Nothing is.

        `template`: it would be submitted with this one.
        """
        if not experiment and command is None:
            return self.session.get("/api/v1/windlass/fleet/plan")
        body: Json = {"command": command} if command is not None else {"experiment": experiment}
        if template is not None:
            body["template"] = template
        return self.session.post("/api/v1/windlass/fleet/plan", body)

    def fleet_decisions(self, wanted: Json, limit: int = 100) -> Json:
        """`decisions` about machines, the newest first, and their `pagination`.

        `wanted`: `pool`, `kind`, `machine`, `job`, `since`, `until`: all that are given hold.
        """
        path = "/api/v1/windlass/fleet/decisions"
        rows: list[Json] = []
        while True:
            page = {"offset": len(rows), "limit": min(1_000, limit - len(rows))}
            found = self.session.get(path, {**wanted, **page})
            rows += found["decisions"]
            if len(rows) >= limit or not found["decisions"]:
                return {**found, "decisions": rows}

    def batch_jobs(self) -> list[Json]:
        """The jobs of this cluster at Slurm or PBS that are not over."""
        return list(self.session.get("/api/v1/windlass/fleet/batch-jobs")["jobs"])

    def retry_offer(self, offer: str) -> list[Json]:
        """Forget why it is refused. For administrators. Returns the offer as it is then, once for each of its pools."""
        body = {"offer": offer}
        return list(self.session.post("/api/v1/windlass/fleet/offers/retry", body)["offers"])

    def bakes(self) -> list[Json]:
        """Images of machines that are being made, and the newest that were; the newest first."""
        return list(self.session.get("/api/v1/windlass/fleet/bakes")["bakes"])

    def begin_bake(self, pool: str, instance_type: str = "") -> Json:
        """Make an image of a machine of that pool. For administrators."""
        body = {"pool": pool, "instanceType": instance_type}
        return dict(self.session.post("/api/v1/windlass/fleet/bakes", body)["bake"])

    def cancel_bake(self, bake_id: str) -> Json:
        """End it, and remove what was made. For administrators."""
        path = f"/api/v1/windlass/fleet/bakes/{quote(bake_id, safe='')}"
        return dict(self.session.request("DELETE", path)["bake"])

    def fleet_costs(self, by: str, month: str | None = None) -> Json:
        """What elastic machines cost by pool, user, experiment, job, instance, month or day."""
        return self.session.get("/api/v1/windlass/fleet/costs", {"by": by, "month": month})

    def experiment_cost(self, experiment_id: int) -> Json | None:
        """What an experiment cost so far, and what it will. None: this master does not count costs."""
        try:
            return self.session.get(f"/api/v1/windlass/experiments/{experiment_id}/cost")
        except NotFound:
            return None

    def experiment_difference(self, experiment_id: int, other_id: int) -> Json:
        """What changes from the first to the other, in the configuration and in the code."""
        path = f"/api/v1/windlass/experiments/{experiment_id}/difference"
        return self.session.get(path, {"otherId": other_id})

    def search(self, text: str, limit: int) -> Json:
        """Whatever has this in its name, or this as its id: at most `limit`, and whether there is more."""
        return self.session.get("/api/v1/windlass/search", {"q": text, "limit": limit})

    def logout(self) -> None:
        self.session.post("/api/v1/auth/logout")

    def agents(self) -> list[Json]:
        return list(self.session.get("/api/v1/agents").get("agents") or [])

    def enable_agent(self, agent_id: str) -> Json:
        return dict(self.session.post(f"{_agent(agent_id)}/enable")["agent"])

    def disable_agent(self, agent_id: str, *, drain: bool = False) -> Json:
        """Without `drain` what runs on it is stopped."""
        return dict(self.session.post(f"{_agent(agent_id)}/disable", {"drain": drain})["agent"])

    def forget_agent(self, agent_id: str, *, force: bool = False) -> Json:
        """{"lostAllocations": ids}. With `force` also while it is connected."""
        path = f"/api/v1/windlass/agents/{_segment(agent_id)}"
        return self.session.request("DELETE", path, query={"force": True} if force else None)

    def refused_agents(self) -> list[Json]:
        """Agents whose connections the master refused, newest first. For administrators, as the next three."""
        return list(self.session.get("/api/v1/windlass/refused-agents")["refused"])

    def join_tokens(self) -> list[Json]:
        return list(self.session.get(_JOIN_TOKENS)["joinTokens"])

    def create_join_token(self, wanted: Json) -> Json:
        """`wanted`: pool, validS or untilRevoked, uses or anyNumber or agents, description."""
        return self.session.post(_JOIN_TOKENS, wanted)

    def revoke_join_token(self, token_id: str) -> Json:
        path = f"{_JOIN_TOKENS}/{_segment(token_id)}"
        return dict(self.session.request("DELETE", path)["joinToken"])

    def enable_slot(self, agent_id: str, slot_id: int) -> Json:
        return dict(self.session.post(f"{_agent(agent_id)}/slots/{slot_id}/enable")["slot"])

    def disable_slot(self, agent_id: str, slot_id: int, *, drain: bool = False) -> Json:
        """Without `drain` what holds it is stopped."""
        path = f"{_agent(agent_id)}/slots/{slot_id}/disable"
        return dict(self.session.post(path, {"drain": drain})["slot"])

    def live_allocations(self) -> list[Json]:
        """Every allocation that waits or has resources."""
        summaries = self.session.get("/api/v1/tasks").get("allocationIdToSummary") or {}
        return [summaries[id_] for id_ in sorted(summaries)]

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
        """Submit. `config` is YAML text. Returns {"experiment", "config", "warnings", "configWarnings"}."""
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

    def preview_experiment(
        self, config: str, *, project_id: int | None = None, template: str | None = None
    ) -> Json:
        """What would become of it: `problems`, or `config` with `origins`, `trials` and `plan`. Submits nothing."""
        body = {"config": config, "projectId": project_id, "template": template}
        return self.session.post("/api/v1/windlass/experiments/preview", body)

    def experiment(self, experiment_id: int) -> Json:
        """{"experiment", "config", "jobSummary", "origins", "template"}."""
        return self.session.get(f"/api/v1/experiments/{experiment_id}")

    def experiments(
        self,
        *,
        user: str | None = None,
        archived: bool | None = False,
        newest: int | None = None,
        configs: bool = True,
        project_id: int | None = None,
    ) -> list[Json]:
        """By id, oldest first. `newest`: only so many of the last ones; without `configs` it is faster."""
        query: Query = {
            "archived": archived,
            "users": user,
            "projectId": project_id,
            "sortBy": "SORT_BY_ID",
        }
        size = PAGE
        if not configs:
            query, size = {**query, "omitConfig": True}, LARGE_PAGE
        path, key = "/api/v1/experiments", "experiments"
        if newest is None:
            return list(self.pages(path, key, query, size=size))
        query = {**query, "orderBy": "ORDER_BY_DESC"}
        return list(self.pages(path, key, query, limit=newest, size=size))[::-1]

    def search_experiments(
        self, filter: str, sort: str, *, written: str = "", limit: int | None = None
    ) -> list[Json]:
        """Each with its `bestTrial`. In the language of filters and sorts of the published API.

        `written`: a filter as people write it, which must hold, too.
        """
        body = _search(filter, sort, written, limit)
        found = self.session.post("/api/v1/experiments-search", body)["experiments"]
        return [one["experiment"] | {"bestTrial": one["bestTrial"]} for one in found]

    def search_runs(
        self, filter: str, sort: str, *, written: str = "", limit: int | None = None
    ) -> list[Json]:
        """A run is a trial. Filters and sort as those of experiments."""
        body = _search(filter, sort, written, limit)
        return list(self.session.post("/api/v1/runs", body)["runs"])

    def act_on_runs(self, action: RunAction, run_ids: Sequence[int]) -> list[Json]:
        """Each is tried: {"id", "error"}, which is empty if it was done."""
        body = {"runIds": list(run_ids)}
        return list(self.session.post(f"/api/v1/runs/{action}", body)["results"])

    def searcher(self, experiment_id: int) -> Json:
        """{"searcher", "brackets", "rungs"}; without rungs unless it is a halving search."""
        return self.session.get(f"/api/v1/windlass/experiments/{experiment_id}/searcher")

    def validation_series(
        self, trial_ids: Sequence[int], metric: str, *, points: int
    ) -> dict[int, list[float]]:
        """Values of a validation metric by trial, in the order of steps, down-sampled to about so many points."""
        query: Query = {
            "trialIds": list(trial_ids),
            "metricNames": metric,
            "metricType": "METRIC_TYPE_VALIDATION",
            "maxDatapoints": points,
        }
        trials = self.session.get("/api/v1/trials/time-series", query)["trials"]
        return {
            int(one["trial"]["id"]): [
                value
                for series in one["metrics"]
                for point in series["data"]
                if isinstance(value := point["values"].get(metric), int | float)
            ]
            for one in trials
        }

    def act(self, experiment_id: int, action: ExperimentAction) -> None:
        self.session.post(f"/api/v1/experiments/{experiment_id}/{action}")

    def continue_experiment(self, experiment_id: int, override: str = "") -> Json:
        """Run one that has ended again, from its last checkpoints. `override`: YAML over its configuration."""
        body = {"id": experiment_id, "overrideConfig": override}
        return self.session.post("/api/v1/experiments/continue", body)

    def preview_search(self, config: Json) -> Json:
        """What the search of such an experiment would train. Keys: `config` (its searcher), `trials`."""
        body = {"config": config}
        return dict(self.session.post("/api/v1/preview-hp-search", body)["summary"])

    def fork_experiment(
        self,
        parent_id: int,
        config: str,
        *,
        activate: bool = True,
        project_id: int | None = None,
        template: str | None = None,
    ) -> Json:
        """Submit one with the files of another."""
        return self.session.post(
            "/api/v1/experiments",
            {
                "config": config,
                "modelDefinition": [],
                "parentId": parent_id,
                "activate": activate,
                "projectId": project_id or 0,
                "template": template,
            },
        )

    def delete_tensorboard_files(self, experiment_id: int) -> list[str]:
        """Soon; the ids of the tasks whose logs say what becomes of it."""
        path = f"/api/v1/experiments/{experiment_id}/tensorboard-files"
        return _tasks(self.session.request("DELETE", path))

    def set_resources(self, experiment_id: int, resources: Json) -> Json:
        """The experiment after it. Keys: `priority`, `weight`, `maxSlots` (None: no limit)."""
        body = {"id": experiment_id, "resources": resources}
        path = f"/api/v1/experiments/{experiment_id}"
        return dict(self.session.request("PATCH", path, body=body)["experiment"])

    def describe_experiment(self, experiment_id: int, texts: Mapping[str, str]) -> None:
        """Change its `name`, `description` or `notes`."""
        self.session.request("PATCH", f"/api/v1/experiments/{experiment_id}", body=dict(texts))

    def add_label(self, experiment_id: int, label: str) -> list[str]:
        """All labels after it."""
        return self._label("PUT", experiment_id, label)

    def remove_label(self, experiment_id: int, label: str) -> list[str]:
        """All labels after it."""
        return self._label("DELETE", experiment_id, label)

    def _label(self, method: str, experiment_id: int, label: str) -> list[str]:
        path = f"/api/v1/experiments/{experiment_id}/labels/{quote(label, safe='')}"
        return [str(one) for one in self.session.request(method, path)["labels"]]

    def jobs(
        self,
        *,
        pool: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        reverse: bool = False,
    ) -> list[Json]:
        """Of one pool (None: the default one), in queue order. `limit` None: all of them."""
        order = "ORDER_BY_DESC" if reverse else "ORDER_BY_ASC"
        query = {"resourcePool": pool, "orderBy": order}
        path = "/api/v1/job-queues"
        return list(self.pages(path, "jobs", query, offset, limit))

    def job(self, job_id: str) -> Json:
        """One that is not over; `job_id` may be only the beginning of its id."""
        return dict(self.session.get(f"/api/v1/windlass/jobs/{_segment(job_id)}")["job"])

    def explain_job(self, job_id: str) -> Json:
        """{"job", "text", "waiting", "waitingTotal", "holding", "lastRelease"}."""
        return self.session.get(f"/api/v1/windlass/jobs/{_segment(job_id)}/explain")

    def task(self, task_id: str) -> Json:
        """With its allocations, newest first, and the jobs of a batch system that they ran on."""
        return dict(self.session.get(f"/api/v1/tasks/{_segment(task_id)}")["task"])

    def update_jobs(self, updates: Sequence[Json]) -> None:
        """Each has `jobId` and one of `priority`, `weight`, `resourcePool`, `aheadOf` and `behindOf`; all are tried."""
        self.session.post("/api/v1/job-queues", {"updates": list(updates)})

    def trials(self, experiment_id: int, *, limit: int | None = None) -> list[Json]:
        query = {"sortBy": "SORT_BY_ID", "orderBy": "ORDER_BY_ASC"}
        path = f"/api/v1/experiments/{experiment_id}/trials"
        return list(self.pages(path, "trials", query, limit=limit))

    def checkpoints(self, experiment_id: int, *, best: int | None = None) -> list[Json]:
        """All checkpoints, or the `best` ones by the searcher's metric, best first."""
        path = f"/api/v1/experiments/{experiment_id}/checkpoints"
        if best is None:
            return list(self.pages(path, "checkpoints", {}))
        query = {
            "limit": best,
            "sortByAttr": "SORT_BY_SEARCHER_METRIC",
            "states": "STATE_COMPLETED",
        }
        return list(self.session.get(path, query).get("checkpoints") or [])

    def checkpoint(self, uuid: str) -> Json:
        return dict(self.session.get(f"/api/v1/checkpoints/{_segment(uuid)}")["checkpoint"])

    def delete_checkpoints(self, uuids: Sequence[str]) -> list[str]:
        """Soon; none if one of them cannot be. The ids of the tasks whose logs say what becomes of it."""
        body = {"checkpointUuids": list(uuids)}
        return _tasks(self.session.request("DELETE", "/api/v1/checkpoints", body=body))

    def remove_checkpoint_files(self, uuids: Sequence[str], globs: Sequence[str]) -> list[str]:
        """The same of some files. Without globs: the list of files is read again."""
        body = {"checkpointUuids": list(uuids), "checkpointGlobs": list(globs)}
        return _tasks(self.session.post("/api/v1/checkpoints/rm", body))

    def set_checkpoint_metadata(self, uuid: str, metadata: Json) -> Json:
        """Replaces it. The checkpoint after that."""
        path = f"/api/v1/checkpoints/{_segment(uuid)}/metadata"
        return dict(self.session.post(path, {"checkpoint": {"metadata": metadata}})["checkpoint"])

    def preview_gc(self, experiment_id: int, counts: Mapping[str, int]) -> Json:
        """{"metric_name", "checkpoints"}: what these keep counts would delete."""
        return self.session.get(f"/experiments/{experiment_id}/preview_gc", counts)

    def set_keep_counts(self, experiment_id: int, counts: Mapping[str, int]) -> list[str]:
        """Keys as in a configuration: `save_trial_best` and so on. The ids of the tasks that delete the others."""
        path = f"/api/v1/experiments/{experiment_id}"
        body = {"checkpointStorage": dict(counts)}
        return _tasks(self.session.request("PATCH", path, body=body))

    def delete_experiment(self, experiment_id: int) -> None:
        self.session.request("DELETE", f"/api/v1/experiments/{experiment_id}")

    def trial_checkpoints(self, trial_id: int) -> list[Json]:
        return list(self.pages(f"/api/v1/trials/{trial_id}/checkpoints", "checkpoints", {}))

    def trial(self, trial_id: int) -> Json:
        return dict(self.session.get(f"/api/v1/trials/{trial_id}")["trial"])

    def workloads(self, trial_id: int, *, batch_metrics: bool = False) -> list[Json]:
        """Each item has one of `training`, `validation` and `checkpoint`."""
        query = {"includeBatchMetrics": batch_metrics}
        return list(self.pages(f"/api/v1/trials/{trial_id}/workloads", "workloads", query))

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
        yield from self._logs(f"/api/v1/trials/{trial_id}/logs", follow, head, tail)

    def task_logs(
        self,
        task_id: str,
        *,
        follow: bool = False,
        head: int | None = None,
        tail: int | None = None,
    ) -> Iterator[Json]:
        """The same of any task; `follow` goes on until the task has ended."""
        yield from self._logs(f"/api/v1/tasks/{task_id}/logs", follow, head, tail)

    def interactive(self, kind: Kind) -> InteractiveTasks:
        """Commands, notebooks, shells or TensorBoards."""
        return InteractiveTasks(self.session, self.pages, kind)

    def external_search(self, experiment_id: int) -> ExternalSearch:
        """Of an experiment with the searcher `windlass_external`."""
        return ExternalSearch(self.session, experiment_id)

    def templates(self) -> Templates:
        """Configurations that others lie over."""
        return Templates(self.session, self.pages)

    def config_policies(self) -> ConfigPolicies:
        """What administrators fix for the work of others."""
        return ConfigPolicies(self.session)

    def pool_bindings(self) -> PoolBindings:
        """Which pools are kept for some workspaces."""
        return PoolBindings(self.session, self.pages)

    def models(self) -> Models:
        """The model registry."""
        return Models(self.session, self.pages)

    def webhooks(self) -> Webhooks:
        """Calls of other systems."""
        return Webhooks(self.session)

    def workspaces(self) -> list[Json]:
        return list(self.pages("/api/v1/workspaces", "workspaces", {}))

    def workspace_calls(self) -> Workspaces:
        """What projects, tasks and templates belong to."""
        return Workspaces(self.session, self.pages)

    def projects(self) -> Projects:
        """What experiments belong to."""
        return Projects(self.session, self.pages)

    def move_experiment(self, experiment_id: int, project_id: int) -> None:
        """Its runs get other local ids."""
        body = {"experimentId": experiment_id, "destinationProjectId": project_id}
        self.session.post(f"/api/v1/experiments/{experiment_id}/move", body)

    def _logs(self, path: str, follow: bool, head: int | None, tail: int | None) -> Iterator[Json]:
        if tail is not None:
            newest = self.session.stream(path, {"limit": tail, "orderBy": "ORDER_BY_DESC"})
            yield from reversed(list(newest))
        else:
            yield from self.session.stream(path, {"limit": head, "follow": follow or None})

    def pages(
        self,
        path: str,
        key: str,
        query: Query,
        offset: int = 0,
        limit: int | None = None,
        size: int = PAGE,
    ) -> Iterator[Json]:
        """The rows from `offset` on: `limit` of them, or all, `size` at a time."""
        size = size if limit is None else min(limit, size)
        return islice(self._all_pages(path, key, {**query, "limit": size}, offset), limit)

    def _all_pages(self, path: str, key: str, query: Query, offset: int) -> Iterator[Json]:
        while True:
            page = self.session.get(path, {**query, "offset": offset})
            yield from page.get(key) or []
            bounds = page.get("pagination") or {}
            end = int(bounds.get("endIndex") or 0)
            if end <= offset or end >= int(bounds.get("total") or 0):
                return
            offset = end


def _search(filter: str, sort: str, written: str, limit: int | None) -> Json:
    whole = {"filter": filter, "sort": sort, "limit": -1 if limit is None else limit}
    return {**whole, "written": written} if written else whole


def _agent(agent_id: str) -> str:
    return f"/api/v1/agents/{quote(agent_id, safe='')}"


def _tasks(answer: Json) -> list[str]:
    return [str(task) for task in answer.get("taskIds") or ()]


def _segment(text: str) -> str:
    """What a user typed, as one part of a path."""
    return quote(text, safe="")
