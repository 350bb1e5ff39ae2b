"""A Podman of the tests' own: its service, its storage, and an image made of this machine's files. Root only."""

from __future__ import annotations

import io
import os
import resource
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

IMAGE = "localhost/windlass-test:1"
BARE = "localhost/windlass-bare:1"
"""Without Python."""
WITH_SSHD = "localhost/windlass-sshd:1"
"""What `add_sshd` makes of `IMAGE`."""
START_LIMIT_S = 30.0
PYTHON = Path("/usr/bin/python3")
LOADED_LATER = (
    "libgcc_s.so.1",  # when a thread ends
    # What extensions of Python packages name, those too that were built on older systems.
    *("libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
)


@dataclass(frozen=True, slots=True)
class Podman:
    folder: Path
    socket: Path
    registry_port: int
    """Where a registry on this machine is asked without TLS."""
    runtime: str = "runc"
    """What starts its containers."""

    def run(self, *words: str, stdin: int | None = None) -> str:
        """Of the command line, on the same storage."""
        done = subprocess.run(
            [*self._command(), *words],
            env=self.environment,
            stdin=stdin,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def build(self, tag: str, arguments: Sequence[str], containerfile: str) -> tuple[int, str]:
        """From standard input; exit code and output."""
        words = ["build", "--isolation", "chroot", "--tag", tag, *arguments]
        done = subprocess.run(
            [*self._command(), *words, "-"],
            env=self.environment,
            input=containerfile,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def service(self) -> subprocess.Popen[bytes]:
        words = ["system", "service", "--time", "0", f"unix://{self.socket}"]
        with (self.folder / "service.log").open("ab") as log:
            return subprocess.Popen(
                [*self._command(), *words],
                cwd=self.folder,  # conmon leaves files there
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.folder / "registries.conf"),
        }

    def _command(self) -> list[str]:
        folders = [
            *("--root", str(self.folder / "root"), "--runroot", str(self.folder / "run")),
            *("--tmpdir", str(self.folder / "tmp")),
        ]
        return ["podman", *folders, "--runtime", self.runtime, "--cgroup-manager", "cgroupfs"]


def works_or_skip() -> None:
    for program in ("podman", "runc"):
        if shutil.which(program) is None:
            pytest.skip(
                f"the program {program} is not installed (as root: apt-get install podman runc)"
            )
    if os.geteuid() != 0:
        pytest.skip("tests with Podman need root: its storage and its mounts")


@contextmanager
def running_podman(folder: Path) -> Iterator[Podman]:
    """With `IMAGE` and `BARE` in it."""
    works_or_skip()
    folder.mkdir(parents=True, exist_ok=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Its default may be more than this machine lets root have.
    limits = f'default_ulimits = ["nofile={soft}:{hard}", "nproc=4096:4096"]'
    (folder / "containers.conf").write_text(f"[containers]\n{limits}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    place = f'[[registry]]\nlocation = "127.0.0.1:{port}"\ninsecure = true\n'
    (folder / "registries.conf").write_text(place)
    podman = Podman(folder, folder / "podman.sock", port)
    try:
        with service_or_skip(podman):
            _import_images(podman)
            yield podman
    finally:
        subprocess.run(
            [*podman._command(), "rm", "--all", "--force", "--time", "0"],
            env=podman.environment,
            capture_output=True,
            check=False,
        )
        subprocess.run(
            ["umount", "-R", "-l", str(folder / "root" / "overlay")],
            capture_output=True,
            check=False,
        )
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def service_or_skip(podman: Podman) -> Iterator[None]:
    service = podman.service()
    try:
        _await_socket(podman, service)
        yield
    finally:
        service.terminate()
        service.wait()


def _await_socket(podman: Podman, service: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not podman.socket.exists():
        if service.poll() is not None or time.monotonic() > deadline:
            text = (podman.folder / "service.log").read_text(errors="replace")
            pytest.skip(f"Podman does not work here: {text.strip()[-500:]}")
        time.sleep(0.02)


def _import_images(podman: Podman) -> None:
    bare, full = podman.folder / "bare.tar", podman.folder / "full.tar"
    with tarfile.open(bare, "w") as archive:
        _add_base(archive)
    with tarfile.open(full, "w") as archive:
        _add_base(archive)
        _add_python(archive)
    podman.run("import", str(bare), BARE)
    podman.run("import", "--change", "ENV PATH=/usr/bin:/bin", str(full), IMAGE)
    bare.unlink()
    full.unlink()


def add_sshd(podman: Podman) -> None:
    """`WITH_SSHD`: as `IMAGE`, with the machine's sshd and scp, and the user that the package of sshd makes."""
    path = podman.folder / "sshd.tar"
    with tarfile.open(path, "w") as archive:
        for program in ("sbin/sshd", "bin/scp", "lib/openssh/sftp-server"):
            _add_program(archive, Path("/usr") / program, f"usr/{program}")
        users = "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
        _add_text(archive, "etc/passwd", users)
        _add_folder(archive, "usr/sbin")
    made = podman.run("create", IMAGE, "true")
    with path.open("rb") as packed:
        podman.run("cp", "-", f"{made}:/", stdin=packed.fileno())
    podman.run("commit", "--quiet", made, WITH_SSHD)
    podman.run("rm", made)
    path.unlink()


def unpacked_image(folder: Path) -> Path:
    """The content of `IMAGE` as a folder."""
    folder.mkdir()
    archive_path = folder.with_suffix(".tar")
    with tarfile.open(archive_path, "w") as archive:
        _add_base(archive)
        _add_python(archive)
    with tarfile.open(archive_path) as archive:
        archive.extractall(folder, filter="fully_trusted")  # noqa: S202  (we made it)
    archive_path.unlink()
    return folder


def _add_base(archive: tarfile.TarFile) -> None:
    """A shell, a few programs, and no user but root."""
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "run", "usr/bin", "usr/lib", "opt"):
        _add_folder(archive, name)
    for program in ("sh", "bash", "sleep", "cat", "id", "true", "env", "ls"):
        path = shutil.which(program)
        if path is not None:
            _add_program(archive, Path(path), f"bin/{program}")
    _add_text(archive, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    _add_text(archive, "etc/group", "root:x:0:\n")
    # Without it names are asked of DNS first, localhost too, and no test has one.
    _add_text(archive, "etc/nsswitch.conf", "hosts: files\n")


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(text), 0o644
    archive.addfile(member, io.BytesIO(text.encode()))


def _add_python(archive: tarfile.TarFile) -> None:
    """The machine's own, with what it imports. Without its packages and tests."""
    real = PYTHON.resolve()
    _add_program(archive, real, f"usr/bin/{real.name}")
    link = tarfile.TarInfo("usr/bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, real.name
    archive.addfile(link)
    own = Path("/usr/lib") / real.name
    skipped = {"test", "idlelib", "tkinter", "ensurepip", "dist-packages", "lib2to3"}

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if skipped & set(Path(member.name).parts) else member

    archive.add(own, f"usr/lib/{real.name}", filter=wanted)
    for name in LOADED_LATER:
        for library in Path("/lib").glob(f"*/{name}"):
            archive.add(library.resolve(), str(library).lstrip("/"))
    for extension in (own / "lib-dynload").glob("*.so"):
        _add_libraries(archive, extension)


def _add_program(archive: tarfile.TarFile, path: Path, name: str) -> None:
    archive.add(path.resolve(), name)
    _add_libraries(archive, path)


def _add_libraries(archive: tarfile.TarFile, program: Path) -> None:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    for word in told.stdout.split():
        inside = word.lstrip("/")
        if word.startswith("/") and inside not in archive.getnames():
            archive.add(Path(word).resolve(), inside)


def _add_folder(archive: tarfile.TarFile, name: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(member)
