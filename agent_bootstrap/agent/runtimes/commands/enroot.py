"""The command lines of Enroot. Its containers are folders, of the agent's own user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_bootstrap.agent.containers.mounts import user_error
from agent_bootstrap.agent.runtimes.commands.tool import Gpus, ToolCall, require_plain, version_of
from agent_bootstrap.agent.runtimes.image_task import ImageTask
from agent_bootstrap.agent.runtimes.isolation import SUPERVISOR_DIR
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.errors import InvalidConfig
from windlass.base.formats.image_reference import DEFAULT_REGISTRY, ImageReference

RC = str(SUPERVISOR_DIR / "enroot_rc.sh")
"""In the place of the image's own start script, which would run its entrypoint."""
HUB_LOGIN = "auth.docker.io"
"""Whom Docker's registry sends to for tokens."""
NO_GPU = "void"
MOUNT = "x-create=auto,rbind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enroot:
    """See `tool.Tool`."""

    program: str = "enroot"
    version: str = ""
    suffix: str = ""
    adds_user: bool = False

    @property
    def shown(self) -> str:
        return f"enroot {self.version}".strip()

    def names(self, name: str) -> Iterable[str]:
        """As users of Slurm clusters name what they create."""
        flat = name.replace("/", "+").replace(":", "+")
        return (flat, f"{flat}.sqsh", name, f"{name}.sqsh")

    def runs(self, path: Path) -> bool:
        return path.is_dir()

    def make(
        self, image: ImageReference, target: Path, login: RegistryCredentials | None, scratch: Path
    ) -> Sequence[ToolCall]:
        paths = {
            "ENROOT_DATA_PATH": str(target.parent),
            "ENROOT_CACHE_PATH": str(scratch / "layers"),
            "ENROOT_TEMP_PATH": str(scratch),
            "ENROOT_RUNTIME_PATH": str(scratch / "run"),
        }

        def create(file: str) -> ToolCall:
            words = (self.program, "create", "-n", target.name, file)
            return ToolCall(words=words, environment=paths)

        if image.transport == "path":
            return (create(image.path),)
        if image.transport != "docker":
            raise user_error(
                f"image {image.url}: Enroot runs images of registries and .sqsh files: name one, "
                "or use a pool whose agents run Apptainer"
            )
        file = str(scratch / "image.sqsh")
        credentials = {}
        if login is not None:
            paths["ENROOT_CONFIG_PATH"] = str(scratch)
            credentials = {scratch / ".credentials": _netrc(image, login)}
        words = (self.program, "import", "-o", file, _uri(image, login))
        return (
            ToolCall(words=words, environment=paths, files=credentials),
            create(file),
        )

    def run(self, task: ImageTask, image: str, sources: Sequence[str], gpus: Gpus) -> list[str]:
        words = [self.program, "start", "--rc", RC]
        for mount, source in zip(task.mounts, sources, strict=True):
            what = f"bind mount of {mount.source} at {mount.target}"
            require_plain((source, mount.target), what, "enroot")
            words += ["--mount", _mount(source, mount)]
        for device in task.spec.options.devices:
            what = f"resources.devices: {device.host_path}"
            require_plain((device.host_path, device.container_path), what, "enroot")
            words += ["--mount", f"{device.host_path}:{device.container_path}:{MOUNT}"]
        for name in (*task.variables, "NVIDIA_VISIBLE_DEVICES"):
            words += ["--env", name]
        if (name := Path(image).name).startswith("-"):
            raise user_error(
                f"environment.image: enroot would take {name} for an option: rename the folder"
            )
        return [*words, name, *task.entry]

    def clear(self, container_id: str) -> None:
        """Its containers are processes."""

    def environment(self, task: ImageTask, image: str, gpus: Gpus, scratch: Path) -> dict[str, str]:
        return {
            **task.variables,
            "NVIDIA_VISIBLE_DEVICES": ",".join(gpus.nvidia) or NO_GPU,
            "ENROOT_DATA_PATH": str(Path(image).parent),
            "ENROOT_RUNTIME_PATH": str(scratch),
            "ENROOT_MOUNT_HOME": "n",
        }


def find() -> Enroot:
    """Raises InvalidConfig."""
    path, version = version_of("enroot", ["version"])
    if os.geteuid() == 0:
        problem = (
            "container_runtime: enroot does not work here: its containers belong to one user, and the agent is root. "
            "Run the agent as the user, or use apptainer, podman or docker"
        )
        raise InvalidConfig([problem], what="agent options")
    return Enroot(program=path, version=version)


def _mount(source: str, mount: Mount) -> str:
    is_read_only = mount.read_only or mount.kind == "hide"
    return f"{source}:{mount.target}:{MOUNT}" + (",ro" if is_read_only else "")


def _uri(image: ImageReference, login: RegistryCredentials | None) -> str:
    """docker://[USER@][REGISTRY#]IMAGE[:TAG]"""
    user = f"{login.username}@" if login is not None else ""
    registry = "" if image.registry == DEFAULT_REGISTRY else f"{image.registry}#"
    tag = f"@{image.digest}" if image.digest else f":{image.tag}"
    return f"docker://{user}{registry}{image.repository}{tag}"


def _netrc(image: ImageReference, login: RegistryCredentials) -> str:
    machine = HUB_LOGIN if image.registry == DEFAULT_REGISTRY else image.registry.partition(":")[0]
    return " ".join(_words(machine, login)) + "\n"


def _words(machine: str, login: RegistryCredentials) -> Iterator[str]:
    for key, value in (
        ("machine", machine),
        ("login", login.username),
        ("password", login.password),
    ):
        if not value or set(value) & set(" \t\r\n#"):
            raise user_error(
                f"registry_auth: Enroot cannot log in with this {key}: it is empty or has a space"
            )
        yield from (key, value)
