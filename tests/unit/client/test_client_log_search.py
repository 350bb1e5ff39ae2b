"""`det task logs` with --search, --regex, --line and -C: what it asks the master, and what it prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_scripted_master import Answer, Asked, ScriptedMaster, log_in

from tests.fakes.client_cli import det

ID = "0a1b2c3d-0000-4000-8000-000000000001"
URL = f"/api/v1/windlass/tasks/{ID}/logs"


def line(number: int) -> dict[str, Any]:
    return {"id": str(100 + number), "number": number, "message": f"line {number}\n"}


def step(found: int, *hits: int) -> bytes:
    result = {"looked": 9, "total": 20, "found": found, "hits": [line(n) for n in hits]}
    return json.dumps({"result": result}).encode() + b"\n"


def window(asked: Asked) -> Answer:
    (before,), query = asked.query["before"], asked.query
    at = int(query["line"][0]) if "line" in query else int(query["id"][0]) - 100
    first, last = max(1, at - int(before)), min(20, at + int(before))
    return 200, {"lines": [line(n) for n in range(min(first, 20), last + 1)]}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    steps = step(0) + step(2, 4, 6) + step(3, 12)
    master.on("GET", f"{URL}/search", lambda _: (200, steps))
    master.on("GET", f"{URL}/window", window)
    return master


def logs(cluster: ScriptedMaster, *options: str) -> str:
    return det(cluster, "task", "logs", ID, *options).stdout


def test_hits_have_the_numbers_of_their_lines(cluster: ScriptedMaster) -> None:
    assert logs(cluster, "--search", "x y") == "4:line 4\n6:line 6\n12:line 12\n"
    assert cluster.calls("GET", f"{URL}/search")[-1].query["text"] == ["x y"]
    logs(cluster, "--regex", "a+")
    assert cluster.calls("GET", f"{URL}/search")[-1].query["regex"] == ["a+"]


def test_context_shows_each_line_once_and_where_some_are_left_out(cluster: ScriptedMaster) -> None:
    assert logs(cluster, "--search", "x", "-C", "1").splitlines() == [
        *("3-line 3", "4:line 4", "5-line 5", "6:line 6", "7-line 7"),
        "--",
        *("11-line 11", "12:line 12", "13-line 13"),
    ]


def test_a_line_by_its_number(cluster: ScriptedMaster) -> None:
    assert logs(cluster, "--line", "7") == "7:line 7\n"
    assert logs(cluster, "--line", "7", "-C", "1") == "6-line 6\n7:line 7\n8-line 8\n"
    assert "no line 99" in det(cluster, "task", "logs", ID, "--line", "99").stderr


def test_json_says_which_are_hits(cluster: ScriptedMaster) -> None:
    found, at = [], 0
    text = logs(cluster, "--search", "x", "-C", "1", "--json")
    while at < len(text.rstrip()):
        document, at = json.JSONDecoder().raw_decode(text, at)
        found.append((document["number"], document["isHit"]))
        at += 1
    assert found[:4] == [(3, False), (4, True), (5, False), (6, True)]


def test_it_says_when_there_are_none_and_when_there_are_more(cluster: ScriptedMaster) -> None:
    cluster.on("GET", f"{URL}/search", lambda _: (200, step(20_000, 1, 2)))
    more = det(cluster, "task", "logs", ID, "--search", "x")
    assert "20000 lines were found; these are the first 2" in more.stderr
    cluster.on("GET", f"{URL}/search", lambda _: (200, step(0)))
    assert "No line was found" in det(cluster, "task", "logs", ID, "--search", "x").stderr


@pytest.mark.parametrize(
    "options",
    [
        ("-C", "2"),
        ("--search", "x", "--regex", "y"),
        ("--search", "x", "--follow"),
        ("--line", "3", "--tail", "2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    cluster: ScriptedMaster, options: tuple[str, ...]
) -> None:
    refused = det(cluster, "task", "logs", ID, *options)
    assert refused.exit_code != 0
    assert "Use" in refused.stderr
    assert not cluster.calls("GET", f"{URL}/.*")
