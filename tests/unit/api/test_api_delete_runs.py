"""Runs that are deleted while their experiment stays: files in a folder, rows, and what may need them."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import func, select

from master.allocations.machine import AllocationState
from master.logs.rows import LogQuery
from master.store import tables
from tests.fakes.api_world import SINGLE, ApiWorld

RUNS = "/api/v1/runs"
SEARCH = SINGLE.replace("{name: single", "{name: random, max_trials: 2, max_concurrent_trials: 2")
LATER = SINGLE.replace("searcher: {", "searcher: {source_checkpoint_uuid: u%d, ")


async def delete(world: ApiWorld, *ids: int) -> dict[int, str]:
    answer = await world.ok("POST", f"{RUNS}/delete", {"runIds": ids})
    return {one["id"]: one["error"] for one in answer["results"]}


async def shown(world: ApiWorld) -> dict[int, tuple[str, str]]:
    found = await world.ok("POST", RUNS, {"sort": "id=asc"})
    return {run["id"]: (run["state"], run["deletion"]) for run in found["runs"]}


async def search(world: ApiWorld, folder: Path) -> tuple[int, list[AllocationState]]:
    """A search of two trials that have reported, each with a checkpoint `u<trial>` and TensorBoard files."""
    await world.add_agent(slots=2)
    experiment = await world.create(SEARCH)
    runs = [await world.run_of(experiment, n) for n in range(2)]
    for n, run in enumerate(runs):
        trial = world.trial_id(experiment, n)
        for path in (folder / f"u{trial}", tensorboard(world, folder, experiment, trial)):
            path.mkdir(parents=True)
            (path / "a.txt").write_text("12345")
        await world.report(trial, "validation", 1, loss=0.5)
        await world.checkpoint(run, f"u{trial}", 1)
        line = {"taskId": run.task_id, "log": "hello", "timestamp": "2026-01-01T00:00:00Z"}
        await world.ok("POST", "/api/v1/task/logs", {"logs": [line]})
    return experiment, runs


def tensorboard(world: ApiWorld, folder: Path, experiment: int, trial: int) -> Path:
    cluster = world.services.info.cluster_id
    return folder / cluster / f"tensorboard/experiment/{experiment}/trial/{trial}"


async def rows_of(world: ApiWorld, trial: int) -> int:
    """How many there are in the tables of what belongs to a trial."""
    total = 0
    for table in (tables.Metric, tables.Checkpoint, tables.Task):
        counted = select(func.count()).select_from(table).where(table.trial_id == trial)
        total += await world.services.store.read_one(counted) or 0
    return total


async def test_runs_go_with_all_that_is_theirs_and_their_experiment_stays(
    world: ApiWorld, tmp_path: Path
) -> None:
    experiment, runs = await search(world, tmp_path)
    first, second = (world.trial_id(experiment, n) for n in range(2))
    assert await delete(world, first) == {first: "Run is not in a terminal state."}
    await world.finish(runs[0])
    needed = f"Run is part of experiment {experiment}, which has not ended: its search may still need it."
    assert await delete(world, first) == {first: needed}
    await world.finish(runs[1])

    assert await delete(world, first, 99) == {first: "", 99: "Run with id '99' not found"}
    assert (await shown(world))[first] == ("STATE_COMPLETED", "DELETING")
    assert await delete(world, first) == {first: f"Run {first} is already being deleted"}
    await world.collected()
    assert list(await shown(world)) == [second]
    assert not (tmp_path / f"u{first}").exists()
    assert not tensorboard(world, tmp_path, experiment, first).exists()
    assert await rows_of(world, first) == 0
    assert await world.services.logs.query(LogQuery(task_ids=(runs[0].task_id,))) == []
    await world.refused(404, "GET", f"/api/v1/trials/{first}")

    assert (tmp_path / f"u{second}" / "a.txt").exists()
    assert tensorboard(world, tmp_path, experiment, second).exists()
    assert await rows_of(world, second) == 3
    assert await world.services.logs.query(LogQuery(task_ids=(runs[1].task_id,)))

    assert await delete(world, second) == {second: ""}
    await world.collected()
    kept = (await world.ok("GET", f"/api/v1/experiments/{experiment}"))["experiment"]
    assert (kept["state"], kept["numTrials"]) == ("STATE_COMPLETED", 0)
    body = {"id": experiment, "overrideConfig": ""}
    refusal = await world.refused(400, "POST", "/api/v1/experiments/continue", body)
    assert refusal == f"experiment {experiment} has no run left to continue"


async def test_a_search_goes_on_without_a_run_that_is_gone(world: ApiWorld, tmp_path: Path) -> None:
    experiment, runs = await search(world, tmp_path)
    first, second = (world.trial_id(experiment, n) for n in range(2))
    await world.finish(runs[0])
    await world.ok("POST", f"/api/v1/experiments/{experiment}/kill")
    live = world.services.experiments.live(experiment)
    assert live is None or await live.wait_until(lambda state: state.phase.is_terminal)
    assert await delete(world, first) == {first: ""}
    # It is no part of it any more, whether it is gone yet or not.
    body = {"id": experiment, "overrideConfig": ""}
    await world.ok("POST", "/api/v1/experiments/continue", body)
    await world.collected()
    assert world.trial_id(experiment) == second
    run = await world.run_of(experiment)
    live = world.services.experiments.live(experiment)
    assert live is not None
    assert [trial.latest_checkpoint for trial in live.state.trials.values()] == [f"u{second}"]
    await world.finish(run)
    assert await shown(world) == {second: ("STATE_COMPLETED", "")}


async def test_what_fails_is_said_and_may_be_tried_again(world: ApiWorld, tmp_path: Path) -> None:
    experiment, runs = await search(world, tmp_path)
    first, second = (world.trial_id(experiment, n) for n in range(2))
    for run in runs:
        await world.finish(run)
    (tmp_path / f"u{first}").rename(tmp_path / "elsewhere")
    (tmp_path / f"u{first}").symlink_to(tmp_path / "elsewhere")
    assert await delete(world, first) == {first: ""}
    refusal = await world.refused(400, "POST", "/api/v1/experiments", {"config": LATER % first})
    assert f"the run of checkpoint u{first} is being deleted" in refusal
    for attempt in range(3):
        await world.collected(attempts=attempt)
        world.clock.advance(600)
        world.services.checkpoints._wake()
    assert (await shown(world))[first] == ("STATE_COMPLETED", "DELETE_FAILED")
    failed = (await world.ok("GET", f"/api/v1/trials/{first}"))["trial"]
    assert f"not deleted: u{first}: " in failed["deletionError"]
    (tmp_path / f"u{first}").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / f"u{first}")
    assert await delete(world, first) == {first: ""}
    await world.collected()
    assert list(await shown(world)) == [second]


async def test_what_another_trial_goes_on_from_stays(world: ApiWorld, tmp_path: Path) -> None:
    experiment, runs = await search(world, tmp_path)
    first = world.trial_id(experiment)
    for run in runs:
        await world.finish(run)
    heir = world.trial_id(await world.create(LATER % first, activate=False))
    refused = (await delete(world, first))[first]
    assert f"checkpoint u{first} is what trial {heir}, which has not ended, goes on from" in refused
    assert (tmp_path / f"u{first}").exists()


async def test_an_unmanaged_run_that_is_being_deleted_is_not_revived(world: ApiWorld) -> None:
    new = {"config": SINGLE, "unmanaged": True}
    url = "/api/v1/experiments/by-external-id/ours"
    experiment = (await world.ok("PUT", url, new))["experiment"]["id"]
    create = {"experimentId": experiment, "hparams": None, "unmanaged": True}
    put = {"createTrialRequest": create, "externalTrialId": "one"}
    trial = (await world.ok("PUT", "/api/v1/trials", put))["trial"]["id"]
    assert await delete(world, trial) == {trial: "Run is not in a terminal state."}
    report = {"trialId": trial, "state": "STATE_COMPLETED"}
    await world.ok("PATCH", f"/api/v1/trials/{trial}", report)
    assert await delete(world, trial) == {trial: ""}
    going = f"run {trial} is being deleted, or could not be deleted"
    assert going in await world.refused(400, "PATCH", f"/api/v1/trials/{trial}", report)
    assert going in await world.refused(400, "PUT", "/api/v1/trials", put)
    await world.collected()
    await world.refused(404, "PATCH", f"/api/v1/trials/{trial}", report)
    again = (await world.ok("PUT", "/api/v1/trials", put))["trial"]["id"]
    assert again != trial
