"""Verbs of users, checkpoints, experiments and the fleet: what they send, print and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, log_in
from typer.testing import CliRunner, Result

from windlass.base.errors import InvalidArgument
from windlass.cli.cluster import user as user_commands
from windlass.cli.main import app
from windlass.sdk.wire import Json, hash_password

LINK = {"agentUid": 1000, "agentUser": "ann", "agentGid": 100, "agentGroup": "users"}
PASSWORD = "Correct-Horse-1"


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    master.on("GET", "/api/v1/me", {"user": {"username": "ann", "id": 5}})
    master.on("POST", "/api/v1/users", {"user": {"id": 9}})
    master.on("PATCH", "/api/v1/users/.*", {"user": {"id": 5}})
    for name, number in (("ann", 5), ("bob", 6)):
        path = f"/api/v1/users/{name}/by-username"
        master.on("GET", path, {"user": {"id": number, "username": name}})
    return master


def det(master: ScriptedMaster, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["-m", master.url, *arguments], input=stdin)


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    return result.stderr


def test_users_are_listed(cluster: ScriptedMaster) -> None:
    users = [
        {"username": "admin", "active": True, "admin": True},
        {
            "username": "ann",
            "displayName": "Ann",
            "active": False,
            "admin": False,
            "agentUserGroup": LINK,
        },
    ]
    page = {"endIndex": 2, "total": 2}
    cluster.on("GET", "/api/v1/users", {"users": users, "pagination": page})
    result = det(cluster, "user", "list", "--csv")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "User,Name,Active,Admin,Remote,Tasks run as",
        "admin,,yes,yes,no,",
        "ann,Ann,no,no,no,ann:users (1000:100)",
    ]


def test_a_user_is_linked_with_one_of_the_agents_machines(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/users/eve/by-username", {"user": {"id": 7, "username": "eve"}})
    cluster.on("PATCH", "/api/v1/users/7", {"user": {}})
    words = ("--agent-uid", "1000", "--agent-user", "ann", "--agent-gid", "100")
    result = det(cluster, "user", "link-with-agent-user", "eve", *words, "--agent-group", "users")
    assert (result.exit_code, result.stderr) == (
        0,
        "Tasks of eve run as ann (1000), group users (100)\n",
    )
    assert det(cluster, "user", "unlink-agent-user", "eve").exit_code == 0
    linked, unlinked = cluster.calls("PATCH", "/api/v1/users/7")
    assert (linked.body, unlinked.body) == ({"agentUserGroup": LINK}, {"agentUserGroup": {}})
    assert det(cluster, "user", "link-with-agent-user", "eve", *words).exit_code == 2


def test_a_user_is_created_with_a_hashed_password(cluster: ScriptedMaster) -> None:
    result = det(cluster, "user", "create", "eve", "--admin", "--password", PASSWORD)
    assert (result.exit_code, result.stderr) == (0, "Created user eve\n")
    (asked,) = cluster.calls("POST", "/api/v1/users")
    assert asked.body == {
        "user": {"username": "eve", "admin": True, "active": True, "remote": False},
        "password": hash_password(PASSWORD),
        "isHashed": True,
    }
    assert det(cluster, "u", "create", "sso", "--remote").exit_code == 0
    assert "password" not in cluster.calls("POST", "/api/v1/users")[1].body


@pytest.mark.parametrize(
    ("options", "stdin", "message"),
    [
        (("--password", "short"), None, "at least 8 characters, an upper-case letter, a digit"),
        (("--password-stdin",), "alllowercase1\n", "needs an upper-case letter"),
        ((), "", "use --password-stdin"),
        (("--remote", "--password", PASSWORD), None, "--remote cannot be used with a password"),
    ],
)
def test_a_bad_password_is_refused_before_it_is_sent(
    cluster: ScriptedMaster, options: tuple[str, ...], stdin: str | None, message: str
) -> None:
    line = refused(det(cluster, "user", "create", "eve", *options, stdin=stdin))
    assert message in line
    assert "short" not in line
    assert cluster.calls("POST", "/api/v1/users") == []


def test_only_administrators_create_users(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/users", lambda _: (403, {"error": {"error": "no"}}))
    line = refused(det(cluster, "user", "create", "eve", "--password", PASSWORD))
    assert line == "error: no: only administrators may do this; run it as one: `det -u admin ...`\n"


def test_changing_the_own_password_keeps_the_login(cluster: ScriptedMaster) -> None:
    result = det(cluster, "user", "change-password", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert (result.exit_code, result.stderr) == (0, "Changed the password of ann\n")
    (asked,) = cluster.calls("PATCH", "/api/v1/users/5")
    assert asked.body == {"password": hash_password(PASSWORD), "isHashed": True}
    assert all(
        call.body["password"] != hash_password(PASSWORD)
        for call in cluster.calls("POST", "/api/v1/auth/login")
    )


def test_the_password_of_another_user_leaves_the_login_alone(cluster: ScriptedMaster) -> None:
    words = ("user", "change-password", "bob", "--password-stdin")
    assert det(cluster, *words, stdin=f"{PASSWORD}\n").exit_code == 0
    assert len(cluster.calls("PATCH", "/api/v1/users/6")) == 1
    assert all(
        call.body["username"] != "bob" for call in cluster.calls("POST", "/api/v1/auth/login")
    )


class Terminal:
    def isatty(self) -> bool:
        return True


def test_a_typed_password_must_be_typed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([PASSWORD, PASSWORD + "x", PASSWORD, PASSWORD])
    monkeypatch.setattr(user_commands, "ask_password", lambda _: next(answers))
    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(InvalidArgument, match="do not match"):
        user_commands._new_password("eve", None, from_stdin=False)
    assert user_commands._new_password("eve", None, from_stdin=False) == PASSWORD


CHECKPOINT: Json = {
    "uuid": "c-1",
    "state": "STATE_COMPLETED",
    "reportTime": "2026-01-02T03:04:05Z",
    "resources": {"model.bin": "3", "sub/": "0", "sub/a": "1"},
    "metadata": {"steps_completed": 40},
    "training": {"trialId": 11, "experimentId": 7},
}


def checkpoint(storage: Json, **changes: object) -> Json:
    training = {**CHECKPOINT["training"], "experimentConfig": {"checkpoint_storage": storage}}
    return {"checkpoint": {**CHECKPOINT, "training": training, **changes}}


@pytest.fixture
def stored(cluster: ScriptedMaster, tmp_path: Path) -> Path:
    """The storage directory, with one checkpoint."""
    place = tmp_path / "storage" / "below" / "c-1"
    (place / "sub").mkdir(parents=True)
    (place / "model.bin").write_bytes(b"abc")
    (place / "sub" / "a").write_bytes(b"d")
    storage = {
        "type": "shared_fs",
        "host_path": str(tmp_path / "storage"),
        "storage_path": "below",
    }
    cluster.on("GET", "/api/v1/checkpoints/c-1", checkpoint(storage))
    return place


def test_a_checkpoint_is_downloaded(
    cluster: ScriptedMaster, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = det(cluster, "checkpoint", "download", "c-1", "-q")
    assert (result.exit_code, result.stdout) == (0, "checkpoints/c-1\n"), result.output
    copy = tmp_path / "checkpoints" / "c-1"
    assert (copy / "model.bin").read_bytes() == b"abc"
    assert (copy / "sub" / "a").read_bytes() == b"d"
    assert json.loads((copy / "metadata.json").read_text()) == {"steps_completed": 40}
    elsewhere = det(cluster, "c", "download", "c-1", "-o", str(tmp_path / "x"), "--mode", "direct")
    assert elsewhere.exit_code == 0
    assert (tmp_path / "x" / "model.bin").exists()
    assert "2026-01-02 03:04:05 UTC" in elsewhere.stdout


def test_what_was_downloaded_is_not_downloaded_again(
    cluster: ScriptedMaster, stored: Path, tmp_path: Path
) -> None:
    words = ("checkpoint", "download", "c-1", "-q", "-o", str(tmp_path / "x"))
    assert det(cluster, *words).exit_code == 0
    (tmp_path / "x" / "model.bin").write_bytes(b"own")
    assert det(cluster, *words).exit_code == 0
    assert (tmp_path / "x" / "model.bin").read_bytes() == b"own"
    (tmp_path / "x" / "model.bin").write_bytes(b"cut off")
    assert det(cluster, *words).exit_code == 0
    assert (tmp_path / "x" / "model.bin").read_bytes() == b"abc"


@pytest.mark.parametrize(
    ("storage", "state", "message"),
    [
        ({"type": "s3", "bucket": "b"}, "COMPLETED", "Directly: s3://b: no credentials"),
        (
            {"type": "directory", "container_path": "/no/such"},
            "COMPLETED",
            "Directly: /no/such: No such file or directory: is it mounted on this machine?",
        ),
        (
            {"type": "s3"},
            "DELETED",
            "its state is DELETED: its files were deleted, as somebody asked or as the keep counts of "
            "experiment 7 say: `det checkpoint list 7` shows what is left",
        ),
        ({"type": "s3"}, "ACTIVE", "its state is ACTIVE: it is still being written: try again"),
    ],
)
def test_what_cannot_be_downloaded_says_why(
    cluster: ScriptedMaster, storage: Json, state: str, message: str, tmp_path: Path
) -> None:
    answer = checkpoint(storage, state=f"STATE_{state}")
    cluster.on("GET", "/api/v1/checkpoints/c-1", answer)
    words = ("checkpoint", "download", "c-1", "-o", str(tmp_path / "x"))
    assert message in refused(det(cluster, *words))
    assert not (tmp_path / "x").exists()


def test_experiments_are_archived_and_their_files_deleted(cluster: ScriptedMaster) -> None:
    cluster.on("POST", "/api/v1/experiments/7/(archive|unarchive)", {})
    gone = {"taskIds": ["7.x"]}
    cluster.on("DELETE", "/api/v1/experiments/7/tensorboard-files", gone)
    cluster.on("GET", "/api/v1/experiments/7", {"experiment": {}, "config": {"name": "digits"}})
    for verb, said in (
        ("archive", "Archived experiment 7\n"),
        ("unarchive", "Unarchived experiment 7\n"),
        (
            "delete-tensorboard-files",
            "Deleting the TensorBoard files of experiment 7\nTo see how it went: det task logs 7.x\n",
        ),
    ):
        result = det(cluster, "e", verb, "7")
        assert (result.exit_code, result.stderr) == (0, said)
    assert len(cluster.calls("DELETE", "/api/v1/experiments/7/tensorboard-files")) == 1
    assert det(cluster, "e", "config", "7").stdout == "name: digits\n"


FLEET: Json = {
    "instances": [
        {
            "id": "i-1",
            "pool": "compute",
            "offer": {
                "provider": "embedded",
                "region": "local",
                "zone": "local-a",
                "instanceType": "gpu.small",
                "market": "on_demand",
            },
            "slots": 2,
            "usdPerHour": 4.0,
            "usd": 0.01,
            "activity": "busy",
            "reason": "2 slots requested",
            "createdAt": "2026-01-02T03:04:05Z",
            "ageS": 90.4,
        }
    ],
    "blockedOffers": [
        {
            "offer": {"instanceType": "spot-2x"},
            "reason": "out of stock",
            "until": "2026-01-02T03:06:05Z",
        }
    ],
    "usd": 25.0,
    "usdPerHour": 4.0,
    "peakInstances": 3,
    "peakUsdPerHour": 12.0,
    "firstLaunchAt": "2026-01-02T03:04:05Z",
    "alwaysOnUsd": 100.0,
}


def test_the_fleet_is_listed(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/windlass/fleet", FLEET)
    result = det(cluster, "fleet", "list")
    assert result.exit_code == 0, result.output
    assert "gpu.small" in result.stdout
    assert "1m30s" in result.stdout
    assert result.stderr.splitlines() == [
        "No spot-2x until 2026-01-02 03:06:05 UTC: out of stock",
        "The costs of embedded pools are simulated",
    ]
    assert json.loads(det(cluster, "fleet", "ls", "--json").stdout) == FLEET["instances"]
    assert len(det(cluster, "fleet", "list", "--csv").stdout.splitlines()) == 2


def test_costs_are_compared_with_an_always_on_fleet(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/api/v1/windlass/fleet", FLEET)
    lines = det(cluster, "fleet", "costs").stdout.splitlines()
    assert "cost so far                25.00 USD" in lines
    assert "saved                      75.00 USD (75%)" in lines
    document = json.loads(det(cluster, "fleet", "costs", "--json").stdout)
    assert document["alwaysOnUsd"] == 100.0
    assert "instances" not in document


def test_a_cluster_without_elastic_pools_has_no_costs(cluster: ScriptedMaster) -> None:
    nothing = {**FLEET, "instances": [], "usd": 0.0, "alwaysOnUsd": 0.0, "firstLaunchAt": None}
    cluster.on("GET", "/api/v1/windlass/fleet", nothing)
    result = det(cluster, "fleet", "costs")
    assert result.exit_code == 0
    assert "saved" not in result.stdout
    assert result.stderr == ""


PLAN: Json = {
    "launches": [
        {
            "pool": "gpu",
            "offer": "aws/east/p4d/spot",
            "machines": 2,
            "slots": 16,
            "usdPerHour": 19.2,
            "readyInS": 180.0,
            "runs": 3,
            "runsOfConfig": 2,
        }
    ],
    "usdPerHour": 19.2,
    "asked": [
        {
            "pool": "gpu",
            "slots": 8,
            "runs": 2,
            "outcome": "launches",
            "reason": None,
            "fallBack": None,
        },
        {
            "pool": "gpu",
            "slots": 8,
            "runs": 1,
            "outcome": "waits",
            "reason": {"kind": "at_limit", "text": "pool gpu is at max_instances (2)"},
            "fallBack": None,
        },
    ],
    "waiting": [{"pool": "gpu", "runs": 4, "reason": {"kind": "quota", "text": "quota vCPUs"}}],
    "considered": [
        {
            "pool": "gpu",
            "slots": 8,
            "singleAgent": False,
            "asks": "",
            "runs": 3,
            "runsOfConfig": 2,
            "offers": [
                {
                    "offer": "aws/east/p4d/spot",
                    "slots": 8,
                    "machines": 3,
                    "usdPerHour": 28.8,
                    "usdPerWorkHour": 30.0,
                    "slowdown": 1.25,
                    "launched": 2,
                    "whyNot": "",
                },
                {
                    "offer": "aws/east/g5/spot",
                    "slots": 1,
                    "machines": 0,
                    "usdPerHour": None,
                    "usdPerWorkHour": None,
                    "slowdown": 1.0,
                    "launched": 0,
                    "whyNot": "too few slots for one agent",
                },
            ],
        }
    ],
}


def test_a_plan_says_what_would_be_launched_and_why_nothing_else(
    cluster: ScriptedMaster, tmp_path: Path
) -> None:
    cluster.on("POST", "/api/v1/windlass/fleet/plan", PLAN)
    file = tmp_path / "experiment.yaml"
    file.write_text("name: one  # kept\n")
    result = det(cluster, "fleet", "plan", "-f", str(file))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "2 runs of 8 slots in pool gpu: machines would be launched"
    assert lines[1] == "1 run of 8 slots in pool gpu: pool gpu is at max_instances (2)"
    launch = "aws/east/p4d/spot gpu 2 16 19.20 3m 3, 2 of this"
    assert " ".join(lines[3].split()) == launch
    assert lines[4] == "Together 2 machines, 19.20 USD per hour"
    assert lines[5] == "4 runs in pool gpu: quota vCPUs"
    assert "Weighed for 3 runs of 8 slots in pool gpu:" in lines
    assert " ".join(lines[-2].split()) == "aws/east/p4d/spot 3 28.80 1.25 x as long 30.00 2"
    assert " ".join(lines[-1].split()) == "aws/east/g5/spot too few slots for one agent"
    (asked,) = cluster.calls("POST", "/api/v1/windlass/fleet/plan")
    assert asked.body == {"experiment": "name: one  # kept\n"}


def test_a_plan_without_a_file_is_of_what_waits(cluster: ScriptedMaster, tmp_path: Path) -> None:
    nothing = {"launches": [], "usdPerHour": 0.0, "asked": [], "waiting": [], "considered": []}
    cluster.on("GET", "/api/v1/windlass/fleet/plan", nothing)
    assert det(cluster, "fleet", "plan").stdout == "Nothing would be launched now\n"
    assert json.loads(det(cluster, "fleet", "plan", "--json").stdout) == nothing
    cluster.on("POST", "/api/v1/windlass/fleet/plan", PLAN)
    file = tmp_path / "command.yaml"
    file.write_text("entrypoint: [sleep, '1']\n")
    options = ("--config", "name=x", "--template", "mine")
    result = det(cluster, "fleet", "plan", "--command", "-f", str(file), *options)
    assert result.exit_code == 0, result.output
    (asked,) = cluster.calls("POST", "/api/v1/windlass/fleet/plan")
    command = {"entrypoint": ["sleep", "1"], "name": "x"}
    assert asked.body == {"command": command, "template": "mine"}
