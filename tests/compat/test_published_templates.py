"""Templates by the published client, unmodified: its verbs, and what it launches with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.published import PublishedDet, needs_published
from tests.real_cluster import Json, RealCluster
from windlass.sdk.interactive import COMMAND, NOTEBOOK, SHELL, Kind

pytestmark = needs_published

BASE: Json = {
    "environment": {"environment_variables": ["SAID=by-the-template", "BY=the-template"]},
    "resources": {"slots_per_trial": 0},
    "searcher": {"name": "single", "metric": "loss"},
    "max_restarts": 0,
}
OWN: Json = {
    "name": "own",
    "entrypoint": 'echo "found: $SAID $BY"',
    "environment": {"environment_variables": ["BY=the-user"]},
}
FOUND = "found: by-the-template the-user"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("templates")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2)
        yield cluster


@pytest.fixture(scope="module")
def det(cluster: RealCluster) -> Iterator[PublishedDet]:
    with PublishedDet(cluster) as det:
        yield det


def written(folder: Path, document: object, name: str = "a.yaml") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return str(path)


def config_of(cluster: RealCluster, kind: Kind, task_id: str) -> Json:
    return dict(cluster.client.interactive(kind).get(task_id)["config"])


def test_its_verbs(det: PublishedDet, tmp_path: Path) -> None:
    first, second = written(tmp_path, {"labels": ["a"]}), written(tmp_path, OWN, "b.yaml")
    assert "Created template mine" in det("template", "create", "mine", first)
    assert "Set template other" in det("tpl", "set", "other", first)
    assert "Set template other" in det("tpl", "set", "other", second)
    assert yaml.safe_load(det("tpl", "describe", "other")) == OWN
    said = det("template", "set-value", "config", "mine", second)
    assert "Updated template mine" in said
    listed = det("template", "list", "--details")
    assert [word in listed for word in ("mine", "other", "Uncategorized", "the-user")] == [True] * 4
    in_workspace = ("template", "create", "third", first, "--workspace-name", "Uncategorized")
    assert "Created template third" in det(*in_workspace)
    for name in ("mine", "other", "third"):
        assert f"Removed template {name}" in det("template", "remove", name)
    assert "mine" not in det("template")


@pytest.mark.parametrize("name", ["team/gpu", "100%", "a%2Fb", "größe 🐘", "x" * 1000])
def test_names_of_any_kind(det: PublishedDet, tmp_path: Path, name: str) -> None:
    det("template", "create", name, written(tmp_path, {"labels": ["a"]}))
    det("template", "set", name, written(tmp_path, {"labels": ["b"]}))
    assert yaml.safe_load(det("template", "describe", name)) == {"labels": ["b"]}
    det("template", "remove", name)
    assert f"template '{name}' not found" in str(det.run("template", "describe", name)["said"])


def test_what_it_says_of_mistakes(det: PublishedDet, tmp_path: Path) -> None:
    file = written(tmp_path, BASE)
    det("template", "create", "taken", file)
    for words, sentence in (
        (("describe", "none"), "template 'none' not found"),
        (("remove", "none"), "template 'none' not found"),
        (("create", "taken", file), "template 'taken' already exists"),
        (("create", "a", written(tmp_path, [1], "list.yaml")), "config: Input should be"),
        (
            ("create", "a", written(tmp_path, {"resources": {"slots": -1}}, "wrong.yaml")),
            "<config>.resources.slots: must be >= 0 but found -1",
        ),
        (("set-value", "config", "taken", str(tmp_path / "wrong.yaml")), "must be >= 0"),
    ):
        answer = det.run("template", *words)
        assert (answer["code"] == 0, answer["crash"]) == (False, ""), answer
        assert sentence in answer["said"]
    answer = det.run("cmd", "run", "--template", "none", "true")
    assert "template 'none' not found" in answer["said"]
    det("template", "remove", "taken")


def test_an_experiment_with_a_template(
    cluster: RealCluster, det: PublishedDet, tmp_path: Path
) -> None:
    det("template", "create", "base", written(tmp_path, BASE))
    model = tmp_path / "model"
    model.mkdir()
    config = written(tmp_path, OWN, "own.yaml")
    said = det("e", "create", config, str(model), "--template", "base")
    experiment = int(said.split("Created experiment ")[1].split()[0])
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    assert FOUND in cluster.logs_of(trial["id"])
    merged = cluster.client.experiment(experiment)["config"]
    assert merged["searcher"]["metric"] == "loss"
    det("template", "remove", "base")
    assert "found:" in str(yaml.safe_load(det("e", "config", str(experiment))))


def test_interactive_tasks_with_a_template(
    cluster: RealCluster, det: PublishedDet, tmp_path: Path
) -> None:
    """What is of experiments is left out of it, and what a task says itself wins."""
    det("template", "create", "base", written(tmp_path, {**BASE, "description": "of the base"}))
    own = written(tmp_path, {"environment": OWN["environment"], "resources": {"slots": 0}}, "own")
    options = ("--template", "base", "--config-file", own)
    said = det("cmd", "run", *options, 'echo "found: $SAID $BY"')
    assert FOUND in said
    for kind, words in ((NOTEBOOK, ("notebook", "start")), (SHELL, ("shell", "start"))):
        task_id = det(*words, *options, "--detach").split()[-1]
        config = config_of(cluster, kind, task_id)
        assert config["description"] == "of the base"
        assert config["resources"]["slots"] == 0
        variables = config["environment"]["environment_variables"]["cpu"]
        assert variables[-3:] == ["SAID=by-the-template", "BY=the-template", "BY=the-user"]
        det(words[0], "kill", task_id)
    assert "of the base" in det("notebook", "start", *options, "--preview")
    (command,) = cluster.client.interactive(COMMAND).listed()
    assert config_of(cluster, COMMAND, command["id"])["description"] == "of the base"
    det("template", "remove", "base")
