"""`det agent` and `det slot`: taking machines and slots out of service."""

from __future__ import annotations

import csv
import io
import json

import pytest
from client_scripted_master import Asked, ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.cli.main import app

DEVICE = {"type": "TYPE_CUDA", "brand": "H200"}
AGENTS = [
    {
        "id": "gpu-2",
        "resourcePools": ["big"],
        "enabled": False,
        "draining": True,
        "isolation": "bubblewrap",
        "containerRuntime": "process, podman 5.4.0",
        "oneUser": False,
        "slots": {
            "0": {"id": "0", "device": DEVICE, "enabled": False, "draining": False},
        },
    },
    {
        "id": "gpu-1",
        "resourcePools": ["default"],
        "enabled": True,
        "labels": ["rack=a12", "loud"],
        "isolation": "namespaces",
        "oneUser": True,
        "slots": {
            "0": {"id": "0", "device": DEVICE, "enabled": True, "container": {"id": "c1"}},
            "1": {
                "id": "1",
                "device": DEVICE,
                "enabled": False,
                "draining": True,
                "container": {"id": "c2"},
            },
        },
    },
    {
        "id": "gpu-3",
        "enabled": False,
        "connected": False,
        "isolation": "directory",
        "slots": {"0": {"id": "0"}},
    },
    {"id": "gpu-4", "enabled": True, "leavesAt": "2026-01-02T18:00:00Z"},
]
RUNNING = {
    "taskId": "3.a",
    "allocationId": "3.a.1",
    "name": "Trial 3",
    "slotsNeeded": 1,
    "registeredTime": "2026-01-02T03:04:05Z",
    "resources": [{"containerId": "c1", "agentDevices": {"gpu-1": {"devices": []}}}],
}
WAITING = {"taskId": "4.a", "allocationId": "4.a.1", "name": "Trial 4", "resources": None}


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "determined", "admin": True}})
    master.on("GET", "/api/v1/agents", {"agents": AGENTS})
    master.on("POST", "/api/v1/agents/[^/]+/(enable|disable)", {"agent": {}})
    master.on("POST", "/api/v1/agents/[^/]+/slots/[0-9]/(enable|disable)", {"slot": {}})
    tasks = {"3.a.1": RUNNING, "4.a.1": WAITING}
    master.on("GET", "/api/v1/tasks", {"allocationIdToSummary": tasks})
    return master


def det(master: ScriptedMaster, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments])


def changes(master: ScriptedMaster) -> list[tuple[str, object]]:
    """What was asked of agents: (path below /agents/, body)."""
    asked: list[Asked] = master.calls("POST", "/api/v1/agents/.*")
    return [(a.path.removeprefix("/api/v1/agents/"), a.body) for a in asked]


def test_agents_are_listed_with_their_labels_and_how_they_serve(cluster: ScriptedMaster) -> None:
    rows = list(csv.DictReader(io.StringIO(det(cluster, "agent", "list", "--csv").stdout)))
    assert [(row["Agent"], row["State"], row["Labels"], row["Isolation"]) for row in rows] == [
        ("gpu-2", "draining", "", "bubblewrap"),
        (
            "gpu-1",
            "enabled, 1 of its slots not",
            "rack=a12, loud",
            "namespaces, not root and one uid for all",
        ),
        ("gpu-3", "away", "", "no namespaces"),
        ("gpu-4", "leaves at 2026-01-02 18:00:00 UTC", "", ""),
    ]


def test_agents_are_listed_with_what_runs_their_tasks(cluster: ScriptedMaster) -> None:
    rows = list(csv.DictReader(io.StringIO(det(cluster, "agent", "list", "--csv").stdout)))
    assert [row["Runtime"] for row in rows] == ["process, podman 5.4.0", "", "", ""]


def test_agents_are_enabled_and_disabled_by_name(cluster: ScriptedMaster) -> None:
    enabled = det(cluster, "agent", "enable", "gpu-1", "odd/name")
    assert (enabled.exit_code, enabled.stdout) == (0, "")
    assert enabled.stderr.splitlines() == ["Enabled agent gpu-1", "Enabled agent odd/name"]
    disabled = det(cluster, "a", "disable", "gpu-1")
    assert (disabled.stdout, disabled.stderr) == ("", "Disabled agent gpu-1\n")
    assert changes(cluster) == [
        ("gpu-1/enable", None),
        ("odd%2Fname/enable", None),
        ("gpu-1/disable", {"drain": False}),
    ]


def test_an_agent_is_forgotten_and_what_that_costs_is_said(cluster: ScriptedMaster) -> None:
    cluster.on("DELETE", "/api/v1/windlass/agents/.*", {"lostAllocations": ["3.a.1", "4.b.1"]})
    told = det(cluster, "master", "forget-agent", "odd/name", "--force")
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == "Forgot agent odd/name; lost 3.a.1, 4.b.1\n"
    det(cluster, "master", "forget-agent", "gpu-1")
    forced, calm = cluster.calls("DELETE", "/api/v1/windlass/agents/.*")
    assert forced.path == "/api/v1/windlass/agents/odd%2Fname"
    assert (forced.query, calm.query) == ({"force": ["true"]}, {})


def test_all_agents_at_once(cluster: ScriptedMaster) -> None:
    assert det(cluster, "agent", "enable", "--all").exit_code == 0
    assert [path for path, _ in changes(cluster)] == [
        "gpu-1/enable",
        "gpu-2/enable",
        "gpu-3/enable",
        "gpu-4/enable",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("agent", "disable", "gpu-1"),
        ("agent", "enable", "gpu-1"),
        ("slot", "disable", "gpu-1", "0"),
    ],
)
def test_whoever_is_no_administrator_hears_the_way_out(
    cluster: ScriptedMaster, words: tuple[str, ...]
) -> None:
    answer = {"error": {"code": 7, "error": "user does not have permission"}}
    cluster.on("POST", "/api/v1/agents/.*", lambda _: (403, answer))
    refused = det(cluster, *words)
    assert refused.exit_code == 1
    assert refused.stderr == (
        "error: user does not have permission: only administrators may do this; "
        "run it as one: `det -u admin ...`\n"
    )


@pytest.mark.parametrize("which", [[], ["--all", "gpu-1"]])
@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_which_agents_must_be_said(cluster: ScriptedMaster, verb: str, which: list[str]) -> None:
    refused = det(cluster, "agent", verb, *which)
    assert refused.exit_code == 1
    assert refused.stderr == "error: Give either the ids of agents or --all\n"
    assert changes(cluster) == []


def test_draining_lists_what_still_runs_there(cluster: ScriptedMaster) -> None:
    drained = det(cluster, "agent", "disable", "--drain", "gpu-1")
    assert drained.stderr == "Draining agent gpu-1\n"
    header, row = drained.stdout.splitlines()
    assert header.split() == ["Task", "Allocation", "Name", "Slots", "Agents", "Submitted"]
    assert "Trial 3" in row
    assert "gpu-1" in row
    assert changes(cluster) == [("gpu-1/disable", {"drain": True})]
    as_json = det(cluster, "agent", "disable", "--all", "--drain", "--json").stdout
    assert json.loads(as_json) == [RUNNING]
    as_csv = det(cluster, "agent", "disable", "gpu-1", "--drain", "--csv").stdout
    assert as_csv.splitlines()[1] == "3.a,3.a.1,Trial 3,1,gpu-1,2026-01-02 03:04:05 UTC"
    empty = det(cluster, "agent", "disable", "--drain", "gpu-2")
    assert empty.stdout == ""
    assert empty.stderr.splitlines() == ["Draining agent gpu-2", "No tasks are running there"]


def test_an_agent_that_is_not_there_is_named(cluster: ScriptedMaster) -> None:
    error = {"error": {"code": 5, "reason": "NotFound", "error": "agent 'gpu-9' not found"}}
    cluster.on("POST", "/api/v1/agents/gpu-9/disable", lambda _: (404, error))
    refused = det(cluster, "agent", "disable", "gpu-9", "gpu-1")
    assert (refused.exit_code, refused.stderr) == (1, "error: agent 'gpu-9' not found\n")
    assert [path for path, _ in changes(cluster)] == ["gpu-9/disable"]


def test_slots_are_listed_with_what_holds_them(cluster: ScriptedMaster) -> None:
    listed = det(cluster, "slot", "list", "--csv").stdout.splitlines()
    assert listed == [
        "Agent,Pool,Slot,State,Allocation,Task,Kind,Device",
        "gpu-1,default,0,enabled,3.a.1,Trial 3,cuda,H200",
        "gpu-1,default,1,draining,OCCUPIED,,cuda,H200",
        "gpu-2,big,0,disabled,FREE,,cuda,H200",
        "gpu-3,,0,away,FREE,,,",
    ]
    table = det(cluster, "s", "ls").stdout.splitlines()
    assert (len(table), table[1].split()[:4]) == (5, ["gpu-1", "default", "0", "enabled"])
    first = json.loads(det(cluster, "slot", "list", "--json").stdout)[0]
    assert first == {
        "agent_id": "gpu-1",
        "resource_pools": "default",
        "slot_id": "0",
        "enabled": True,
        "draining": False,
        "state": "enabled",
        "allocation_id": "3.a.1",
        "task_name": "Trial 3",
        "type": "cuda",
        "device": "H200",
    }


def test_slots_are_enabled_and_disabled_by_number(cluster: ScriptedMaster) -> None:
    for arguments, told in (
        (["enable", "gpu-1", "0"], "Enabled slot 0 of agent gpu-1"),
        (["disable", "gpu-1", "1"], "Disabled slot 1 of agent gpu-1"),
        (["disable", "--drain", "gpu-1", "1"], "Draining slot 1 of agent gpu-1"),
    ):
        done = det(cluster, "slot", *arguments)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"{told}\n")
    assert changes(cluster) == [
        ("gpu-1/slots/0/enable", None),
        ("gpu-1/slots/1/disable", {"drain": False}),
        ("gpu-1/slots/1/disable", {"drain": True}),
    ]
    assert det(cluster, "slot", "disable", "gpu-1", "first").exit_code == 2
