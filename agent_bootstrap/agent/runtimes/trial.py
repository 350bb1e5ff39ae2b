"""A container of the agent's own before it joins: a program that answers may still be unable to start one.

The image is made here, so that no registry is asked. It holds nothing but links: the programs of this machine are
mounted into it, read-only, for the shell that every task is started with. No Python is offered, so that the trial ends
where the entry script of tasks says that there is none. By then the container was made and started, with the mounts of
a task and as its user, and its pipes lead to the supervisor.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from agent_bootstrap.agent.containers.directory import ContainerDir, remove_tree
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.process import ProcessRuntime
from agent_bootstrap.agent.runtimes.setup import ImageSetup
from agent_bootstrap.bounds import one_line
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import Bind, ContainerSpec

TRIAL_LIMIT_S = 60.0
NAME = "localhost/windlass-trial"
NO_SUCH_PYTHON = "no-python-in-the-trial"
SAID_AT_THE_END = "the image has no python3 in its PATH"
"""By image_entry.sh."""
_PROGRAMS = ("bin", "lib", "usr", "nix")
"""How the folders begin that a shell and its libraries are in."""
_EMPTY = ("dev", "etc", "opt", "proc", "run", "sys", "tmp", "var/tmp")
_FILES = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}


@dataclass(frozen=True, slots=True)
class TrialImage:
    links: tuple[tuple[str, str], ...]
    """Names in / and what they lead to."""
    folders: tuple[str, ...]
    """Names in / that the machine's are mounted at."""

    @property
    def name(self) -> str:
        """Another one for another content."""
        return f"{NAME}:{hashlib.sha256(self.layer()).hexdigest()[:12]}"

    @property
    def binds(self) -> tuple[Bind, ...]:
        return tuple(
            Bind(source=f"/{name}", target=f"/{name}", read_only=True) for name in self.folders
        )

    def layer(self) -> bytes:
        """An archive, the same for the same content."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for name in sorted({*_EMPTY, *self.folders}):
                archive.addfile(_member(name, tarfile.DIRTYPE))
            for name, target in self.links:
                archive.addfile(_member(name, tarfile.SYMTYPE, target))
            for name, text in _FILES.items():
                member = _member(name, tarfile.REGTYPE)
                member.mode, member.size = 0o644, len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        return content.getvalue()


def trial_image(root: Path = Path("/")) -> TrialImage:
    """For this machine."""
    links, folders = [], []
    for path in sorted(root.iterdir()):
        if not path.name.startswith(_PROGRAMS):
            continue
        if path.is_symlink():
            links.append((path.name, str(path.readlink())))
        elif path.is_dir():
            folders.append(path.name)
    return TrialImage(tuple(links), tuple(folders))


def why_not(setup: ImageSetup, node: NodeFacts, work_dir: Path) -> str:
    """Start a container on all slots of the node; what went wrong, empty if nothing did. Blocks."""
    with ThreadPoolExecutor(
        1, thread_name_prefix="trial"
    ) as own:  # callers may have a loop already
        return one_line(own.submit(asyncio.run, _try(setup, node, work_dir)).result())


async def _try(setup: ImageSetup, node: NodeFacts, work_dir: Path) -> str:
    image = trial_image()
    place = await asyncio.to_thread(_new_place, work_dir)
    try:
        ready = await asyncio.to_thread(setup.for_trial, image.name, image.layer())
        return await _run(ProcessRuntime(ready), place, _spec(image, place, node), node)
    except StartRefused as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or ''} {error.strerror or error}".strip()
    finally:
        place.drop_scratch()
        remove_tree(place.path)


def _new_place(work_dir: Path) -> ContainerDir:
    """Where those of tasks are, so that the next agent sweeps what a crash leaves."""
    containers = work_dir.absolute() / "containers"
    containers.mkdir(mode=0o700, parents=True, exist_ok=True)
    return ContainerDir(Path(tempfile.mkdtemp(prefix="trial-", dir=containers)))


async def _run(
    runtime: ProcessRuntime, place: ContainerDir, spec: ContainerSpec, node: NodeFacts
) -> str:
    try:
        try:
            async with asyncio.timeout(TRIAL_LIMIT_S):
                await runtime.start(place, spec, node)
                ended = await runtime.wait(place)
        except TimeoutError:
            runtime.kill(place)
            await runtime.wait(place)
            return f"none has run within {TRIAL_LIMIT_S:.0f} s"
    finally:
        await runtime.gc(place)
    if SAID_AT_THE_END in ended.message:
        return ""
    return ended.message or f"it ended with exit code {ended.exit_code}"


def _spec(image: TrialImage, place: ContainerDir, node: NodeFacts) -> ContainerSpec:
    name = place.path.name
    return ContainerSpec(
        container_id=name,
        allocation_id="trial",
        task_id="trial",
        task_type="COMMAND",
        slot_ids=tuple(slot.id for slot in node.slots),
        entrypoint=("true",),
        environment={"DET_PYTHON_EXECUTABLE": NO_SUCH_PYTHON},
        binds=image.binds,
        options=ContainerOptions(image=image.name),
    )


def _member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o755
    return member
