"""Run by the published client's Python: every method of its SDK about experiments, trials, checkpoints and metrics.

Usage: published_sdk.py MASTER CONFIG_JSON MODEL FOLDER. Says at the end, as JSON, which methods were not called.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from determined.common.api import errors
from determined.common.experimental import checkpoint, determined, experiment, metrics, trial
from determined.experimental import client

CLASSES = (
    determined.Determined,
    experiment.Experiment,
    trial.Trial,
    checkpoint.Checkpoint,
    metrics.TrialMetrics,
)
REFUSALS = (
    errors.APIException,
    errors.BadRequestException,
    errors.UnauthenticatedException,
    ValueError,
)
called: set[str] = set()


def watched(owner: type, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        called.add(f"{owner.__name__}.{name}")
        return method(*arguments, **named)

    return call


def methods(owner: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in vars(owner).items()
        if not name.startswith("_") and inspect.isfunction(member)
    }


def refused(call: Callable[[], Any], said: str) -> None:
    message = ""
    try:
        call()
    except REFUSALS as error:
        message = str(error)
    assert message, f"not refused: {said}"
    assert said in message, message


def until(what: str, look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def of_experiments(det: client.Determined, config: dict[str, Any], model: str) -> client.Experiment:
    ended = det.create_experiment(config, model, includes=[__file__], project_id=1)
    first = ended.await_first_trial()
    assert ended.wait(interval=0.1) is client.ExperimentState.COMPLETED
    assert first.id == ended.get_trials()[0].id == ended.list_trials()[0].id
    assert [one.id for one in ended.iter_trials(limit=1)] == [first.id]
    ended.set_name("walked")
    ended.set_description("by the SDK")
    ended.set_notes("# notes")
    ended.set_labels({"a", "b"})
    ended.add_label("c")
    ended.remove_label("a")
    ended.reload()
    found = (ended.name, ended.description, ended.notes, ended.labels)
    assert found == ("walked", "by the SDK", "# notes", {"b", "c"}), found
    assert det.get_experiment(ended.id).config["entrypoint"] == config["entrypoint"]
    listed = det.list_experiments(
        sort_by=client.ExperimentSortBy.NAME,
        order_by=client.OrderBy.ASC,
        experiment_ids=[ended.id],
        labels=["b"],
        users=["determined"],
        states=[client.ExperimentState.COMPLETED],
        name="walked",
        project_id=1,
    )
    assert [one.id for one in listed] == [ended.id]
    assert Path(ended.download_code(".")).stat().st_size > 100
    refused(ended.activate, "has already completed")
    refused(ended.pause, "has already completed")
    refused(ended.get_pachyderm_config, "No Pachyderm configuration")
    det.create_workspace("walked").create_project("there")
    ended.move_to_project("walked", "there")
    assert ended.workspace_id == det.get_workspace("walked").id
    assert det.list_experiments(project_id=ended.project_id)[0].id == ended.id
    ended.move_to_project("Uncategorized", "Uncategorized")
    return ended


def of_trials(det: client.Determined, ended: client.Experiment) -> None:
    (one,) = ended.list_trials(sort_by=client.TrialSortBy.START_TIME)
    one = det.get_trial(one.id)
    one.reload()
    assert one.state is client.TrialState.COMPLETED
    assert one.get_experiment().id == ended.id
    lines = "".join(one.iter_logs())
    assert "step 12 of 12" in lines
    assert list(one.logs()) == list(one.iter_logs())
    assert len(list(one.iter_logs(head=2))) == len(list(one.iter_logs(tail=2))) == 2
    assert "".join(one.iter_logs(follow=True)) == lines
    assert list(one.iter_logs(search_text="step 12 of"))
    assert list(one.iter_logs(min_level=trial.LogLevel.INFO)) != list(one.iter_logs())
    assert list(one.iter_logs(rank_ids=[7])) == []
    losses = [m.metrics["loss"] for m in one.iter_metrics("training")]
    assert losses == [3.0 / n for n in range(1, 13)], losses
    assert [m.steps_completed for m in one.stream_training_metrics()] == list(range(1, 13))
    assert [m.total_batches for m in one.stream_metrics("training")] == list(range(1, 13))
    (validation,) = one.stream_validation_metrics()
    assert validation.metrics["val_loss"] == 1 / 12
    ids = [one.id]
    for found in (
        det.iter_trials_metrics(ids, "training"),
        det.stream_trials_metrics(ids, "training"),
        det.stream_trials_training_metrics(ids),
    ):
        assert len(list(found)) == 12
    assert len(list(det.stream_trials_validation_metrics(ids))) == 1
    one.kill()


def of_checkpoints(det: client.Determined, ended: client.Experiment) -> None:
    (one,) = ended.list_checkpoints()
    (of_trial,) = ended.list_trials()
    assert {
        ended.top_checkpoint().uuid,
        ended.top_n_checkpoints(1)[0].uuid,
        ended.list_checkpoints(sort_by="val_loss", order_by=client.OrderBy.ASC)[0].uuid,
        of_trial.top_checkpoint(sort_by="val_loss", smaller_is_better=True).uuid,
        of_trial.select_checkpoint(latest=True).uuid,
        of_trial.select_checkpoint(best=True).uuid,
        of_trial.select_checkpoint(uuid=one.uuid).uuid,
        of_trial.get_checkpoints()[0].uuid,
        of_trial.list_checkpoints(max_results=1)[0].uuid,
        det.get_checkpoint(one.uuid).uuid,
    } == {one.uuid}
    one.reload()
    assert one.state is client.CheckpointState.COMPLETED
    assert one.training.trial_id == of_trial.id
    for mode in client.DownloadMode:
        folder = Path(one.download(f"c-{mode.value}", mode=mode))
        assert json.loads((folder / "state.json").read_text()) == {"done": 12}
    one.add_metadata({"note": "good", "more": 1})
    one.remove_metadata(["more"])
    again = det.get_checkpoint(one.uuid)
    assert (again.metadata["note"], "more" in again.metadata) == ("good", False)
    again.write_metadata_file("metadata.json")
    assert json.loads(Path("metadata.json").read_text())["note"] == "good"
    assert list(one.get_metrics("inference")) == []
    refused(one.get_pachyderm_commit, "Pachyderm configuration not found")
    one.remove_files(["state.json"])
    until(
        "a file is removed",
        lambda: det.get_checkpoint(one.uuid).state is client.CheckpointState.PARTIALLY_DELETED,
    )
    one.delete()
    until(
        "the checkpoint is deleted",
        lambda: det.get_checkpoint(one.uuid).state is client.CheckpointState.DELETED,
    )


def of_ends(
    det: client.Determined, ended: client.Experiment, config: dict[str, Any], model: str
) -> None:
    running = [det.create_experiment(config, model) for _ in range(2)]
    running[0].pause()
    refused(lambda: running[0].wait(interval=0.1), "is in paused state")
    running[0].activate()
    running[0].cancel()
    running[1].kill()
    for one in running:
        assert one.wait(interval=0.1) is client.ExperimentState.CANCELED
    ended.archive()
    ended.unarchive()
    ended.delete_tensorboard_files()
    ended.delete()

    def is_gone() -> bool:
        try:
            ended.reload()
        except errors.NotFoundException:
            return True
        assert ended.state is client.ExperimentState.DELETING, ended.state
        return False

    until("the experiment is deleted", is_gone)


def of_users(det: client.Determined) -> None:
    assert det.get_session_username() == det.whoami().username == "determined"
    assert det.get_user_by_name("admin").username == "admin"
    assert {"admin", "determined"} <= {one.username for one in det.list_users(active=True)}
    assert det.get_user_by_id(det.whoami().user_id).username == "determined"
    assert "Uncategorized" in {one.name for one in det.list_workspaces()}
    det.delete_workspace("walked")
    refused(lambda: det.create_user("new", admin=False, password="Secret123"), "permission")
    det.logout()
    refused(det.whoami, "Unauthenticated")


def main() -> None:
    master, config, model = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    os.chdir(sys.argv[4])
    warnings.simplefilter("ignore")
    for owner in CLASSES:
        for name, method in methods(owner).items():
            setattr(owner, name, watched(owner, name, method))
    det = client.Determined(master, os.environ["DET_USER"], os.environ["DET_PASS"])
    ended = of_experiments(det, config, model)
    of_trials(det, ended)
    of_checkpoints(det, ended)
    of_ends(det, ended, config, model)
    of_users(det)
    every = {f"{owner.__name__}.{name}" for owner in CLASSES for name in methods(owner)}
    print(json.dumps(sorted(every - called)))


main()
