"""The command lines of Apptainer, and of Singularity, from which it came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_bootstrap.agent.runtimes.commands.tool import Gpus, ToolCall, require_plain, version_of
from agent_bootstrap.agent.runtimes.image_task import ImageTask
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.protocol import RegistryCredentials
from windlass.base.formats.image_reference import ImageReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Apptainer:
    """See `tool.Tool`."""

    name: Literal["apptainer", "singularity"] = "apptainer"
    program: str = "apptainer"
    version: str = ""
    suffix: str = ".sif"
    adds_user: bool = True

    @property
    def shown(self) -> str:
        return f"{self.name} {self.version}".strip()

    def names(self, name: str) -> Iterable[str]:
        return (name, f"{name}.sif")

    def runs(self, path: Path) -> bool:
        return True

    def make(
        self, image: ImageReference, target: Path, login: RegistryCredentials | None, scratch: Path
    ) -> Sequence[ToolCall]:
        """Without its own cache: layers beside the image that is made of them would be removed by nobody."""
        verb = "build" if image.is_file else "pull"  # archives are for `build` alone
        words = (self.program, verb, "--disable-cache", str(target), image.url)
        environment = {self._variable("TMPDIR"): str(scratch)}
        if login is not None:
            environment[self._variable("DOCKER_USERNAME")] = login.username
            environment[self._variable("DOCKER_PASSWORD")] = login.password
        return (ToolCall(words=words, environment=environment),)

    def run(self, task: ImageTask, image: str, sources: Sequence[str], gpus: Gpus) -> list[str]:
        words = [self.program, "exec", "--containall", "--no-home", "--writable-tmpfs"]
        if task.who.uid == 0:
            words.append("--no-privs")
        if gpus.nvidia:
            words.append("--nv")
        if gpus.amd:
            words.append("--rocm")
        words += ["--pwd", "/"]  # ours makes the working folder first
        for mount, source in zip(task.mounts, sources, strict=True):
            words += ["--bind", self._bind(source, mount.target, mount)]
        for device in task.spec.options.devices:
            what = f"resources.devices: {device.host_path}"
            require_plain((device.host_path, device.container_path), what, self.name)
            words += ["--bind", f"{device.host_path}:{device.container_path}"]
        return [*words, image, *task.entry]

    def clear(self, container_id: str) -> None:
        """Its containers are processes."""

    def environment(self, task: ImageTask, image: str, gpus: Gpus, scratch: Path) -> dict[str, str]:
        """By variables of its own: `--env` breaks at commas and, in old versions, at quotes."""
        prefix = f"{self.name.upper()}ENV_"
        return {f"{prefix}{name}": value for name, value in task.variables.items()}

    def _variable(self, name: str) -> str:
        return f"{self.name.upper()}_{name}"

    def _bind(self, source: str, target: str, mount: Mount) -> str:
        require_plain((source, target), f"bind mount of {mount.source} at {target}", self.name)
        return f"{source}:{target}" + (":ro" if mount.read_only or mount.kind == "hide" else "")


def find(name: Literal["apptainer", "singularity"]) -> Apptainer:
    """Raises InvalidConfig."""
    path, version = version_of(name, ["--version"])
    return Apptainer(name=name, program=path, version=version)
