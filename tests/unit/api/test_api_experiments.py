"""Experiments and trials over REST, from the submission to what is left of them."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_world import ASHA, SINGLE, ApiWorld, file


async def test_an_experiment_from_submission_to_its_end(world: ApiWorld) -> None:
    id_ = await world.create()
    url = f"/api/v1/experiments/{id_}"
    waiting = (await world.ok("GET", url))["experiment"]
    assert waiting["state"] == "STATE_QUEUED"
    assert waiting["waitingReason"]
    (trial,) = (await world.ok("GET", f"{url}/trials"))["trials"]
    assert (trial["state"], trial["hparams"]) == ("STATE_QUEUED", {"lr": 0.5})
    assert trial["waitingReason"]

    await world.add_agent()
    run = await world.run_of(id_)
    running = await world.ok("GET", url)
    assert running["experiment"]["state"] == "STATE_RUNNING"
    assert running["experiment"]["waitingReason"] is None
    assert running["jobSummary"] == {"state": "STATE_SCHEDULED", "jobsAhead": -1}
    assert (await world.report(trial["id"], "validation", 10, loss=0.25)).status_code == 200
    await world.checkpoint(run, "c-1", 10)
    await world.finish(run)

    over = await world.ok("GET", url)
    experiment = over["experiment"]
    assert experiment["state"] == "STATE_COMPLETED"
    assert experiment["endTime"] == "2026-01-01T00:00:00.000000Z"
    assert (experiment["progress"], experiment["numTrials"]) == (1.0, 1)
    assert (experiment["bestTrialId"], experiment["bestTrialSearcherMetric"]) == (trial["id"], 0.25)
    assert (experiment["checkpointCount"], experiment["checkpointSize"]) == (1, "5")
    assert over["jobSummary"] is None
    done = (await world.ok("GET", f"/api/v1/trials/{trial['id']}"))["trial"]
    assert done["state"] == "STATE_COMPLETED"
    assert done["bestValidation"]["metrics"]["avgMetrics"] == {"loss": 0.25}
    assert done["bestCheckpoint"]["uuid"] == "c-1"
    assert done["totalBatchesProcessed"] == 10


async def test_what_users_do_to_experiments(world: ApiWorld) -> None:
    id_ = await world.create(activate=False)
    url = f"/api/v1/experiments/{id_}"

    async def state() -> str:
        return str((await world.ok("GET", url))["experiment"]["state"])

    assert await state() == "STATE_PAUSED"
    (trial,) = (await world.ok("GET", f"{url}/trials"))["trials"]
    assert trial["state"] == "STATE_PAUSED"
    await world.ok("POST", f"{url}/activate")
    assert await state() == "STATE_QUEUED"
    await world.ok("POST", f"{url}/pause")
    assert await state() == "STATE_PAUSED"
    assert "has not ended yet: it is" in await world.refused(400, "POST", f"{url}/archive")
    await world.ok("POST", f"{url}/kill")
    assert await state() == "STATE_CANCELED"
    await world.ok("POST", f"{url}/kill")
    await world.ok("POST", f"{url}/archive")
    assert "already archived" in await world.refused(400, "POST", f"{url}/archive")
    assert (await world.ok("GET", url))["experiment"]["archived"] is True
    await world.ok("POST", f"{url}/unarchive")


async def test_metadata_of_a_live_experiment_and_of_one_that_is_over(world: ApiWorld) -> None:
    id_ = await world.create()
    url = f"/api/v1/experiments/{id_}"
    for name in ("while it lives", "after its end"):
        body = {"id": id_, "name": name, "notes": "n", "labels": ["b", "a", "b"]}
        patched = (await world.ok("PATCH", url, body))["experiment"]
        assert (patched["name"], patched["config"]["name"]) == (name, name)
        assert (patched["notes"], patched["labels"]) == ("n", ["b", "a"])
        assert patched["description"] == ""
        await world.ok("POST", f"{url}/kill")
    assert "name" in await world.refused(400, "PATCH", url, {"name": "  "})
    added = await world.ok("PUT", f"{url}/labels/c%20c")
    assert added["labels"] == ["b", "a", "c c"]
    assert (await world.ok("PUT", f"{url}/labels/c%20c"))["labels"] == ["b", "a", "c c"]
    assert (await world.ok("DELETE", f"{url}/labels/b"))["labels"] == ["a", "c c"]
    for sent in ("team%2Fnlp", "team/nlp"):
        added = await world.ok("PUT", f"{url}/labels/{sent}")
        assert added["labels"] == ["a", "c c", "team/nlp"]
        removed = await world.ok("DELETE", f"{url}/labels/{sent}")
        assert removed["labels"] == ["a", "c c"]


async def test_a_damaged_model_definition_is_an_error_of_its_experiment_alone(
    world: ApiWorld, tmp_path: Path
) -> None:
    harmed = await world.create(modelDefinition=[file("train.py", b"harmed")])
    [blob] = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    whole = await world.create(modelDefinition=[file("train.py", b"whole")])
    blob.write_bytes(b"cut")
    (trial,) = (await world.ok("GET", f"/api/v1/experiments/{harmed}/trials"))["trials"]
    for path in (
        f"/api/v1/experiments/{harmed}/model_def",
        f"/api/v1/tasks/{trial['taskId']}/context_directory",
    ):
        said = await world.refused(410, "GET", path)
        assert (
            f"blobs/{blob.parent.name}/{blob.name} in the master's data folder is damaged" in said
        )
    await world.ok("GET", f"/api/v1/experiments/{whole}/model_def")
    assert (await world.ok("GET", f"/api/v1/experiments/{harmed}"))["experiment"]["id"] == harmed


@pytest.mark.parametrize("content", ["QUJ", "QUJDRA", "!!!!"])
async def test_a_file_that_was_cut_off_is_refused_by_its_name(
    world: ApiWorld, content: str
) -> None:
    sent = {"config": SINGLE, "modelDefinition": [{**file("train.py", b""), "content": content}]}
    message = await world.refused(400, "POST", "/api/v1/experiments", sent)
    assert message == "modelDefinition: train.py is not valid base64"


async def test_the_model_definition_arrives_whole_and_a_fork_has_the_same(world: ApiWorld) -> None:
    files = [
        {**file("pkg", mode=0o40755), "type": 53},
        file("pkg/train.py", b"print('hi')\n", mode=0o100755),
    ]
    id_ = await world.create(modelDefinition=files)
    fork = await world.create(parentId=id_)
    forked = (await world.ok("GET", f"/api/v1/experiments/{fork}"))["experiment"]
    assert forked["forkedFrom"] == id_
    (trial,) = (await world.ok("GET", f"/api/v1/experiments/{fork}/trials"))["trials"]
    for path in (
        f"/api/v1/experiments/{id_}/model_def",
        f"/api/v1/experiments/{fork}/model_def",
        f"/api/v1/tasks/{trial['taskId']}/context_directory",
    ):
        packed = base64.b64decode((await world.ok("GET", path))["b64Tgz"])
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = {m.name: m for m in archive.getmembers()}
            assert members["pkg"].isdir()
            assert members["pkg/train.py"].mode == 0o755
            content = archive.extractfile("pkg/train.py")
            assert content is not None
            assert content.read() == b"print('hi')\n"
    await world.refused(404, "POST", "/api/v1/experiments", {"config": SINGLE, "parentId": 999})


@pytest.mark.parametrize("only", [True, False])
async def test_keys_without_effect_are_told(world: ApiWorld, only: bool) -> None:
    text = SINGLE + "data_layer: {type: s3}\nretention_policy: {log_retention_days: 1}\n"
    answer = await world.ok("POST", "/api/v1/experiments", {"config": text, "validateOnly": only})
    assert answer["configWarnings"] == [
        "data_layer has no effect: it is of old releases, and dropped",
    ]


@pytest.mark.parametrize(
    ("runtime", "told"), [("process", True), ("", True), ("process, podman 4.3.1", False)]
)
async def test_an_image_that_no_agent_of_the_pool_can_run_is_told(
    world: ApiWorld, runtime: str, told: bool
) -> None:
    text = SINGLE + "environment: {image: busybox}\n"
    experiment = {"config": text, "validateOnly": True}
    answer = await world.ok("POST", "/api/v1/experiments", experiment)
    assert answer["configWarnings"] == [], "nobody knows before an agent is there"
    await world.add_agent("a1", container_runtime=runtime)
    line = (
        "environment.image has no effect: the agents of the pool run tasks as processes, with a Python of their "
        "machine; see container_runtime of agent.yaml"
    )
    expected = [line] if told else []
    answer = await world.ok("POST", "/api/v1/experiments", experiment)
    assert answer["configWarnings"] == expected
    command = {"config": {"entrypoint": ["true"], "environment": {"image": "busybox"}}}
    answer = await world.ok("POST", "/api/v1/commands", command)
    assert answer["configWarnings"] == expected


@pytest.mark.parametrize(
    ("runtime", "image", "told"),
    [
        ("process, apptainer 1.3.4", "busybox", True),
        ("process, enroot 3.5.0", "busybox", True),
        ("process, podman 4.3.1", "busybox", False),
        ("process, apptainer 1.3.4", "", False),
    ],
)
async def test_a_size_of_shm_that_its_runtime_chooses_is_told_to_have_no_effect(
    world: ApiWorld, runtime: str, image: str, told: bool
) -> None:
    await world.add_agent("a1", container_runtime=runtime)
    wishes = "resources: {slots_per_trial: 1, shm_size: 64MiB}\n"
    named = f"environment: {{image: {image}}}\n" if image else ""
    config = SINGLE.replace("resources: {slots_per_trial: 1}\n", wishes) + named
    body = {"config": config, "validateOnly": True}
    lines = (await world.ok("POST", "/api/v1/experiments", body))["configWarnings"]
    line = (
        "resources.shm_size has no effect: Apptainer, Singularity and Enroot choose the size of /dev/shm; "
        "Podman and Docker give what is asked for"
    )
    assert lines == ([line] if told else [])


async def test_a_python_beside_an_image_is_told_to_have_no_effect(world: ApiWorld) -> None:
    both = "environment: {image: busybox, python: /venv, prologue: [module load cuda]}\n"
    own = "environment: {python: /venv}\n"

    async def told(text: str) -> list[str]:
        body = {"config": SINGLE + text, "validateOnly": True}
        warnings = (await world.ok("POST", "/api/v1/experiments", body))["configWarnings"]
        return [line for line in warnings if "image, which" in line]

    assert await told(both) == [], "nobody knows before an agent is there"
    await world.add_agent("a1", container_runtime="process, podman 4.3.1")
    why = "has no effect: the task runs in an image, which has its own Python"
    assert [":".join(line.split(":")[:2]) for line in await told(both)] == [
        f"environment.python {why}",
        f"environment.prologue {why}",
    ]
    assert await told(own) == [], "the images of all configurations are nobody's choice"
    environment = {"image": "busybox", "python": "/venv"}
    command = {"config": {"entrypoint": ["true"], "environment": environment}}
    (line,) = (await world.ok("POST", "/api/v1/commands", command))["configWarnings"]
    assert line.startswith(f"environment.python {why}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "image", "told"),
    [
        (None, "", True),
        ({"runs_trial_classes": False}, "", True),
        ({"runs_trial_classes": True}, "", False),
        ({"runs_trial_classes": None}, "", False),
        ({"runs_trial_classes": False, "container_runtime": "podman 4.3.1"}, "mine", False),
    ],
)
async def test_a_trial_class_is_told_what_it_needs_where_it_is_not_there(
    world: ApiWorld, agent: dict[str, Any] | None, image: str, told: bool
) -> None:
    if agent is not None:
        await world.add_agent("a1", **agent)
    text = SINGLE.replace("python3 train.py", "model_def:MyTrial")
    text += f"environment: {{image: {image}}}\n" if image else ""
    answer = await world.ok("POST", "/api/v1/experiments", {"config": text, "validateOnly": True})
    sentence = "model_def:MyTrial is a Trial class, which needs the package `determined`"
    assert any(sentence in line for line in answer["configWarnings"]) is told


async def test_validate_only_creates_nothing(world: ApiWorld) -> None:
    answer = await world.ok("POST", "/api/v1/experiments", {"config": SINGLE, "validateOnly": True})
    assert answer["experiment"]["state"] == "STATE_UNSPECIFIED"
    assert (await world.ok("GET", "/api/v1/experiments"))["experiments"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"config": SINGLE + "nonsense: 1\n"}, "nonsense"),
        ({"config": "searcher: ["}, "line"),
        ({"config": ""}, "searcher"),
        ({"config": SINGLE, "modelDefinition": [{"path": "a", "content": "%%"}]}, "a"),
        ({"config": SINGLE, "modelDefinition": [{"path": "../a"}]}, "../a"),
        ({"config": SINGLE, "modelDefinition": [{"path": "/etc/passwd"}]}, "/etc/passwd"),
        ({"config": SINGLE, "modelDefinition": [{"path": "a\0b"}]}, "modelDefinition"),
        ({"config": SINGLE, "modelDefinition": [{"path": "a"}, {"path": "a/b"}]}, '"a" is a file'),
        ({"config": SINGLE, "modelDefinition": [{"path": "x" * 300}]}, "is too long"),
        ({"config": SINGLE, "modelDefinition": [{"path": "a", "content": "QUJ"}]}, "a"),
        ({"config": SINGLE, "modelDefinition": "x"}, "modelDefinition"),
        ({"config": SINGLE, "modelDefinition": [{"content": ""}]}, "path"),
        ({"config": 5}, "config"),
        ({"config": SINGLE + "  resource_pool: nowhere\n"}, "nowhere"),
        ([], "body"),
    ],
)
async def test_a_bad_submission_names_the_field_and_creates_nothing(
    world: ApiWorld, body: Any, named: str
) -> None:
    if "resource_pool" in str(body):
        body["config"] = body["config"].replace(
            "}\n  resource_pool: nowhere", ", resource_pool: nowhere}"
        )
    message = await world.refused(400, "POST", "/api/v1/experiments", body)
    assert named in message
    assert "\n" not in message
    assert (await world.ok("GET", "/api/v1/experiments"))["experiments"] == []


async def test_lists_page_sort_and_filter(world: ApiWorld) -> None:
    ids = [
        await world.create(SINGLE.replace("tiny", f"number {n}"), activate=False) for n in range(5)
    ]
    url = "/api/v1/experiments"

    async def listed(query: str) -> list[int]:
        return [e["id"] for e in (await world.ok("GET", f"{url}?{query}"))["experiments"]]

    assert await listed("") == ids
    assert await listed("orderBy=ORDER_BY_DESC&sortBy=SORT_BY_NAME&limit=2") == ids[:2:-1]
    assert await listed("limit=2&offset=3") == ids[3:]
    assert await listed("offset=-1") == ids[4:]
    assert await listed("limit=-1") == ids
    assert await listed("limit=-2") == []
    assert await listed("name=NUMBER%203") == [ids[3]]
    assert await listed("labels=first") == ids
    assert await listed("labels=first&labels=other") == []
    assert await listed("states=STATE_PAUSED") == ids
    assert await listed("states=STATE_COMPLETED") == []
    assert await listed("users=Admin") == ids
    assert await listed("user_ids=2") == []
    assert await listed("archived=true") == []
    assert await listed("projectId=1") == ids
    within = f"experimentIdFilter.gt={ids[0]}&experimentIdFilter.notIn={ids[1]}"
    assert await listed(within) == ids[2:]
    assert (
        await listed(f"experiment_id_filter.incl={ids[1]}&experimentIdFilter.incl={ids[2]}")
        == ids[1:3]
    )
    page = await world.ok("GET", f"{url}?limit=2&offset=4")
    assert page["pagination"] == {
        "offset": 4,
        "limit": 2,
        "startIndex": 4,
        "endIndex": 5,
        "total": 5,
    }
    assert page["experiments"][0]["notes"] == "omitted"
    for query, named in (
        ("sortBy=SORT_BY_LUCK", "sortBy"),
        ("states=STATE_HAPPY", "states"),
        ("limit=many", "limit"),
        ("limit=-7", "limit"),
        ("offset=6", "offset"),
    ):
        assert named in await world.refused(400, "GET", f"{url}?{query}")
    await world.refused(404, "GET", f"{url}?projectId=7")


@pytest.mark.parametrize(
    "query", ["limit=9", "labels=first", "archived=false&limit=1&sortBy=SORT_BY_NAME"]
)
async def test_a_list_without_configurations_is_the_same_without_what_they_say(
    world: ApiWorld, query: str
) -> None:
    await world.create()
    await world.create(ASHA)
    whole = await world.ok("GET", f"/api/v1/experiments?{query}")
    assert whole["experiments"][0]["config"]["searcher"]["name"]
    nothing = {"config": None, "originalConfig": "", "hyperparameters": {}}
    nothing |= {"searcherType": "", "searcherMetric": None}
    whole["experiments"] = [one | nothing for one in whole["experiments"]]
    assert await world.ok("GET", f"/api/v1/experiments?{query}&omitConfig=true") == whole


async def test_unknown_things_are_not_found(world: ApiWorld) -> None:
    for path in (
        "/api/v1/experiments/99",
        "/api/v1/experiments/99/trials",
        "/api/v1/experiments/99/checkpoints",
        "/api/v1/experiments/99/model_def",
        "/api/v1/experiments/99/searcher/best_searcher_validation_metric",
        "/api/v1/trials/99",
        "/api/v1/trials/99/logs",
        "/api/v1/trials/99/workloads",
        "/api/v1/trials/99/checkpoints",
        "/api/v1/trials/metrics/training_metrics?trialIds=99",
        "/api/v1/tasks/no.such.task",
        "/api/v1/tasks/no.such.task/logs",
        "/api/v1/tasks/no.such.task/context_directory",
        "/api/v1/checkpoints/no-such-uuid",
        "/api/v1/users/99",
        "/api/v1/users/nobody/by-username",
        "/api/v1/workspaces/99",
        "/api/v1/projects/99",
        "/api/v1/agents/nowhere",
        "/api/v1/windlass/experiments/99/searcher",
        "/api/v1/windlass/experiments/99/reasons",
        "/api/v1/windlass/allocations/no.such.1/reason",
        "/api/v1/job-queues-v2?resourcePool=nowhere",
    ):
        assert "not found" in await world.refused(404, "GET", path), path
    for action in ("activate", "pause", "cancel", "kill", "archive"):
        await world.refused(404, "POST", f"/api/v1/experiments/99/{action}")


async def test_killing_a_trial_ends_it_alone(world: ApiWorld) -> None:
    id_ = await world.create(ASHA)
    first = world.trial_id(id_)
    await world.ok("POST", f"/api/v1/trials/{first}/kill")
    trials = (await world.ok("GET", f"/api/v1/experiments/{id_}/trials"))["trials"]
    states = {t["id"]: t["state"] for t in trials}
    assert states.pop(first) == "STATE_CANCELED"
    assert set(states.values()) == {"STATE_QUEUED"}
    found = await world.ok("GET", f"/api/v1/experiments/{id_}/trials?states=STATE_CANCELED")
    assert [t["id"] for t in found["trials"]] == [first]


async def test_nothing_took_negative_time_when_the_clock_was_set_back(world: ApiWorld) -> None:
    id_ = await world.create()
    world.clock.jump(-3 * 3600)
    for act in ("pause", "kill"):
        await world.ok("POST", f"/api/v1/experiments/{id_}/{act}")
        shown = (await world.ok("GET", f"/api/v1/experiments/{id_}"))["experiment"]
        (run,) = (await world.ok("POST", "/api/v1/runs", {"sort": "duration=asc"}))["runs"]
        assert (shown["duration"], run["duration"]) == (0, 0)
    assert shown["startTime"] <= shown["endTime"]
    assert run["startTime"] <= run["endTime"]
    filters = {"kind": "field", "columnName": "duration", "operator": "<", "value": 0}
    group = {"kind": "group", "conjunction": "and", "children": [filters]}
    body = {"filter": json.dumps({"filterGroup": group})}
    assert (await world.ok("POST", "/api/v1/runs", body))["runs"] == []
