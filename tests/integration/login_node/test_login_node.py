"""Commands and files of a batch system over SSH, on a real sshd."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import paramiko
import pytest

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import FinishedCommand
from provisioner.batch.ssh import LoginNode, SftpDisk, SshCommands
from tests.real_cluster import eventually
from tests.sshd import MISSING, SSHD, Login, Sshd, login_node, make_key
from windlass.install.hosts import parse_host
from windlass.install.ssh import HostError, RemoteMachine

pytestmark = pytest.mark.skipif(SSHD is None, reason=MISSING)


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    """Whose profile sets what changes answers of Slurm and PBS."""
    profile = {"SBATCH_PARTITION": "x", "PBS_DEFAULT": "y", "SLURM_CONF": "/etc/my.conf"}
    with login_node(tmp_path_factory.mktemp("login"), profile) as login:
        yield login


def logins(login: Login) -> int:
    return (login.sshd.folder / "sshd.log").read_text().count("Accepted publickey")


def test_a_command_says_there_what_it_says_here(login: Login) -> None:
    node = login.node()
    run = SshCommands(node).run

    async def main() -> None:
        script = 'cat; echo "$1" >&2; exit 7'
        done = await run(["sh", "-c", script, "sh", "it's; $(no) `shell`\n*"], stdin="yes")
        assert done == FinishedCommand(7, "yes", "it's; $(no) `shell`\n*\n")
        long = await run(["head", "-c", "3000000", "/dev/zero"])
        assert len(long.out) == 3_000_000
        told = dict(line.split("=", 1) for line in (await run(["env"])).out.splitlines())
        assert not {"SBATCH_PARTITION", "PBS_DEFAULT"} & set(told)
        assert told["SLURM_CONF"] == "/etc/my.conf"
        assert told["SLURM_TIME_FORMAT"] == "%s"
        assert told["HOME"] == str(login.sshd.home.home)

    asyncio.run(main())
    node.close()


def test_one_connection_serves_many_commands_at_once_and_files(
    login: Login, tmp_path: Path
) -> None:
    """More than sshd's ten sessions."""
    before = logins(login)
    node = login.node()

    async def main() -> None:
        run = SshCommands(node).run
        done = await asyncio.gather(*(run(["echo", str(number)]) for number in range(30)))
        assert [one.out for one in done] == [f"{number}\n" for number in range(30)]
        await asyncio.to_thread(SftpDisk(node).write, tmp_path / "file", b"1")

    asyncio.run(main())
    node.close()
    assert logins(login) == before + 1


def test_many_threads_write_and_read_files_at_once(login: Login, tmp_path: Path) -> None:
    """Pilots are launched side by side; each answer of SFTP reaches who asked."""
    node = login.node()
    disk = SftpDisk(node)

    def write(number: int) -> list[bytes]:
        files = [tmp_path / str(number) / str(n) for n in range(20)]
        for file in files:
            disk.write(file, str(file).encode())
        return [disk.tail(file, 4096) for file in files]

    told: dict[int, list[bytes]] = {}

    def tell(number: int) -> None:
        told[number] = write(number)

    threads = [Thread(target=tell, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert told == {
        number: [str(tmp_path / str(number) / str(n)).encode() for n in range(20)]
        for number in range(8)
    }
    node.close()


def test_a_file_that_cannot_be_written_is_no_lost_connection(login: Login, tmp_path: Path) -> None:
    """SFTP has no word of its own for a full disk, a quota, or a folder in the way: "Failure"."""
    node = login.node()
    disk = SftpDisk(node)
    disk.write(tmp_path / "folder" / "file", b"")
    before = logins(login)
    with pytest.raises(OSError, match="Failure") as failed:
        disk.write(tmp_path / "folder", b"")
    assert failed.value.filename == str(tmp_path / "folder")
    disk.write(tmp_path / "another", b"")
    assert logins(login) == before
    node.close()


def test_a_connection_that_falls_silent_is_given_up_and_made_again(
    login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a firewall that forgot it: TCP itself would notice after a quarter of an hour."""
    monkeypatch.setattr("provisioner.batch.ssh._GRACE_S", -59.0)
    node = login.node()
    run, disk = SshCommands(node).run, SftpDisk(node)

    async def silence() -> None:
        ready = tmp_path / "ready"
        words = ["sh", "-c", f"touch {ready}; exec sleep 600"]
        command = asyncio.create_task(run(words, limit_s=60.0))
        await asyncio.to_thread(eventually, "it runs", ready.exists)
        with login.sshd.frozen(), pytest.raises(NoAnswer):
            await command

    def silence_files() -> None:
        disk.write(tmp_path / "file", b"1")
        channel = node.files().get_channel()
        assert channel is not None
        with login.sshd.frozen():
            channel.settimeout(0.2)
            with pytest.raises(NoAnswer, match="was lost"):
                disk.write(tmp_path / "file", b"2")

    before = logins(login)
    asyncio.run(silence())
    assert asyncio.run(SshCommands(node).run(["echo", "again"], limit_s=600)).out == "again\n"
    assert logins(login) == before + 2
    silence_files()
    disk.write(tmp_path / "file", b"3")
    assert (tmp_path / "file").read_bytes() == b"3"
    node.close()


def test_a_command_that_is_not_there_and_one_that_does_not_end_say_nothing(login: Login) -> None:
    node = login.node()
    run = SshCommands(node).run
    with pytest.raises(NoAnswer, match="nowhere cannot be run"):
        asyncio.run(run(["nowhere"]))
    with pytest.raises(NoAnswer, match=r"sleep did not end within 0.2 s") as ended:
        asyncio.run(run(["sleep", "600"], limit_s=0.2))
    assert not ended.value.may_run
    assert asyncio.run(run(["echo", "on"])).out == "on\n"
    node.close()


def test_a_connection_that_is_lost_says_nothing_and_is_made_again(
    login: Login, tmp_path: Path
) -> None:
    node = login.node()
    run = SshCommands(node).run

    async def lose() -> None:
        ready = tmp_path / "ready"
        command = asyncio.create_task(run(["sh", "-c", f"touch {ready}; exec sleep 600"]))
        await asyncio.to_thread(eventually, "it runs", ready.exists)
        login.sshd.cut()
        with pytest.raises(NoAnswer, match="the connection was lost") as lost:
            await command
        assert lost.value.may_run

    asyncio.run(lose())
    assert asyncio.run(run(["echo", "again"])).out == "again\n"
    node.close()


@pytest.mark.parametrize("to", ["commands", "files"])
def test_a_login_node_that_cannot_be_reached_is_one_sentence(tmp_path: Path, to: str) -> None:
    key = make_key(tmp_path / "key")
    sshd = Sshd(tmp_path / "off", key)
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(sshd.known_host)
    node = Login(sshd, key, known_hosts).node()
    calls: dict[str, Callable[[], object]] = {
        "commands": lambda: asyncio.run(SshCommands(node).run(["true"])),
        "files": lambda: SftpDisk(node).write(tmp_path / "file", b""),
    }
    with pytest.raises(NoAnswer) as refused:
        calls[to]()
    assert re.fullmatch(
        r"login node \S+: cannot connect to \S+: .*(refused|connect).*", refused.value.message
    )


@pytest.mark.parametrize(
    ("case", "way_out"),
    [
        ("another key", r"shows another key than the one in .*ssh-keygen -f .* -R"),
        ("unknown", r"its key is not known here \(ssh-ed25519 SHA256:.*ssh-keyscan -p"),
        ("no access", r"accepts none of our keys: give ssh.key_file, load a key into an agent"),
        ("no machine", r"the name is not known"),
    ],
)
def test_what_keeps_us_out_names_the_way_out(
    login: Login, tmp_path: Path, case: str, way_out: str
) -> None:
    access, host = login.access(), parse_host(login.sshd.spec)
    known = tmp_path / "known_hosts"
    if case == "another key":
        other = make_key(tmp_path / "other").with_suffix(".pub").read_text().split()
        known.write_text(f"[127.0.0.1]:{login.sshd.port} {other[0]} {other[1]}\n")
        access = replace(access, known_hosts=known)
    elif case == "unknown":
        known.touch()
        access = replace(access, known_hosts=known)
    elif case == "no access":
        access = replace(access, identity=make_key(tmp_path / "stranger"))
    else:
        host = parse_host("login.invalid")
    with pytest.raises(NoAnswer, match=way_out) as refused:
        asyncio.run(SshCommands(LoginNode(host, access)).run(["true"]))
    assert refused.value.message.startswith("login node ")
    assert "\n" not in refused.value.message


def test_a_login_node_behind_another(login: Login, tmp_path: Path) -> None:
    with login_node(tmp_path) as behind:
        known = tmp_path / "both"
        known.write_text(login.sshd.known_host + behind.sshd.known_host)
        behind.sshd.authorize(login.key)
        access = replace(login.access(), known_hosts=known, jump=login.sshd.spec)
        node = LoginNode(parse_host(behind.sshd.spec), access)
        done = asyncio.run(SshCommands(node).run(["env"]))
        node.close()
    assert f"HOME={behind.sshd.home.home}" in done.out


def test_files_are_whole_and_private(login: Login, tmp_path: Path) -> None:
    node = login.node()
    disk = SftpDisk(node)
    file = tmp_path / "jobs" / "wl-1" / "nodes" / "0" / "host.json"
    disk.write(file, b"first")
    disk.write(file, b"x" * 100_000)
    assert file.read_bytes() == b"x" * 100_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in file.parent.iterdir()] == ["host.json"]
    for folder in list(file.parents)[:4]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    file.write_bytes(b"one\ntwo\n")
    assert disk.tail(file, 4) == b"two\n"
    assert disk.tail(file, 400) == b"one\ntwo\n"
    with pytest.raises(FileNotFoundError) as missing:
        disk.tail(tmp_path / "none", 4)
    assert missing.value.filename == str(tmp_path / "none")
    (tmp_path / "blocked").touch()
    with pytest.raises(OSError, match="blocked"):
        disk.write(tmp_path / "blocked" / "file", b"")
    disk.remove(tmp_path / "jobs")
    assert not (tmp_path / "jobs").exists()
    disk.remove(tmp_path / "jobs")
    node.close()


def test_only_plain_files_are_read(login: Login, tmp_path: Path) -> None:
    """A task may leave anything in its job's directory: a link to another file, or a pipe that blocks who opens it."""
    node = login.node()
    disk = SftpDisk(node)
    secret = tmp_path / "secret"
    secret.write_text("of another user")
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(secret)
    os.mkfifo(pipe)
    before = logins(login)
    for path in (link, pipe, tmp_path):
        with pytest.raises(OSError, match="it is no file"):
            disk.tail(path, 100)
    assert disk.tail(secret, 4) == b"user"
    assert logins(login) == before + 1, "a refusal was taken for a lost connection"
    node.close()


def test_a_program_that_says_too_much_is_not_called_silent(login: Login) -> None:
    with RemoteMachine(parse_host(login.sshd.spec), login.access()) as machine:
        with pytest.raises(HostError, match="longer than 1000 bytes"):
            machine.run("head -c 9000000 /dev/zero", most=1000)
        assert machine.run("head -c 1000 /dev/zero", most=1000).code == 0


def test_sftp_that_does_not_answer_is_given_up(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RemoteMachine(parse_host(login.sshd.spec), login.access()) as machine:
        machine.run("true")
        monkeypatch.setattr("windlass.install.ssh.CONNECT_S", 0.2)
        with login.sshd.frozen(), pytest.raises(HostError, match="no SFTP there"):
            machine.files()


def test_a_session_is_asked_for_again_whatever_paramiko_says_of_the_refusal(
    login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [
        paramiko.ChannelException(2, "Connect failed"),
        paramiko.SSHException("Unable to open channel."),
    ]
    open_session = paramiko.Transport.open_session

    def refuse(transport: paramiko.Transport, **more: float) -> paramiko.Channel:
        if refusals:
            raise refusals.pop()
        return open_session(transport, timeout=more["timeout"])

    monkeypatch.setattr(paramiko.Transport, "open_session", refuse)
    node = login.node()
    assert node.run("echo here").out == "here\n"
    assert not refusals
    node.close()
