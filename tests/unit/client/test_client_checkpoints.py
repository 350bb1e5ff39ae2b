"""`det checkpoint` and its kin: through the master, cut off, resumed, verified; deleting and metadata."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from client_scripted_master import Asked, ScriptedMaster
from test_client_verbs import checkpoint, cluster, det, refused

__all__ = ["cluster"]
FILES = {"model.bin": b"abc", "sub/a": b"d"}
NOWHERE = {"type": "directory", "container_path": "/no/such"}


def packed(files: Mapping[str, bytes], **links: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return content.getvalue()


def served(master: ScriptedMaster, archive: bytes) -> None:
    master.on("GET", "/api/v1/checkpoints/c-1", checkpoint(NOWHERE))
    master.on("GET", "/checkpoints/c-1", lambda _: (200, archive))


def there(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "metadata.json"
    }


@pytest.mark.parametrize("mode", ["auto", "master"])
def test_a_checkpoint_comes_through_the_master(
    cluster: ScriptedMaster, tmp_path: Path, mode: str
) -> None:
    served(cluster, packed(FILES, link="/etc/passwd"))
    words = ("checkpoint", "download", "c-1", "--mode", mode, "-o", str(tmp_path / "x"), "--json")
    result = det(cluster, *words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["path"] == str(tmp_path / "x")
    assert there(tmp_path / "x") == FILES
    assert json.loads((tmp_path / "x" / "metadata.json").read_text()) == {"steps_completed": 40}
    (asked,) = cluster.calls("GET", "/checkpoints/c-1")
    assert asked.headers["accept"] == "application/x-tar"


def test_direct_does_not_ask_the_master_for_files(cluster: ScriptedMaster, tmp_path: Path) -> None:
    served(cluster, packed(FILES))
    words = ("checkpoint", "download", "c-1", "--mode", "direct", "-o", str(tmp_path / "x"))
    assert "is it mounted" in refused(det(cluster, *words))
    assert cluster.calls("GET", "/checkpoints/c-1") == []


def test_a_download_that_was_cut_off_goes_on(cluster: ScriptedMaster, tmp_path: Path) -> None:
    words = ("checkpoint", "download", "c-1", "--mode", "master", "-o", str(tmp_path / "x"))
    whole = packed(FILES)
    served(cluster, whole[: 2 * 512 + 10])
    assert "sub/a is missing" in refused(det(cluster, *words))
    assert there(tmp_path / "x") == {"model.bin": b"abc"}
    assert not (tmp_path / "x" / "metadata.json").exists()
    before = (tmp_path / "x" / "model.bin").stat()
    served(cluster, whole)
    assert det(cluster, *words).exit_code == 0
    assert there(tmp_path / "x") == FILES
    assert (tmp_path / "x" / "model.bin").stat().st_ino == before.st_ino, "it was there already"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"model.bin": b"abc"}, "sub/a is missing"),
        ({"model.bin": b"abcd", "sub/a": b"d"}, "model.bin has 4 bytes, not 3"),
    ],
)
def test_what_arrived_is_compared_with_what_was_reported(
    cluster: ScriptedMaster, tmp_path: Path, files: Mapping[str, bytes], problem: str
) -> None:
    served(cluster, packed(files))
    words = ("checkpoint", "download", "c-1", "--mode", "master", "-o", str(tmp_path / "x"))
    assert problem in refused(det(cluster, *words))
    assert not (tmp_path / "x" / "metadata.json").exists()


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "sub/../../evil"])
def test_an_archive_does_not_lead_out(cluster: ScriptedMaster, tmp_path: Path, name: str) -> None:
    served(cluster, packed({name: b"evil"}))
    words = ("checkpoint", "download", "c-1", "--mode", "master", "-o", str(tmp_path / "x" / "y"))
    assert det(cluster, *words).exit_code != 0
    assert list(tmp_path.rglob("evil")) == []


def test_checkpoints_are_deleted_after_a_question(cluster: ScriptedMaster) -> None:
    cluster.on("DELETE", "/api/v1/checkpoints", {"taskIds": ["7.x", "8.y"]})
    assert det(cluster, "checkpoint", "delete", "a,b", stdin="n\n").exit_code == 1
    assert cluster.calls("DELETE", "/api/v1/checkpoints") == []
    result = det(cluster, "checkpoint", "delete", "a, b,a", "--yes")
    assert (result.exit_code, result.stderr) == (
        0,
        "Deleting 2 checkpoints\nTo see how it went: det task logs 7.x\nTo see how it went: det task logs 8.y\n",
    )
    (asked,) = cluster.calls("DELETE", "/api/v1/checkpoints")
    assert asked.body == {"checkpointUuids": ["a", "b"]}
    assert "No checkpoint is named" in refused(det(cluster, "checkpoint", "delete", " , ", "-y"))


def test_files_of_checkpoints_are_removed(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/checkpoints/rm", {})
    assert det(cluster, "checkpoint", "rm", "a", "--glob", "x*", "--glob", "y", "-y").exit_code == 0
    assert det(cluster, "checkpoint", "rm", "a").exit_code == 0, "no question: nothing is removed"
    asked = [
        call.body["checkpointGlobs"] for call in cluster.calls("POST", "/api/v1/checkpoints/rm")
    ]
    assert asked == [["x*", "y"], []]


def test_metadata_is_shown_and_changed(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/checkpoints/c-1", checkpoint(NOWHERE, metadata={"a": 1, "b": 2}))

    def set_metadata(asked: Asked) -> tuple[int, object]:
        return 200, {"checkpoint": {"metadata": asked.body["checkpoint"]["metadata"]}}

    cluster.on("POST", "/api/v1/checkpoints/c-1/metadata", set_metadata)
    assert json.loads(det(cluster, "checkpoint", "metadata", "c-1").stdout) == {"a": 1, "b": 2}
    words = ("--set", "b=[1, 2]", "--set", "c=text", "--remove", "a")
    changed = det(cluster, "checkpoint", "metadata", "c-1", *words)
    assert json.loads(changed.stdout) == {"b": [1, 2], "c": "text"}
    assert "has no metadata 'z'" in refused(
        det(cluster, "checkpoint", "metadata", "c-1", "--remove", "z")
    )
    assert "KEY=VALUE" in refused(det(cluster, "checkpoint", "metadata", "c-1", "--set", "x"))


def test_keep_counts_are_set_after_a_look_at_what_goes(cluster: ScriptedMaster) -> None:
    doomed = {"TrialID": 1, "StepsCompleted": 10, "UUID": "u-1"}
    cluster.on("GET", "/experiments/7/preview_gc", {"metric_name": "x", "checkpoints": [doomed]})
    cluster.on("PATCH", "/api/v1/experiments/7", {"experiment": {}, "taskIds": ["7.x"]})
    words = ("--save-experiment-best", "1", "--save-trial-best", "0", "--save-trial-latest", "2")
    asked = det(cluster, "e", "set", "gc-policy", "7", *words, stdin="n\n")
    assert asked.exit_code == 1
    assert "u-1" in asked.stdout
    assert cluster.calls("PATCH", "/api/v1/experiments/7") == []
    assert "det task logs 7.x" in det(cluster, "e", "set", "gc-policy", "7", *words, "--yes").stdout
    (patch,) = cluster.calls("PATCH", "/api/v1/experiments/7")
    assert patch.body["checkpointStorage"] == {
        "save_experiment_best": 1,
        "save_trial_best": 0,
        "save_trial_latest": 2,
    }


def test_an_experiment_is_deleted_after_a_question(cluster: ScriptedMaster) -> None:
    cluster.on("DELETE", "/api/v1/experiments/7", {})
    assert det(cluster, "e", "delete", "7", stdin="n\n").exit_code == 1
    assert det(cluster, "e", "delete", "7", "--yes").stderr == "Deleting experiment 7\n"
    assert len(cluster.calls("DELETE", "/api/v1/experiments/7")) == 1


@pytest.mark.parametrize(
    ("choice", "smaller", "wanted"),
    [("--latest", True, "late"), ("--best", True, "low"), ("--best", False, "high")],
)
def test_a_trials_best_or_latest_checkpoint(
    cluster: ScriptedMaster, tmp_path: Path, choice: str, smaller: bool, wanted: str
) -> None:
    def one(uuid: str, steps: int, metric: object, state: str = "COMPLETED") -> object:
        found = checkpoint(NOWHERE)["checkpoint"]
        searcher = {"metric": "loss", "smaller_is_better": smaller}
        config = {**found["training"]["experimentConfig"], "searcher": searcher}
        training = {**found["training"], "experimentConfig": config, "searcherMetric": metric}
        return {
            **found,
            "uuid": uuid,
            "state": f"STATE_{state}",
            "metadata": {"steps_completed": steps},
            "training": training,
        }

    listed = [
        one("low", 1, 0.1),
        one("high", 2, 0.9),
        one("undefined", 3, "NaN"),
        one("late", 4, None),
        one("gone", 5, 0.0, "DELETED"),
    ]
    page = {"endIndex": 5, "total": 5}
    cluster.on("GET", "/api/v1/trials/11/checkpoints", {"checkpoints": listed, "pagination": page})
    cluster.on("GET", f"/checkpoints/{wanted}", lambda _: (200, packed(FILES)))
    result = det(cluster, "trial", "download", "11", choice, "-q", "-o", str(tmp_path / "x"))
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'x'}\n"), result.output
    assert "Use one of" in refused(det(cluster, "trial", "download", "11"))


def test_a_wrong_metric_is_told_where_the_best_checkpoint_is_asked_for(
    cluster: ScriptedMaster, tmp_path: Path
) -> None:
    """Whoever misspelled the searcher's metric would else take any checkpoint for the best."""
    found = checkpoint(NOWHERE)["checkpoint"]
    config = {**found["training"]["experimentConfig"], "searcher": {"metric": "val_loss"}}
    training = {
        **found["training"],
        "experimentConfig": config,
        "searcherMetric": None,
        "validationMetrics": {"avgMetrics": {"loss": 1.0, "accuracy": 0.5}},
    }
    listed = {"checkpoints": [{**found, "training": training}], "pagination": {"total": 1}}
    why = 'it has no value of the searcher\'s metric "val_loss"; reported there: accuracy, loss'
    cluster.on("GET", "/api/v1/trials/11/checkpoints", listed)
    assert why in refused(det(cluster, "trial", "download", "11", "--best"))
    cluster.on("GET", "/api/v1/experiments/7/checkpoints", listed)
    cluster.on("GET", "/checkpoints/c-1", lambda _: (200, packed(FILES)))
    done = det(cluster, "experiment", "download", "7", "-q", "-o", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert done.stderr == f"warning: checkpoint c-1 is not known to be the best: {why}\n"
