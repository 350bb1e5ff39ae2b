"""`det cmd`, `det shell` and `det notebook` as a user of ours runs them, against a real master with a real agent."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.jails import open_way_to
from tests.real_cluster import PATIENCE_S, RealCluster, eventually, free_port
from windlass.sdk.interactive import COMMAND, NOTEBOOK, SHELL

JUPYTER = Path(__file__).parents[3] / ".jupyter"
DET = str(Path(sys.executable).with_name("det"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("det-commands")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=1)
        yield cluster


def start(
    cluster: RealCluster, *words: str, stdout: int = subprocess.PIPE, **more: str
) -> subprocess.Popen[str]:
    """`more`: variables."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    return subprocess.Popen(
        [DET, "-m", cluster.url, *words],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            **cluster.login_as(),
            **more,
        },
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def det(cluster: RealCluster, *words: str) -> tuple[int, str, str]:
    process = start(cluster, *words)
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def test_the_exit_code_says_how_it_ended(cluster: RealCluster) -> None:
    code, out, err = det(cluster, "cmd", "run", "echo", "to stdout")
    assert (code, err.splitlines()[-1].partition(" ended: ")[2]) == (0, "success"), err
    assert any(line.endswith("|| to stdout") for line in out.splitlines()), out
    code, out, err = det(cluster, "cmd", "run", "echo before; exit 7")
    assert code == 1
    assert "before" in out
    assert "7" in err.splitlines()[-1]


def test_what_operators_do(cluster: RealCluster, tmp_path: Path) -> None:
    def done(*words: str) -> str:
        process = start(cluster, *words, **cluster.login_as("admin"))
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        return out + err

    message = ("master", "cluster-message")
    done(*message, "set", "-m", "down at noon", "-d", "1h")
    assert "down at noon" in done(*message, "get")
    (tmp_path / "body.json").write_text('{"message": "later", "startTime": "2099-01-01T00:00:00Z"}')
    path = "/api/v1/master/cluster_message"
    done("api", "put", path, "--json", str(tmp_path / "body.json"))
    assert json.loads(done("api", "GET", path))["clusterMessage"]["message"] == "later"
    done(*message, "clear")
    done("master", "log-level", "debug")
    logged = done("master", "logs", "--tail", "50")
    assert "[INFO]: cluster message cleared by=" in logged
    assert "[WARNING]: log settings changed" in logged
    assert json.loads(done("master", "show-config"))["log"]["level"] == "debug"
    assert "Deleted 0 lines of logs" in done("task", "cleanup-logs")
    times = ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
    assert done("resources", "allocations", *times).startswith("allocation_id,")
    assert done("resources", "raw", *times).startswith("experiment_id,")
    days = ("2026-01-01", "2026-12-31", "--monthly")
    assert done("resources", "aggregated", *days).startswith("aggregation_type,")
    code, _, err = det(cluster, "api", "GET", "https://elsewhere/")
    assert (code, "must begin with /" in err) == (1, True)


def test_a_template_is_stored_and_launched_with(cluster: RealCluster, tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    variables = {"environment_variables": ["SAID=by-the-template"]}
    file.write_text(yaml.safe_dump({"environment": variables, "searcher": {"name": "single"}}))
    code, _, err = det(cluster, "template", "create", "team/a", str(file))
    assert (code, err) == (0, "Created template team/a\n")
    code, _, err = det(cluster, "tpl", "create", "team/a", str(file))
    assert (code, "template 'team/a' already exists" in err) == (1, True)
    assert det(cluster, "tpl", "set-value", "name", "team/a", "b")[0] == 0
    code, out, _ = det(cluster, "tpl", "list")
    assert (code, out.splitlines()[1].split()[:3]) == (0, ["b", "Uncategorized", "determined"])
    assert yaml.safe_load(det(cluster, "tpl", "describe", "b")[1]) == yaml.safe_load(
        file.read_text()
    )
    code, out, err = det(cluster, "cmd", "run", "--template", "b", 'echo "found: $SAID"')
    assert (code, "found: by-the-template" in out) == (0, True), (out, err)
    assert det(cluster, "tpl", "rm", "b")[2] == "Removed template b\n"
    code, _, err = det(cluster, "cmd", "run", "--template", "b", "true")
    assert (code, err) == (1, "error: template 'b' not found\n")


def test_a_hook_among_the_files_runs_before_the_program(
    cluster: RealCluster, tmp_path: Path
) -> None:
    (tmp_path / "startup-hook.sh").write_text("export GREETING=from-the-hook\n")
    code, out, err = det(cluster, "cmd", "run", "-c", str(tmp_path), "echo $GREETING")
    assert code == 0, err
    assert "from-the-hook" in out


def test_what_waits_says_why_and_ctrl_c_leaves_it_alone(cluster: RealCluster) -> None:
    holder = det(cluster, "cmd", "run", "-d", "sleep 600")[1].strip()
    eventually(
        "it holds the slot",
        lambda: cluster.client.interactive(COMMAND).one(holder)["state"] == "STATE_RUNNING",
    )
    waiting = start(cluster, "cmd", "run", "echo", "my turn")
    assert waiting.stderr is not None
    launched = next(line for line in waiting.stderr if line.startswith("Launched command"))
    command_id = launched.split()[2]
    assert next(line for line in waiting.stderr if line.startswith("Waiting: "))
    code, listed, _ = det(cluster, "cmd", "list", "--csv")
    assert code == 0
    assert any(command_id in line and "QUEUED" in line for line in listed.splitlines())
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 130
    assert f"det cmd kill {command_id}" in said
    assert det(cluster, "cmd", "kill", holder)[0] == 0
    code, out, _ = det(cluster, "cmd", "logs", "-f", command_id[:8])
    assert code == 0
    assert "my turn" in out


def test_a_crash_of_the_master_is_only_a_pause(cluster: RealCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # the task is another user
    program = "echo before; until [ -e /shared/gate ]; do sleep 0.05; done; echo after; exit 3"
    following = start(cluster, "cmd", "run", "-v", f"{tmp_path}:/shared", program)
    assert following.stdout is not None
    said = next(line for line in following.stdout if line.endswith("|| before\n"))
    cluster.kill_master()
    cluster.start_master()
    (tmp_path / "gate").touch()
    out, err = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 1, err
    assert said not in out
    assert out.count("|| after\n") == 1
    assert "3" in err.splitlines()[-1].partition(" ended: ")[2]


@pytest.fixture(scope="module")
def shell(cluster: RealCluster) -> str:
    """The id of one that serves."""
    code, out, err = det(cluster, "shell", "start", "-d", "--config", "resources.slots=0")
    assert code == 0, err
    return out.strip()


def test_a_shell_runs_a_command_and_hands_its_exit_code_on(
    cluster: RealCluster, shell: str
) -> None:
    code, out, err = det(cluster, "shell", "open", shell, "echo $DET_TASK_ID; exit 7")
    assert (code, out) == (7, f"{shell}\n"), err


def test_ssh_scp_and_rsync_know_an_installed_shell(
    cluster: RealCluster, shell: str, tmp_path: Path
) -> None:
    code, _, err = det(cluster, "shell", "ssh-config", shell[:8], "--name", "box", "--install")
    assert code == 0, err
    config = cluster.folder / "home" / ".ssh" / "config"
    ssh = ["ssh", "-F", str(config)]
    (tmp_path / "sent").write_bytes(os.urandom(5_000_000))
    calls = [
        ["scp", "-F", str(config), str(tmp_path / "sent"), "box:copy"],
        [*ssh, "box", "mkdir folder && mv copy folder/"],
        ["scp", "-F", str(config), "box:folder/copy", str(tmp_path / "back")],
    ]
    if shutil.which("rsync"):
        calls.append(["rsync", "-a", "-e", " ".join(ssh), "box:folder", str(tmp_path)])
    for words in calls:
        done = subprocess.run(words, capture_output=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, (words, done.stderr)
    for name in ("back", "folder/copy") if shutil.which("rsync") else ("back",):
        assert (tmp_path / name).read_bytes() == (tmp_path / "sent").read_bytes()
    folder = config.with_name("windlass") / shell
    known = folder / "known_hosts"
    known.write_text(f"{shell} ssh-ed25519 {'A' * 68}\n")
    refused = subprocess.run(
        [*ssh, "box", "true"], capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert refused.returncode == 255, "another host key is not taken for its own"


CODE = """\
#!/bin/sh
printf '%s\\n' "$@" > "$HOME/words"
exec ssh -F "$HOME/.ssh/config" "${2#ssh-remote+}" 'echo reached $DET_TASK_ID'
"""


def test_an_editor_is_started_with_a_host_that_it_reaches(
    cluster: RealCluster, shell: str, tmp_path: Path
) -> None:
    """A program in its place notes its words, and logs in as it would. `det` has to be on a terminal."""
    (tmp_path / "code").write_text(CODE)
    (tmp_path / "code").chmod(0o755)
    ours, theirs = pty.openpty()
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    process = start(
        cluster, "shell", "open", shell, "--vscode", PATH=path, TERM="dumb", stdout=theirs
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # EIO: all was read
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, (shown, err)
    assert f"reached {shell}".encode() in shown
    words = (cluster.folder / "home" / "words").read_text().splitlines()
    (block,) = (cluster.folder / "home" / ".ssh" / "windlass" / shell).glob("config")
    assert words == ["--remote", f"ssh-remote+{block.read_text().split()[1]}"]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:  # noqa: S310 - HTTP
            return bool(reply.status == 200)
    except OSError:
        return False


def test_a_port_leads_through_a_shell(cluster: RealCluster, shell: str) -> None:
    port = free_port()
    forward = f"{port}:127.0.0.1:{cluster.port}"
    process = start(cluster, "shell", "open", shell, "-N", "-L", forward)
    try:
        eventually("the port answers", lambda: answers(f"http://127.0.0.1:{port}/info"))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    code, _, _ = det(cluster, "shell", "kill", shell)
    assert code == 0
    ended = cluster.client.interactive(SHELL)
    eventually("it has ended", lambda: ended.one(shell)["exitStatus"])
    code, _, err = det(cluster, "shell", "open", shell)
    assert (code, err.splitlines()[-1]) == (1, f"Shell {shell} has ended: killed by determined")


def test_a_port_of_a_command_is_reached_while_it_is_watched(cluster: RealCluster) -> None:
    port, local = free_port(), free_port()
    served = f"environment.proxy_ports=[{{proxy_port: {port}, proxy_tcp: true}}]"
    words = ["--config", served, "-p", f"{local}:{port}"]
    process = start(
        cluster, "cmd", "run", *words, "python3", "-m", "http.server", "-b", "127.0.0.1", str(port)
    )
    try:
        eventually("it answers", lambda: answers(f"http://127.0.0.1:{local}/"))
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    (holder,) = [one for one in cluster.client.interactive(COMMAND).listed() if one["id"] in err]
    assert holder["state"] == "STATE_RUNNING"
    cluster.client.interactive(COMMAND).kill(holder["id"])


def test_a_port_of_a_generic_task_is_reached_while_it_is_followed(
    cluster: RealCluster, tmp_path: Path
) -> None:
    port, local = free_port(), free_port()
    config = {
        "entrypoint": ["python3", "-m", "http.server", "-b", "127.0.0.1", str(port)],
        "environment": {"proxy_ports": [{"proxy_port": port, "proxy_tcp": True}]},
        "resources": {"slots": 0},
    }
    file = tmp_path / "task.yaml"
    file.write_text(yaml.safe_dump(config))
    process = start(cluster, "task", "create", str(file), "-f", "--publish", f"{local}:{port}")
    try:
        eventually("it answers", lambda: answers(f"http://127.0.0.1:{local}/"))
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    (created,) = re.findall(r"^Created task (\S+)$", err, re.MULTILINE)
    assert f"Detached; task {created} keeps running." in err
    assert det(cluster, "task", "kill", created[:8])[0] == 0
    file.write_text("entrypoint: exit 3\nresources: {slots: 0}")
    code, _, err = det(cluster, "task", "create", str(file), "-f")
    (failed,) = re.findall(r"^Task (\S+) ended: task failed with exit code 3", err, re.MULTILINE)
    assert code == 1, err
    listed = det(cluster, "task", "list", "-a", "--csv", "--columns", "task-id,state")[1]
    assert {f"{created},CANCELED", f"{failed},ERROR"} <= set(listed.splitlines())


@pytest.mark.skipif(
    not (JUPYTER / "bin/jupyter-lab").exists(), reason="JupyterLab is not installed"
)
def test_the_url_of_a_notebook_opens_it(cluster: RealCluster) -> None:
    open_way_to(JUPYTER / "bin")
    settings = ["--config", f"environment.python={JUPYTER}", "--config", "resources.slots=0"]
    code, out, err = det(cluster, "notebook", "start", *settings)
    assert code == 0, err
    with urllib.request.urlopen(out.strip(), timeout=PATIENCE_S) as page:  # noqa: S310 - HTTP
        assert b"JupyterLab" in page.read()
    notebook = out.partition("/proxy/")[2].partition("/")[0]
    code, out, err = det(cluster, "notebook", "open", notebook[:8])
    assert (code, out.count(notebook)) == (0, 1), err
    cluster.client.interactive(NOTEBOOK).kill(notebook)
