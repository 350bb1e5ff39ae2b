"""The command lines of Podman without a service, as an ordinary user: in batch jobs nobody runs one.

Images of registries become archives in the cache, which nodes may share; each unpacks them into a store of its own.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_bootstrap.agent.containers.mounts import user_error
from agent_bootstrap.agent.runtimes.commands.tool import Gpus, ToolCall, require_plain, version_of
from agent_bootstrap.agent.runtimes.image_task import ImageTask
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.errors import InvalidConfig
from windlass.base.formats.image_reference import DEFAULT_REGISTRY, ImageReference

HUB_LOGIN = "https://index.docker.io/v1/"
"""What Podman calls Docker's registry in a file of logins."""
MAX_RUN_ROOT = 50
"""Characters: Podman refuses a longer one, and a job's $TMPDIR often is."""
SHORT = Path("/tmp")  # noqa: S108  (a private folder in it)
OF_STORE = "store"
"""A link in it to the store whose run root it has."""
KEPT = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF")


@dataclass(frozen=True, slots=True, kw_only=True)
class Podman:
    """See `tool.Tool`."""

    store: Path
    """On a disk of the node: layers, and what Podman wants of a session."""
    run_root: Path
    """On the same node: what runs. One store always has the same."""
    program: str = "podman"
    version: str = ""
    suffix: str = ".tar"
    adds_user: bool = True

    @property
    def shown(self) -> str:
        return f"podman {self.version}".strip()

    def names(self, name: str) -> Iterable[str]:
        return (name, f"{name}.tar")

    def runs(self, path: Path) -> bool:
        return True

    def make(
        self, image: ImageReference, target: Path, login: RegistryCredentials | None, scratch: Path
    ) -> Sequence[ToolCall]:
        if image.transport == "oci-archive":
            return (ToolCall(words=("cp", "--", image.path, str(target))),)
        if image.transport != "docker":
            raise user_error(
                f"image {image.url}: Podman runs images of registries, oci-archive: files and unpacked folders here"
            )
        name = image.url.removeprefix("docker://")
        options: tuple[str, ...] = ()
        files = {}
        if login is not None:
            logins = scratch / "logins.json"
            options = ("--authfile", str(logins))
            files = {logins: _logins(image, login)}
        pull = (*self._podman(), "pull", "--quiet", *options, name)
        save = ("save", "--quiet", "--format", "oci-archive", "--output", str(target), name)
        return (
            ToolCall(words=pull, environment=self._variables(), files=files),
            ToolCall(words=(*self._podman(), *save), environment=self._variables()),
        )

    def run(self, task: ImageTask, image: str, sources: Sequence[str], gpus: Gpus) -> list[str]:
        words = [*self._podman(), "run", "--rm", f"--name={_name(task.spec.container_id)}"]
        words += ["--network=host", "--security-opt=label=disable", "--cap-drop=all"]
        words += ["--security-opt=no-new-privileges", "--log-driver=none", "--workdir=/"]
        if task.who.uid != 0:  # whom the store belongs to is root inside
            words.append("--userns=keep-id")
        if task.spec.options.shm_bytes:
            words.append(f"--shm-size={task.spec.options.shm_bytes}")
        if gpus.nvidia:
            words.append("--device=nvidia.com/gpu=all")
        if gpus.amd:
            words += ["--device=/dev/kfd", "--device=/dev/dri"]
        for mount, source in zip(task.mounts, sources, strict=True):
            words.append(f"--volume={self._volume(source, mount)}")
        for device in task.spec.options.devices:
            what = f"resources.devices: {device.host_path}"
            require_plain((device.host_path, device.container_path), what, "podman")
            words.append(f"--device={device.host_path}:{device.container_path}")
        words += [f"--env={name}" for name in task.variables]
        words.append("--entrypoint=")  # ours is all that runs
        shown = ["--rootfs", f"{image}:O"] if Path(image).is_dir() else [f"oci-archive:{image}"]
        return [*words, *shown, *task.entry]

    def environment(self, task: ImageTask, image: str, gpus: Gpus, scratch: Path) -> dict[str, str]:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {**kept, **self._variables(), **task.variables}

    def clear(self, container_id: str) -> ToolCall:
        """A container whose `podman run` was killed."""
        words = (*self._podman(), "rm", "--force", "--ignore", "--time=0", _name(container_id))
        pause = self.store / "session/libpod/tmp/pause.pid"
        return ToolCall(words=words, environment=self._variables(), leaves=pause)

    def _podman(self) -> tuple[str, ...]:
        store = (f"--root={self.store}/root", f"--runroot={self.run_root}")
        return (self.program, "--cgroup-manager=cgroupfs", *store)

    def _variables(self) -> dict[str, str]:
        """Batch jobs have no session, which Podman asks for."""
        return {"XDG_RUNTIME_DIR": f"{self.store}/session"}

    def _volume(self, source: str, mount: Mount) -> str:
        require_plain(
            (source, mount.target), f"bind mount of {mount.source} at {mount.target}", "podman"
        )
        return f"{source}:{mount.target}" + (
            ":ro" if mount.read_only or mount.kind == "hide" else ""
        )


def find(folder: Path | None = None) -> Podman:
    """`folder`: where its store is made, on a disk of the node. Raises InvalidConfig."""
    path, version = version_of("podman", ["--version"])
    if os.geteuid() == 0:
        raise _useless(
            "without its service podman runs images for an ordinary user only, and the agent is root: "
            "systemctl enable --now podman.socket"
        )
    name = f"windlass-podman-{os.geteuid()}"
    store = (folder or Path(tempfile.gettempdir())) / name
    run_root = store / "run"
    folders = [store, store / "session"]
    if len(str(run_root)) > MAX_RUN_ROOT:
        folders.append(SHORT / f"{name}-{zlib.crc32(os.fsencode(store)):08x}")
        run_root = folders[-1] / "run"
    for each in folders:
        _make_private(each)
    if run_root.parent != store:
        _sweep(SHORT, f"{name}-*")
        with suppress(FileExistsError):
            (run_root.parent / OF_STORE).symlink_to(store)
    return Podman(program=path, version=version, store=store, run_root=run_root)


def _sweep(folder: Path, names: str) -> None:
    """What ran of stores that went with their jobs."""
    for each in folder.glob(names):
        of_store = each / OF_STORE
        with suppress(OSError):
            if of_store.is_symlink() and not of_store.exists():
                shutil.rmtree(each)


def _make_private(folder: Path) -> None:
    """Raises InvalidConfig."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise _useless(f"{folder}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise _useless(f"{folder} is not a folder of this user alone: remove it")


def _name(container_id: str) -> str:
    return f"windlass-{container_id}"


def _logins(image: ImageReference, login: RegistryCredentials) -> str:
    key = HUB_LOGIN if image.registry == DEFAULT_REGISTRY else image.registry
    pair = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    return json.dumps({"auths": {key: {"auth": pair}}})


def _useless(problem: str) -> InvalidConfig:
    text = f"container_runtime: podman does not work here: {problem}"
    return InvalidConfig([text], what="agent options")
