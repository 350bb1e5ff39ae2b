"""Checkpoints that are collected or deleted, and experiments that are: over the API, with files in a folder."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from master.allocations.machine import AllocationState
from master.logs.rows import LogQuery
from master.store import tables
from master.store.blob_names import named_blobs
from tests.fakes.api_world import SINGLE, ApiWorld, api_world

FILES: Mapping[str, str] = {"a.txt": "12345", "dir/b.txt": "1", "metadata.json": "{}"}


class Training:
    """A trial that writes checkpoints."""

    def __init__(
        self, world: ApiWorld, folder: Path, experiment: int, run: AllocationState
    ) -> None:
        self.world, self.folder, self.experiment, self.run = world, folder, experiment, run
        self.trial = world.trial_id(experiment)
        self.url = f"/api/v1/experiments/{experiment}"

    async def save(self, uuid: str, steps: int, loss: float | str | None = None) -> Path:
        for name, content in FILES.items():
            path = self.folder / uuid / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        if loss is not None:
            await self.world.report(self.trial, "validation", steps, loss=loss)
        await self.world.checkpoint(self.run, uuid, steps)
        return self.folder / uuid

    async def states(self) -> dict[str, str]:
        found = await self.world.ok("GET", f"{self.url}/checkpoints")
        return {c["uuid"]: c["state"].removeprefix("STATE_") for c in found["checkpoints"]}

    def there(self) -> set[str]:
        return {path.parent.name for path in self.folder.glob("*/a.txt")}

    async def finish(self) -> None:
        await self.world.finish(self.run)
        await self.world.collected()


async def training(world: ApiWorld, folder: Path, config: str = SINGLE) -> Training:
    if not world.agents:
        await world.add_agent()
    experiment = await world.create(config)
    return Training(world, folder, experiment, await world.run_of(experiment))


def keeping(best: int, trial_best: int, latest: int) -> dict[str, Any]:
    counts = {"saveExperimentBest": best, "saveTrialBest": trial_best, "saveTrialLatest": latest}
    return {"checkpointStorage": counts}


async def log_of(world: ApiWorld, task_id: str) -> str:
    """Its lines, once there are any: they are stored a moment later."""
    while True:
        rows = await world.services.logs.query(LogQuery(task_ids=(task_id,)))
        if rows:
            return "\n".join(row.log for row in rows)
        await asyncio.sleep(0)


async def until_said(world: ApiWorld, task_ids: list[str], words: str) -> None:
    (id_,) = task_ids
    while words not in await log_of(world, id_):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)


async def told_at_once(world: ApiWorld, task_ids: list[str]) -> None:
    """The task is there before anything of it is done."""
    for id_ in task_ids:
        shown = await world.ok("GET", f"/api/v1/tasks/{id_}")
        assert shown["task"]["taskType"] == "TASK_TYPE_CHECKPOINT_GC"


async def gc_tasks(world: ApiWorld) -> list[tables.Task]:
    task = tables.Task
    return await world.services.store.read(select(task).where(task.type == "CHECKPOINT_GC"))


async def test_what_the_keep_counts_do_not_keep_goes_at_the_end(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("best", 1, 0.1)
    await at.save("worse", 2, 0.5)
    await at.save("unmeasured", 3)
    await at.save("undefined", 4, "NaN")
    await at.save("latest", 5, 0.9)
    assert set(await at.states()) == at.there()
    await at.finish()
    assert at.there() == {"best", "latest"}
    states = await at.states()
    assert {uuid for uuid, state in states.items() if state == "DELETED"} == {
        "worse",
        "unmeasured",
        "undefined",
    }
    assert (await world.ok("GET", at.url))["experiment"]["checkpointCount"] == 2
    (task,) = await gc_tasks(world)
    assert task.id.startswith(f"{at.experiment}.")
    assert task.ended_at is not None
    said = await log_of(world, task.id)
    assert "Deleting 3 checkpoints of experiment 1: not kept by save_experiment_best" in said
    shown = await world.ok("GET", f"/api/v1/tasks/{task.id}")
    assert shown["task"]["taskType"] == "TASK_TYPE_CHECKPOINT_GC"


async def test_an_experiment_that_loses_nothing_has_no_task_for_it(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("only", 1, 0.1)
    await at.finish()
    assert at.there() == {"only"}
    assert await gc_tasks(world) == []


async def test_new_keep_counts_apply_at_once_but_never_to_what_a_trial_goes_on_from(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("first", 1, 0.1)
    await at.save("second", 2, 0.5)
    await at.save("newest", 3, 0.9)
    query = "save_experiment_best=0&save_trial_best=0&save_trial_latest=0"
    preview = await world.ok("GET", f"/experiments/{at.experiment}/preview_gc?{query}")
    assert preview["metric_name"] == "loss"
    assert [(c["UUID"], c["ValidationMetrics"]) for c in preview["checkpoints"]] == [
        ("first", {"loss": 0.1}),
        ("second", {"loss": 0.5}),
    ]
    assert at.there() == {"first", "second", "newest"}
    patched = await world.ok("PATCH", at.url, keeping(0, 0, 0))
    await told_at_once(world, patched["taskIds"])
    storage = patched["experiment"]["config"]["checkpoint_storage"]
    assert (storage["save_trial_best"], storage["save_trial_latest"]) == (0, 0)
    await world.collected()
    assert at.there() == {"newest"}
    await until_said(world, patched["taskIds"], "Deleted 2 of 2")
    again = await world.ok("PATCH", at.url, keeping(0, 1, 1))
    await until_said(world, again["taskIds"], "Nothing to delete")
    await at.finish()
    assert at.there() == {"newest"}
    renamed = await world.ok("PATCH", at.url, {"name": "another"})
    assert renamed["taskIds"] == []
    await world.ok("PATCH", at.url, keeping(0, 0, 0))
    await world.collected()
    assert at.there() == set()
    refusal = await world.refused(400, "PATCH", at.url, keeping(-1, 0, 0))
    assert "saveExperimentBest" in refusal


async def test_a_checkpoint_that_another_trial_was_started_from_is_kept(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("source", 1, 0.5)
    await at.save("better", 2, 0.1)
    started = SINGLE.replace("searcher: {", "searcher: {source_checkpoint_uuid: source, ")
    other = await world.create(started, activate=False)
    refusal = await world.refused(
        400, "DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["source"]}
    )
    assert "source is what trial 2, which has not ended, goes on from" in refusal
    await at.finish()
    assert at.there() == {"source", "better"}
    assert "goes on from" in await world.refused(400, "DELETE", at.url)
    await world.ok("POST", f"/api/v1/experiments/{other}/kill")
    await world.ok("DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["source"]})
    await world.collected()
    assert at.there() == {"better"}


async def test_checkpoints_are_deleted_on_request_and_nothing_else_is(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    for steps, uuid in enumerate(("one", "two", "three")):
        await at.save(uuid, steps, 0.1)
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger" / "a.txt").write_text("not ours")
    for missing in (["one", "missing"], ["stranger"]):
        body = {"checkpointUuids": missing}
        assert "not found" in await world.refused(404, "DELETE", "/api/v1/checkpoints", body)
    assert "goes on from" in await world.refused(
        400, "DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["one", "three"]}
    )
    assert at.there() == {"one", "two", "three", "stranger"}
    body = {"checkpointUuids": ["one", "one"]}
    asked = await world.ok("DELETE", "/api/v1/checkpoints", body)
    await told_at_once(world, asked["taskIds"])
    await world.collected()
    await until_said(world, asked["taskIds"], "Checkpoint one: deleted")
    assert at.there() == {"two", "three", "stranger"}
    assert (await at.states())["one"] == "DELETED"
    said = await world.refused(409, "GET", "/checkpoints/one")
    assert f"keep counts of experiment {at.experiment} say: `det checkpoint list" in said
    # Again: what is deleted is no error.
    assert (await world.ok("DELETE", "/api/v1/checkpoints", body))["taskIds"] == []
    shown = (await world.ok("GET", "/api/v1/checkpoints/one"))["checkpoint"]
    assert shown["state"] == "STATE_DELETED"
    assert "a.txt" in shown["resources"], "what it had last, as published"


async def test_some_files_of_a_checkpoint_are_removed(world: ApiWorld, tmp_path: Path) -> None:
    at = await training(world, tmp_path)
    path = await at.save("one", 1)
    await at.save("two", 2)
    (path / os.fsdecode(b"\xe4.txt")).touch()

    async def remove(*globs: str) -> dict[str, Any]:
        body = {"checkpointUuids": ["one"], "checkpointGlobs": list(globs)}
        await world.ok("POST", "/api/v1/checkpoints/rm", body)
        await world.collected()
        return dict((await world.ok("GET", "/api/v1/checkpoints/one"))["checkpoint"])

    refreshed = await remove()
    assert refreshed["resources"] == {
        "%E4.txt": "0", "a.txt": "5", "dir/": "0", "dir/b.txt": "1", "metadata.json": "2",
    }  # fmt: skip
    partly = await remove("dir/*")
    assert partly["state"] == "STATE_PARTIALLY_DELETED"
    kept = [b"a.txt", b"dir", b"metadata.json", b"\xe4.txt"]
    assert sorted(os.fsencode(p.name) for p in path.iterdir()) == kept
    for glob in ("../two/a.txt", "/etc/*"):
        body = {"checkpointUuids": ["one"], "checkpointGlobs": [glob]}
        assert glob in await world.refused(400, "POST", "/api/v1/checkpoints/rm", body)
    gone = await remove("*")
    assert (gone["state"], path.exists()) == ("STATE_DELETED", False)
    assert at.there() == {"two"}


async def test_metadata_of_a_checkpoint_is_replaced(world: ApiWorld, tmp_path: Path) -> None:
    at = await training(world, tmp_path)
    await at.save("one", 1)
    body = {"checkpoint": {"metadata": {"steps_completed": 1, "note": "good"}, "resources": {}}}
    answer = await world.ok("POST", "/api/v1/checkpoints/one/metadata", body)
    assert answer["checkpoint"]["metadata"] == {"steps_completed": 1, "note": "good"}
    assert answer["checkpoint"]["state"] == "STATE_COMPLETED"
    await world.refused(404, "POST", "/api/v1/checkpoints/two/metadata", body)


async def test_what_cannot_be_deleted_is_tried_again_and_says_why(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("one", 1)
    await at.save("two", 2)
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    (tmp_path / "one").symlink_to(tmp_path / "elsewhere")
    await world.ok("DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["one"]})
    await world.collected()
    (task,) = await gc_tasks(world)
    said = await log_of(world, task.id)
    if "Tried again in 10 s" not in said:
        while "Tried again in 10 s" not in (said := await log_of(world, task.id)):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert (tmp_path / "elsewhere" / "a.txt").exists()
    assert (await at.states())["one"] == "COMPLETED"
    (tmp_path / "one").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "one")
    world.clock.advance(11)
    world.services.checkpoints._wake()
    await world.collected(attempts=5)
    assert (await at.states())["one"] == "DELETED"


@pytest.mark.slow
async def test_tensorboard_files_of_an_ended_experiment_are_deleted(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("one", 1)
    files = tmp_path / "cluster" / "tensorboard" / "experiment"
    for experiment in (at.experiment, 4711):
        (files / str(experiment) / "trial" / "1").mkdir(parents=True)
        (files / str(experiment) / "trial" / "1" / "events").write_text("x")
    url = f"{at.url}/tensorboard-files"
    assert "has not ended yet: it is" in await world.refused(400, "DELETE", url)
    await at.finish()
    (told,) = (await world.ok("DELETE", url))["taskIds"]
    await world.collected()
    await until_said(world, [told], "Deleted 1 of 1")
    assert [path.name for path in files.iterdir()] == ["4711"]
    await world.ok("DELETE", url)
    await world.collected()
    assert at.there() == {"one"}
    await world.refused(404, "DELETE", "/api/v1/experiments/99/tensorboard-files")


async def test_an_experiment_is_deleted_with_all_that_belongs_to_it(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("one", 1, 0.1)
    fork = await world.create(SINGLE, parentId=at.experiment)
    assert "has not ended yet" in await world.refused(400, "DELETE", at.url)
    await at.finish()
    await world.ok("DELETE", at.url)
    await world.collected()
    assert at.there() == set()
    await world.refused(404, "GET", at.url)
    await world.refused(404, "GET", f"/api/v1/trials/{at.trial}")
    await world.refused(404, "GET", "/api/v1/checkpoints/one")
    await world.refused(404, "DELETE", at.url)
    store = world.services.store
    for table in (
        tables.Metric,
        tables.Checkpoint,
        tables.CheckpointGc,
        tables.AllocationAccelerator,
    ):
        assert await store.read(select(table)) == []
    assert [t.experiment_id for t in await store.read(select(tables.Task))] == [fork]
    assert await world.services.logs.query(LogQuery(task_ids=(at.run.task_id,))) == []
    forked = (await world.ok("GET", f"/api/v1/experiments/{fork}"))["experiment"]
    assert forked["forkedFrom"] == at.experiment


async def test_an_experiment_whose_files_stay_is_delete_failed_and_may_be_tried_again(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await training(world, tmp_path)
    await at.save("one", 1, 0.1)
    await at.finish()
    (tmp_path / "one").rename(tmp_path / "elsewhere")
    (tmp_path / "one").symlink_to(tmp_path / "elsewhere")
    await world.ok("DELETE", at.url)
    assert (await world.ok("GET", at.url))["experiment"]["state"] == "STATE_DELETING"
    assert "already being deleted" in await world.refused(400, "DELETE", at.url)
    started = SINGLE.replace("searcher: {", "searcher: {source_checkpoint_uuid: one, ")
    refusal = await world.refused(400, "POST", "/api/v1/experiments", {"config": started})
    assert "the experiment of checkpoint one is being deleted" in refusal
    for attempt in range(3):
        await world.collected(attempts=attempt)
        world.clock.advance(600)
        world.services.checkpoints._wake()
    failed = (await world.ok("GET", at.url))["experiment"]
    assert failed["state"] == "STATE_DELETE_FAILED"
    assert "one: " in failed["error"]
    (tmp_path / "one").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "one")
    await world.ok("DELETE", at.url)
    await world.collected()
    await world.refused(404, "GET", at.url)


async def test_submitted_files_go_with_the_last_experiment_that_has_them(
    world: ApiWorld, tmp_path: Path
) -> None:
    async def submit(content: bytes) -> int:
        files = [{"path": "train.py", "content": base64.b64encode(content).decode()}]
        body = {"config": SINGLE, "modelDefinition": files, "activate": False}
        created = await world.ok("POST", "/api/v1/experiments", body)
        experiment = int(created["experiment"]["id"])
        await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
        return experiment

    async def stored_after_deleting(experiment: int) -> int:
        await world.ok("DELETE", f"/api/v1/experiments/{experiment}")
        await world.collected()
        for _ in range(2):
            await services.blobs.remove_unnamed(await named_blobs(services.store))
        return len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()])

    services = world.services
    first, twin, other = await submit(b"1"), await submit(b"1"), await submit(b"2")
    assert await stored_after_deleting(first) == 2
    assert await stored_after_deleting(twin) == 1
    assert (await world.ok("GET", f"/api/v1/experiments/{other}/model_def"))["b64Tgz"]


async def test_several_experiments_are_deleted_each_with_its_own_answer(
    world: ApiWorld, tmp_path: Path
) -> None:
    first, second = await world.create(activate=False), await world.create(activate=False)
    await world.ok("POST", f"/api/v1/experiments/{first}/kill")
    body = {"experimentIds": [first, second, 99]}
    answer = await world.ok("DELETE", "/api/v1/projects/-1/experiments/delete", body)
    errors = {result["id"]: result["error"] for result in answer["results"]}
    assert errors[first] == ""
    assert "has not ended yet" in errors[second]
    assert "not found" in errors[99]
    await world.collected()
    await world.refused(404, "GET", f"/api/v1/experiments/{first}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["one"]}),
        ("POST", "/api/v1/checkpoints/rm", {"checkpointUuids": ["one"], "checkpointGlobs": ["*"]}),
        ("POST", "/api/v1/checkpoints/one/metadata", {"checkpoint": {"metadata": {}}}),
        ("PATCH", "/api/v1/experiments/1", keeping(0, 0, 0)),
        ("DELETE", "/api/v1/experiments/1", None),
    ],
)
async def test_only_owners_and_administrators_delete(
    world: ApiWorld, tmp_path: Path, method: str, path: str, body: Any
) -> None:
    at = await training(world, tmp_path)
    await at.save("one", 1)
    await at.finish()
    await world.login("determined")
    assert "belongs to admin" in await world.refused(403, method, path, body)
    assert at.there() == {"one"}


async def of_its_own(world: ApiWorld, tmp_path: Path) -> Training:
    """A trial whose storage is not the cluster's, and a checkpoint in it that may go."""
    storage = f"checkpoint_storage: {{type: shared_fs, host_path: {tmp_path / 'own'}}}\n"
    at = await training(world, tmp_path / "own", SINGLE + storage)
    await at.save("one", 1)
    await at.save("two", 2)
    await world.ok("DELETE", "/api/v1/checkpoints", {"checkpointUuids": ["one"]})
    return at


async def test_storage_of_a_users_own_is_collected_by_a_task_on_an_agent(
    world: ApiWorld, tmp_path: Path
) -> None:
    at = await of_its_own(world, tmp_path)
    agent = world.agents["node-1"]
    await agent.until(lambda: len(agent.containers) == 2)
    spec = list(agent.containers.values())[-1].spec
    assert (spec.task_type, spec.entrypoint[-1]) == ("CHECKPOINT_GC", "windlass.core._collect")
    (order,) = (f for f in spec.files if f.path.endswith("checkpoint_gc.json"))
    assert '"folders":["one"]' in base64.b64decode(order.content_b64).decode()
    assert at.there() == {"one", "two"}, "the master touches nothing that users name"
    jobs = await world.ok("GET", "/api/v1/job-queues-v2?resourcePool=default")
    assert len(jobs["jobs"]) == 1, "it is not in the queue that users see"
    task = world.services.allocations.identity(spec.allocation_id)
    assert task is not None
    token = world.mint.token(spec.allocation_id)
    left = {"resources": {}}
    assert (await world.call("GET", "/api/v1/me", token=token)).status_code == 200
    for uuid, status in (("two", 403), ("one", 200)):
        body = {"checkpoints": [{"uuid": uuid, "resources": left}]}
        answer = await world.call("PATCH", "/api/v1/checkpoints", body, token=token)
        assert answer.status_code == status, uuid
    line = {"taskId": spec.task_id, "log": "gone", "timestamp": "2026-01-01T00:00:01Z"}
    await world.ok("POST", "/api/v1/task/logs", {"logs": [line]}, token=token)
    agent.exit(spec.container_id, 0)
    await world.collected()
    assert await at.states() == {"one": "DELETED", "two": "COMPLETED"}
    shown = await world.ok("GET", f"/api/v1/tasks/{spec.task_id}")
    assert shown["task"]["taskType"] == "TASK_TYPE_CHECKPOINT_GC"


@pytest.mark.slow
async def test_on_postgresql(tmp_path: Path, postgres_tables_url: str) -> None:
    async with api_world(tmp_path, db_url=postgres_tables_url) as world:
        await world.login()
        at = await training(world, tmp_path)
        await at.save("best", 1, 0.1)
        await at.save("undefined", 2, "NaN")
        await at.save("latest", 3, 0.5)
        await at.finish()
        assert at.there() == {"best", "latest"}
        await world.ok("DELETE", at.url)
        await world.collected()
        assert at.there() == set()
        await world.refused(404, "GET", at.url)
