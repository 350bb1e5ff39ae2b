"""`det shell`: what ssh is called with, and what is written for it. A stand-in for ssh notes its words; `ssh -G`, where
it is installed, reads what it would."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import WAIT_S, ScriptedMaster, log_in

from tests.fakes.client_cli import det

ID = "0a1b2c3d-0000-4000-8000-000000000001"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n-----END OPENSSH PRIVATE KEY-----\n"
SHELL: dict[str, Any] = {
    "id": ID,
    "description": "calm-fox",
    "state": "STATE_RUNNING",
    "username": "determined",
    "privateKey": KEY,
    "publicKey": "ssh-ed25519 AAAAC3Nz/+= a comment\n",
    "agentUserGroup": {"user": "ada", "uid": 1000, "group": "lab", "gid": 1000},
}
FAKE_SSH = '#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >"$HOME/words"\nexit 7\n'


@pytest.fixture
def cluster(master: ScriptedMaster, home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedMaster:
    """One shell that serves, and a program in place of ssh that exits with 7."""
    log_in(master)
    shell_is(master)
    task = {"task": {"taskId": ID, "allocations": [{"isReady": True}]}}
    master.on("GET", f"/api/v1/tasks/{ID}", task)
    master.on("POST", "/api/v1/shells", {"shell": SHELL, "config": {}, "warnings": []})
    programs = home / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(FAKE_SSH)
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return master


def shell_is(master: ScriptedMaster, **changes: Any) -> None:
    master.on("GET", f"/api/v1/shells/{ID}", {"shell": SHELL | changes, "config": {}})


def opened(master: ScriptedMaster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: it becomes ssh."""
    program = [sys.executable, "-P", "-m", "windlass", "-m", master.url, "shell"]
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_S
    )


def words(home: Path) -> list[str]:
    return (home / "words").read_text().splitlines()


def settings(home: Path) -> dict[str, str]:
    """Of the -o of ssh."""
    given = words(home)
    pairs = [given[at + 1].partition("=") for at, word in enumerate(given) if word == "-o"]
    return {name: value for name, _, value in pairs}


def test_the_key_is_in_a_file_of_the_users_and_the_host_is_known(
    cluster: ScriptedMaster, home: Path
) -> None:
    result = opened(cluster, "open", ID)
    assert result.returncode == 7, "that of ssh"
    assert f"Stop it: `det shell kill {ID}`" in result.stderr
    given = settings(home)
    folder = home / ".ssh" / "windlass" / ID
    assert (folder / "key").read_text() == KEY
    assert (folder / "known_hosts").read_text() == f"{ID} ssh-ed25519 AAAAC3Nz/+=\n"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {ID: 0o700, "key": 0o600, "known_hosts": 0o600}
    assert (home / ".ssh").stat().st_mode & 0o777 == 0o700
    assert given["IdentityFile"] == str(folder / "key")
    assert given["UserKnownHostsFile"] == str(folder / "known_hosts")
    assert (given["User"], given["IdentitiesOnly"]) == ("ada", "yes")
    assert given["StrictHostKeyChecking"] == "yes"
    proxy = f"{sys.executable} -P -m windlass -m {cluster.url} tunnel %h"
    assert given["ProxyCommand"] == proxy
    assert words(home)[-1] == ID
    assert "secret" not in "".join(words(home))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["nvidia-smi", "-L"], ["nvidia-smi", "-L"]),
        (["-L", "1:localhost:2", "-v"], ["-L", "1:localhost:2", "-v"]),
        (["--", "-N"], ["-N"]),
    ],
)
def test_what_follows_the_id_is_for_ssh(
    given: list[str], passed: list[str], cluster: ScriptedMaster, home: Path
) -> None:
    assert opened(cluster, "open", ID, *given).returncode == 7
    assert words(home)[words(home).index(ID) + 1 :] == passed


@pytest.mark.slow
def test_options_of_ours_may_follow_the_id(cluster: ScriptedMaster, home: Path) -> None:
    shown = opened(cluster, "open", ID, "--show-ssh-command", "-N")
    assert shown.returncode == 7
    assert shlex.split(shown.stderr.splitlines()[0])[1:] == words(home)
    assert words(home)[-2:] == [ID, "-N"]
    editor = det(cluster, "shell", "open", ID, "--vscode")
    assert editor.stdout.startswith("code --remote ssh-remote+windlass-"), editor.output
    refused = det(cluster, "shell", "open", ID, "--vscode", "-N")
    assert (refused.exit_code, "--vscode takes no options of ssh" in refused.stderr) == (1, True)


@pytest.mark.slow
def test_a_start_logs_in(cluster: ScriptedMaster, home: Path) -> None:
    result = opened(cluster, "start", "--config", "resources.slots=2", "--", "-A", "id")
    assert result.returncode == 7
    assert f"Launched shell {ID} (calm-fox)" in result.stderr
    assert words(home)[-3:] == [ID, "-A", "id"]
    body = cluster.calls("POST", "/api/v1/shells")[0].body
    assert body == {"config": {"resources": {"slots": 2}}, "files": []}
    detached = det(cluster, "shell", "start", "-d")
    assert (detached.exit_code, detached.stdout) == (0, f"{ID}\n")


@pytest.mark.slow
def test_the_command_is_shown_as_it_would_be_called(cluster: ScriptedMaster, home: Path) -> None:
    shown = det(cluster, "shell", "show-ssh-command", ID, "-N").stdout
    assert not (home / "words").exists()
    old_name = det(cluster, "shell", "show_ssh_command", ID, "-N")
    assert old_name.stdout == shown
    assert opened(cluster, "open", ID, "-N").returncode == 7
    assert shlex.split(shown)[1:] == words(home)


def test_the_trust_in_the_master_goes_with_the_command(
    cluster: ScriptedMaster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_MASTER_CERT_FILE", "noverify")
    monkeypatch.setenv("DET_MASTER_CERT_NAME", "100%")
    assert opened(cluster, "open", ID).returncode == 7
    tail = "tunnel --cert-file noverify --cert-name 100%% %h"
    assert settings(home)["ProxyCommand"].endswith(tail), "ssh reads %% as %"


def test_a_host_is_included_once_and_gone_with_its_shell(
    cluster: ScriptedMaster, home: Path
) -> None:
    (home / ".ssh").mkdir(mode=0o700)
    real, config = home / "dotfiles", home / ".ssh" / "config"
    real.write_text("Host other\n    User me\n")
    real.chmod(0o640)
    config.symlink_to(real)
    for _ in range(2):
        result = det(cluster, "shell", "ssh-config", ID, "--name", "box", "--install")
        assert result.exit_code == 0, result.output
    assert config.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    folder = home / ".ssh" / "windlass"
    assert real.read_text() == f"Include {folder}/*/config\n\nHost other\n    User me\n"
    assert (folder / ID / "config").read_text().startswith(f"Host box\n    HostName {ID}\n")
    assert det(cluster, "shell", "open", "--vscode", ID).stdout == "code --remote ssh-remote+box\n"
    cluster.on("POST", f"/api/v1/shells/{ID}/kill", {"shell": SHELL})
    assert det(cluster, "shell", "kill", ID).exit_code == 0
    assert not (folder / ID).exists()


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH is not installed")
def test_ssh_reads_the_block_as_it_is_meant(
    cluster: ScriptedMaster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = shutil.which("ssh", path=os.environ["PATH"].partition(os.pathsep)[2])
    spaced = tmp_path / "a home"
    spaced.mkdir()
    (spaced / ".config").symlink_to(Path.home() / ".config")
    monkeypatch.setenv("HOME", str(spaced))
    assert det(cluster, "shell", "ssh-config", ID, "--install").exit_code == 0
    config = str(spaced / ".ssh" / "config")
    alias = "windlass-0a1b2c3d"
    done = subprocess.run(
        [str(program), "-G", "-F", config, alias], capture_output=True, text=True, check=True
    )
    read = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert (read["hostname"], read["user"]) == (ID, "ada")
    assert read["identityfile"] == str(spaced / ".ssh" / "windlass" / ID / "key")
    assert read["userknownhostsfile"] == str(spaced / ".ssh" / "windlass" / ID / "known_hosts")
    assert read["proxycommand"].endswith(f"-m {cluster.url} tunnel %h")
    assert read["stricthostkeychecking"] in ("true", "yes")


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "../../../etc"},
        {"agentUserGroup": {"user": "ada\n    ProxyCommand touch /tmp/x"}},
        {"agentUserGroup": {"user": "-oProxyCommand=x"}},
        {"publicKey": "ssh-ed25519 AAAA\n* ssh-ed25519 BBBB"},
        {"publicKey": ""},
    ],
)
def test_what_is_no_shell_is_not_written(
    changes: dict[str, Any], cluster: ScriptedMaster, home: Path
) -> None:
    shell_is(cluster, **changes)
    result = det(cluster, "shell", "open", ID)
    assert result.exit_code == 1
    assert "the master does not describe shell" in result.stderr
    assert not (home / ".ssh").exists()
    assert not (home / "words").exists()


def test_without_the_key_it_says_who_has_it(cluster: ScriptedMaster, home: Path) -> None:
    shell_is(cluster, privateKey="", username="grace")
    result = det(cluster, "shell", "open", ID)
    assert result.exit_code == 1
    assert "is one of grace, who alone, beside administrators, may open it" in result.stderr


def test_a_shell_that_is_only_started_takes_no_words_for_ssh(cluster: ScriptedMaster) -> None:
    result = det(cluster, "shell", "start", "-d", "--", "-L", "1:h:1")
    assert result.exit_code == 1
    assert "-L 1:h:1 would have no effect" in result.stderr
    assert cluster.calls("POST", "/api/v1/shells") == []


@pytest.mark.parametrize("name", ["a b", "-x", "*", "a\nb", ""])
def test_what_is_no_name_of_a_host(name: str, cluster: ScriptedMaster) -> None:
    result = det(cluster, "shell", "ssh-config", ID, "--name", name)
    assert result.exit_code == 1
    assert "expected letters, digits" in result.stderr


def test_without_ssh_it_says_so(
    cluster: ScriptedMaster, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    result = det(cluster, "shell", "open", ID)
    assert result.exit_code == 1
    assert "there is no ssh here: install the client of OpenSSH" in result.stderr
