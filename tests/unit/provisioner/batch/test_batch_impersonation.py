"""Commands and files of a batch system as another user. `sudo` is a stand-in; `test_two_users` has the real one."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S, FinishedCommand, LocalCommands
from provisioner.batch.impersonation import Sudo, UserCommands, UserDisk, UserRefused
from rm_backends.batch.leases import way_out_of

ALLOWS = """#!/bin/sh
[ "$1 $2 $3 $4 $5" = "-n -H -u alice --" ] || exit 9
shift 5; exec "$@"
"""
REFUSES = '#!/bin/sh\necho "sudo: a password is required" >&2\nexit 1\n'


class Heard:
    """Commands that note what they are given."""

    def __init__(self) -> None:
        self.uid = 1001
        self.words: list[str] = []
        self.stdin: list[str] = []

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        self.words += words
        self.stdin += [stdin] if stdin else []
        return FinishedCommand(0, f"{self.uid}\n")


def as_alice(folder: Path, sudo: str) -> UserCommands:
    for name, script in (("sudo", sudo), ("id", "#!/bin/sh\necho 1001\n")):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    commands = LocalCommands(path=str(folder))
    return UserCommands(commands, Sudo({**commands.for_others, "WORD": "a b"}), "alice")


async def test_a_command_of_another_user_has_a_small_known_environment(tmp_path: Path) -> None:
    done = await as_alice(tmp_path, ALLOWS).run(["env"], stdin="ignored")
    told = dict(line.split("=", 1) for line in done.out.splitlines())
    assert (told["WORD"], told["SLURM_TIME_FORMAT"], told["LC_ALL"]) == ("a b", "%s", "C.UTF-8")
    assert "SUDO_COMMAND" not in told


async def test_nobody_is_asked_to_be_with_the_environment_of_the_master() -> None:
    commands = LocalCommands(environ={"HOME": "/var/lib/windlass", "SLURM_CONF": "/etc/s.conf"})
    words = Sudo(commands.for_others).words("alice")
    assert words[:7] == ("sudo", "-n", "-H", "-u", "alice", "--", "/usr/bin/env")
    assert "SLURM_CONF=/etc/s.conf" in words
    assert not any(word.startswith("HOME=") for word in words)


async def test_sudo_that_refuses_says_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UserRefused) as caught:
        await as_alice(tmp_path, REFUSES).run(["squeue", "--me"])
    assert caught.value.message.startswith(
        "sudo does not let the master run commands as alice (a password is required): "
    )
    assert "NOPASSWD: /usr/bin/env" in caught.value.message


async def test_a_warning_of_sudo_does_not_make_what_a_command_says_a_refusal(
    tmp_path: Path,
) -> None:
    """sbatch that was not answered may have submitted: it must not be submitted again as after a refusal."""
    warns = ALLOWS.replace("shift 5", "echo 'sudo: unable to resolve host login1' >&2; shift 5")
    commands = as_alice(tmp_path, warns)
    done = await commands.run(["/bin/sh", "-c", "echo sbatch: error: Socket timed out >&2; exit 1"])
    assert done.last.endswith("sbatch: error: Socket timed out")


async def test_a_command_of_a_user_is_ended_as_that_user(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match=r"^sleep did not end within 0\.1 s$") as caught:
        await as_alice(tmp_path, ALLOWS).run(["sleep", "60"], limit_s=0.1)
    assert not caught.value.may_run


async def test_nobody_waits_for_a_process_that_cannot_be_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """sudo is root's."""
    kept: list[asyncio.subprocess.Process] = []

    def kill(process: asyncio.subprocess.Process) -> None:
        kept.append(process)
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.subprocess.Process, "kill", kill)
        with pytest.raises(NoAnswer, match=r"sleep did not end within 0\.1 s") as caught:
            await LocalCommands().run(["sleep", "60"], limit_s=0.1)
    assert caught.value.may_run
    kept[0].kill()
    await kept[0].wait()


async def test_a_name_that_is_another_one_of_root_is_refused() -> None:
    heard = Heard()
    heard.uid = 0
    with pytest.raises(UserRefused, match=r"commands as toor \(that is root\)"):
        await UserCommands(heard, Sudo({}), "toor").run(["sbatch"])
    assert "sbatch" not in heard.words


async def test_a_command_that_fails_by_itself_is_no_refusal(tmp_path: Path) -> None:
    commands = as_alice(tmp_path, ALLOWS)
    done = await commands.run(["/bin/sh", "-c", "echo sbatch: error: Invalid qos >&2; exit 1"])
    assert (done.code, done.last) == (1, "sbatch: error: Invalid qos")


def test_files_are_for_their_user_alone(tmp_path: Path) -> None:
    disk = UserDisk(as_alice(tmp_path, ALLOWS))
    folder = tmp_path / "jobs" / "wl-1" / "nodes" / "0"
    disk.write(folder / "host.json", b'{"join_token": "secret"}')
    assert (folder / "host.json").read_bytes() == b'{"join_token": "secret"}'
    assert [oct(p.stat().st_mode & 0o777) for p in (folder, folder / "host.json")] == [
        "0o700",
        "0o600",
    ]
    assert not disk.has_entries(folder / "agent")
    assert disk.has_entries(folder)
    assert disk.tail(folder / "host.json", 4) == b'et"}'
    os.mkfifo(folder / "agent.log")
    with pytest.raises(OSError, match="exit code 1"):
        disk.tail(folder / "agent.log", 4)
    disk.remove(tmp_path / "jobs" / "wl-1")
    assert not (tmp_path / "jobs" / "wl-1").exists()
    with pytest.raises(OSError, match="No such file"):
        disk.tail(folder / "host.json", 4)


def test_files_of_who_may_not_be_asked_stop_nobody(tmp_path: Path) -> None:
    disk = UserDisk(as_alice(tmp_path, REFUSES))
    disk.remove(tmp_path / "jobs")
    with pytest.raises(OSError, match="sudo does not let the master"):
        disk.tail(tmp_path / "batch.log", 4)
    with pytest.raises(OSError, match="sudo does not let the master"):
        disk.has_entries(tmp_path)
    with pytest.raises(UserRefused):
        disk.write(tmp_path / "host.json", b"secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_nothing_is_written_into_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """Who made it before could read what is put there."""
    disk = UserDisk(as_alice(tmp_path, ALLOWS))
    trap = tmp_path / "trap"
    trap.mkdir()
    os.chown(trap, 12345, 12345)
    with pytest.raises(OSError, match="exit code 1"):
        disk.write(trap / "host.json", b"secret")
    assert not list(trap.iterdir())


def test_no_secret_is_on_a_command_line(tmp_path: Path) -> None:
    heard = Heard()
    UserDisk(UserCommands(heard, Sudo({}), "alice")).write(tmp_path / "host.json", b"3f9a-token")
    assert heard.stdin == ["3f9a-token"]
    assert "3f9a-token" not in " ".join(heard.words)


def test_what_a_command_says_cannot_drive_a_terminal() -> None:
    assert FinishedCommand(1, "", "\x1b]0;owned\x07").last.startswith("\\x1b")


@pytest.mark.parametrize("number", [errno.EDQUOT, errno.ENOSPC])
def test_a_user_whose_space_is_used_up_is_told_so(tmp_path: Path, number: int) -> None:
    """By the shell, in words."""
    fails = f'case "$*" in *mkdir*) echo "cat: {os.strerror(number)}" >&2; exit 1;; esac; shift 5'
    disk = UserDisk(as_alice(tmp_path, ALLOWS.replace("shift 5", fails)))
    with pytest.raises(OSError, match="cat: ") as caught:
        disk.write(tmp_path / "jobs" / "host.json", b"secret")
    assert way_out_of(caught.value, "alice").startswith("free some space")


def test_a_user_who_may_not_write_is_told_what_the_folder_must_be() -> None:
    assert "mode 1777, which alice may write" in way_out_of(PermissionError(), "alice")
    assert "that the master's user may write" in way_out_of(PermissionError(), "")
