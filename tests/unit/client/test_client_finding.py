"""`det experiment compare`, orders by metrics, `det run`, and how `describe` draws a search."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from client_scripted_master import Asked, ScriptedMaster

from tests.fakes.client_cli import EXPERIMENT, NO_COST, TRIAL, det
from windlass.base.errors import InvalidArgument
from windlass.cli.experiment.finding import condition, metric_of, order_of
from windlass.cli.experiment.search import sparkline

SEARCH = "/api/v1/experiments-search"
SUMMARY = {"validation_metrics": {"loss": {"min": 0.125, "max": 2.0}}}
RUN = {
    "id": 11,
    "state": "STATE_COMPLETED",
    "hyperparameters": {"lr": 0.1},
    "searcherMetricValue": 0.5,
    "summaryMetrics": SUMMARY,
    "experiment": {"id": 7, "name": "digits"},
}


@pytest.mark.parametrize(
    ("sort", "metric", "order"),
    [
        ("metric:loss", "validation.loss.min", "validation.loss.min=asc"),
        ("-metric:accuracy", "validation.accuracy.max", "validation.accuracy.max=desc"),
        ("-metric:training.loss.last", "training.loss.last", "training.loss.last=desc"),
        ("metric:a.b", "validation.a.b.min", "validation.a.b.min=asc"),
        ("hp.lr", "", "hp.lr=asc"),
        ("started", "", ""),
        ("", "", ""),
    ],
)
def test_an_order_is_the_masters_or_a_column_here(sort: str, metric: str, order: str) -> None:
    assert (metric_of(sort), order_of(sort)) == (metric, order)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("state=COMPLETED", ("RUN", "state", "TEXT", "=", "COMPLETED")),
        ("hp.lr >= 0.1", ("RUN_HYPERPARAMETERS", "hp.lr", "NUMBER", ">=", 0.1)),
        ("validation.loss.min<2", ("VALIDATIONS", "validation.loss.min", "NUMBER", "<", 2)),
        ("metadata.a.b!=x y", ("RUN_METADATA", "metadata.a.b", "TEXT", "!=", "x y")),
        ("experimentName contains d=1", ("RUN", "experimentName", "TEXT", "contains", "d=1")),
    ],
)
def test_a_condition_is_read(text: str, found: tuple[Any, ...]) -> None:
    location, name, kind, operator, value = found
    assert condition(text) == {
        "kind": "field",
        "location": f"LOCATION_TYPE_{location}",
        "columnName": name,
        "type": f"COLUMN_TYPE_{kind}",
        "operator": operator,
        "value": value,
    }


@pytest.mark.parametrize("text", ["", "loss", "loss 3", "=3"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--where: expected NAME"):
        condition(text)


def test_experiments_are_sorted_by_a_metric_of_the_best_trial(cluster: ScriptedMaster) -> None:
    found = {"experiment": EXPERIMENT, "bestTrial": {"summaryMetrics": SUMMARY}}
    cluster.on("POST", SEARCH, {"experiments": [found, {**found, "bestTrial": None}]})
    out = det(cluster, "e", "list", "--sort", "metric:loss", "--limit", "5", "--csv").stdout
    header, best, without = csv.reader(io.StringIO(out))
    assert (header[-1], best[-1], without[-1]) == ("validation.loss.min", "0.125", "")
    (asked,) = cluster.calls("POST", SEARCH)
    assert (asked.body["sort"], asked.body["limit"]) == ("validation.loss.min=asc", 5)
    wanted = json.loads(asked.body["filter"])
    assert wanted["showArchived"] is False
    assert [c["value"] for c in wanted["filterGroup"]["children"]] == ["determined"]


def test_runs_are_listed_as_asked(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/runs", {"runs": [RUN]})
    more = ["--where", "hp.lr<1", "--sort", "-metric:loss", "--csv"]
    out = det(cluster, "run", "list", "--experiment", "7", *more).stdout
    header, row = csv.reader(io.StringIO(out))
    assert (row[:4], header[-1], row[-1]) == (
        ["11", "7", "digits", "COMPLETED"],
        "validation.loss.max",
        "2",
    )
    (asked,) = cluster.calls("POST", "/api/v1/runs")
    assert (asked.body["sort"], asked.body["limit"]) == ("validation.loss.max=desc", -1)
    names = [c["columnName"] for c in json.loads(asked.body["filter"])["filterGroup"]["children"]]
    assert names == ["hp.lr", "experimentId"]


def test_the_newest_runs_of_the_user_come_first(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/runs", {"runs": [RUN]})
    assert det(cluster, "run", "list", "--limit", "3").exit_code == 0
    (asked,) = cluster.calls("POST", "/api/v1/runs")
    assert (asked.body["sort"], asked.body["limit"]) == ("id=desc", 3)
    assert "determined" in asked.body["filter"]


def test_lists_take_a_filter_as_people_write_it(cluster: ScriptedMaster) -> None:
    text = "state = RUNNING and lr < 0.01"
    cluster.on("POST", "/api/v1/runs", {"runs": [RUN]})
    assert det(cluster, "run", "list", "--filter", text).exit_code == 0
    both = [{"experiment": {**EXPERIMENT, "id": id_}, "bestTrial": None} for id_ in (9, 8)]
    cluster.on("POST", SEARCH, {"experiments": both})
    out = det(cluster, "e", "list", "--filter", text, "--limit", "2", "--csv").stdout
    assert [row[0] for row in csv.reader(io.StringIO(out))][1:] == ["8", "9"], "as without a filter"
    asked = cluster.calls("POST", "/api/v1/runs") + cluster.calls("POST", SEARCH)
    for one in asked:
        assert one.body["written"] == text
        assert json.loads(one.body["filter"])["filterGroup"]["children"] == [], "of all users"
    assert (asked[1].body["sort"], asked[1].body["limit"]) == ("id=desc", 2)


@pytest.mark.parametrize("action", ["kill", "pause", "resume", "archive", "unarchive"])
def test_each_run_has_its_own_answer(cluster: ScriptedMaster, action: str) -> None:
    results = [{"id": 1, "error": ""}, {"id": 2, "error": "Run is archived."}]
    cluster.on("POST", f"/api/v1/runs/{action}", {"results": results})
    result = det(cluster, "run", action, "1", "2")
    assert result.exit_code == 1
    assert cluster.calls("POST", f"/api/v1/runs/{action}")[0].body == {"runIds": [1, 2]}
    assert result.stderr.splitlines()[1] == "error: run 2: Run is archived."


def test_runs_are_deleted_when_that_is_meant(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/runs/delete", {"results": [{"id": 1, "error": ""}]})
    assert det(cluster, "run", "delete", "1").exit_code == 1, "nobody has said yes"
    assert cluster.calls("POST", "/api/v1/runs/delete") == []
    assert det(cluster, "run", "delete", "1", "--yes").stderr == "Deleting run 1\n"
    cluster.on("POST", "/api/v1/runs", {"runs": [{**RUN, "deletion": "DELETE_FAILED"}]})
    assert "DELETE_FAILED" in det(cluster, "run", "list").stdout


def compared(cluster: ScriptedMaster) -> None:
    for id_, lr, best in ((7, 0.1, 11), (8, 0.2, None)):
        searcher = {"metric": "loss", "name": "single"}
        config = {"searcher": searcher, "hyperparameters": {"lr": lr}, "labels": ["a"]}
        if id_ == 8:
            config["description"] = "more"
        shown = {**EXPERIMENT, "id": id_, "numTrials": 1, "bestTrialId": best, "duration": 60}
        cluster.on("GET", f"/api/v1/experiments/{id_}", {"experiment": shown, "config": config})
        cluster.on("GET", f"/api/v1/windlass/experiments/{id_}/cost", NO_COST | {"usd": 1.5})
    validation = {"metrics": {"avgMetrics": {"loss": 0.25, "accuracy": 0.5}}}
    cluster.on("GET", "/api/v1/trials/11", {"trial": TRIAL | {"bestValidation": validation}})


def test_experiments_are_compared(cluster: ScriptedMaster) -> None:
    compared(cluster)
    out = det(cluster, "e", "compare", "7", "8", "--csv").stdout
    header, *rows = csv.reader(io.StringIO(out))
    cells = {row[0]: row[1:] for row in rows}
    assert header == ["", "7", "8"]
    assert cells["best loss"] == ["0.25", ""]
    assert cells["best accuracy"] == ["0.5", ""]
    assert cells["cost (USD)"] == ["1.5", "1.5"]
    assert cells["hyperparameters.lr"] == ["0.1", "0.2"]
    assert cells["description"] == ["", "more"]
    assert not {"labels", "searcher.metric"} & set(cells), "what is the same is not shown"
    first, second = json.loads(det(cluster, "e", "compare", "7", "8", "--json").stdout)
    assert first["settings"] == {"hyperparameters.lr": 0.1}
    assert second["settings"] == {"description": "more", "hyperparameters.lr": 0.2}


def test_the_code_of_two_experiments_is_compared(cluster: ScriptedMaster) -> None:
    changed = {"path": "a.py", "change": "changed", "diff": "--- a/a.py\n-1\n+2\n", "whyNot": ""}
    large = {"path": "data", "change": "added", "diff": "", "whyNot": "not text"}
    found = {"configuration": "", "files": [changed, large], "differing": 3, "same": 1}
    path = "/api/v1/windlass/experiments/7/difference"
    cluster.on("GET", path, found)
    result = det(cluster, "e", "compare", "7", "8", "--code")
    assert result.stdout == changed["diff"]
    assert result.stderr.splitlines() == [
        "data: added, not compared: not text",
        "1 more files differ",
    ]
    (asked,) = cluster.calls("GET", path)
    assert asked.query == {"otherId": ["8"]}
    assert json.loads(det(cluster, "e", "compare", "7", "8", "--code", "--json").stdout) == found
    cluster.on("GET", path, {**found, "files": [], "differing": 0})
    assert "is the same" in det(cluster, "e", "compare", "7", "8", "--code").stderr
    assert "compares two" in det(cluster, "e", "compare", "7", "8", "9", "--code").stderr


def test_anything_is_found_by_its_name(cluster: ScriptedMaster) -> None:
    one = {"kind": "experiment", "id": "7", "name": "digits", "detail": "lab / vision"}
    cluster.on("GET", "/api/v1/windlass/search", {"found": [one], "more": True})
    result = det(cluster, "search", "dig", "--limit", "1", "--csv")
    assert result.stdout == "Kind,ID,Name,Where\nexperiment,7,digits,lab / vision\n"
    assert "more than these 1" in result.stderr
    assert json.loads(det(cluster, "search", "dig", "--json").stdout) == [one]
    first, _ = cluster.calls("GET", "/api/v1/windlass/search")
    assert first.query == {"q": ["dig"], "limit": ["1"]}


def test_one_experiment_is_no_comparison(cluster: ScriptedMaster) -> None:
    result = det(cluster, "e", "compare", "7", "7")
    assert result.exit_code != 0
    assert "at least two" in result.stderr


def test_describe_draws_the_metric_and_the_rungs(cluster: ScriptedMaster) -> None:
    config = {"searcher": {"metric": "loss", "smaller_is_better": True}}
    halving = EXPERIMENT | {"searcherType": "async_halving"}
    cluster.on("GET", "/api/v1/experiments/7", {"experiment": halving, "config": config})
    entries = [
        {"trialId": 11, "metric": 0.25, "promoted": True},
        {"trialId": 12, "metric": 1, "promoted": False},
    ]
    rung = {"bracket": 0, "rung": 0, "units": 4, "entries": entries}
    rung |= {"training": [{"trialId": 13}], "toGoOn": 0.25, "isLast": False}
    last = {"bracket": 0, "rung": 1, "units": 16, "entries": []}
    last |= {"training": [{"trialId": 11}], "toGoOn": None, "isLast": True}
    cluster.on("GET", "/api/v1/windlass/experiments/7/searcher", {"rungs": [rung, last]})

    def series(asked: Asked) -> tuple[int, Any]:
        assert (asked.query["trialIds"], asked.query["metricNames"]) == (["11"], ["loss"])
        data = [{"values": {"loss": value}} for value in (2.0, 1.0, 0.25)]
        return 200, {"trials": [{"trial": {"id": 11}, "metrics": [{"data": data}]}]}

    cluster.on("GET", "/api/v1/trials/time-series", series)
    lines = [line.split() for line in det(cluster, "e", "describe", "7").stdout.splitlines()]
    assert ["11", "█▄▁", "2", "0.25", "0.25"] in lines
    assert ["0", "0", "4", "2", "1", "1", "0.25", "11", "0.25"] in lines
    assert ["0", "1", "16", "0", "0", "1", "ends", "here"] in lines


def test_a_sparkline_goes_from_the_smallest_to_the_largest() -> None:
    assert sparkline([0, 1, 2], "abc") == "abc"
    assert sparkline([5, 5], "abc") == "aa"
    assert sparkline([-1.0], "abc") == "a"
