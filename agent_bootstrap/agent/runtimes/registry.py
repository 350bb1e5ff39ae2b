"""The ways of running a container on this machine, by name: `container_runtime` in agent.yaml."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Literal

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.logins import Logins
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.runtimes.cgroups import find_cgroups
from agent_bootstrap.agent.runtimes.commands import apptainer, enroot, podman
from agent_bootstrap.agent.runtimes.commands.cache import ImageCache
from agent_bootstrap.agent.runtimes.commands.setup import CommandGround, CommandSetup
from agent_bootstrap.agent.runtimes.commands.tool import Tool
from agent_bootstrap.agent.runtimes.probe import find_isolation
from agent_bootstrap.agent.runtimes.process import ProcessRuntime, ProcessSetup
from agent_bootstrap.agent.runtimes.setup import ByImage, ImageSetup, Setup
from agent_bootstrap.agent.runtimes.task_tree import Ground
from agent_bootstrap.agent.runtimes.trial import why_not
from windlass.base.errors import InvalidConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSetup:
    """What a runtime may need to know of the agent."""

    options: AgentOptions
    lifeline_fd: int | None = None
    """When it ends, so must everything that was started."""
    logins: Logins = field(default_factory=lambda: Logins(MasterLink()))
    """Where a runtime gets the registry credentials of a task; asked only for a task that has some."""
    trial_on: NodeFacts | None = None
    """What a container is given that is started to see whether one can be. None: none is started."""


SetupFactory = Callable[[RuntimeSetup], Setup]
"""Blocks for as long as it takes to see whether it works here. Raises InvalidConfig with the reason if not."""
ImageSetupFactory = Callable[[RuntimeSetup], ImageSetup]


def _process(setup: RuntimeSetup, notes: tuple[str, ...] = ()) -> Setup:
    options = setup.options
    isolation = find_isolation(options.isolation, options.work_dir)
    ground = Ground(
        isolation=isolation,
        rules=options.host_paths,
        cgroups=find_cgroups(),
        python=options.python,
        prologue=options.prologue,
    )
    return ProcessSetup(ground, notes)


def _engine(kind: Literal["docker", "podman"], setup: RuntimeSetup) -> ImageSetup:
    # Only here: an agent without an engine neither needs nor waits for the SDK.
    from agent_bootstrap.agent.runtimes.engine.connection import find_engine
    from agent_bootstrap.agent.runtimes.engine.image_record import ImageRecord

    options = setup.options
    engine = find_engine(kind, options.container_socket)
    from agent_bootstrap.agent.runtimes.engine.images import Images
    from agent_bootstrap.agent.runtimes.engine.setup import EngineGround, EngineSetup

    gib = options.image_cache_gib
    limit_bytes = None if gib is None else int(gib * 2**30)
    return EngineSetup(
        EngineGround(
            engine=engine,
            images=Images(engine, ImageRecord(options.work_dir, limit_bytes)),
            agent_id=options.agent_id,
            rules=options.host_paths,
            privileges=options.privileges,
            login_of=setup.logins.of,
        )
    )


def _command(find: Callable[[], Tool], setup: RuntimeSetup) -> ImageSetup:
    options = setup.options
    tool = find()
    gib = options.image_cache_gib
    cache = ImageCache(
        folder=(options.image_cache_dir or options.work_dir / "images").absolute(),
        suffix=tool.suffix,
        agent_id=options.agent_id,
        limit_bytes=None if gib is None else int(gib * 2**30),
    )
    return CommandSetup(
        CommandGround(
            tool=tool,
            cache=cache,
            rules=options.host_paths,
            login_of=setup.logins.of,
            privileges=options.privileges,
            image_root=options.image_root,
            cgroups=find_cgroups(),
        )
    )


def _podman(setup: RuntimeSetup) -> ImageSetup:
    """By its service; where nobody runs one, as in batch jobs, by its command lines."""
    try:
        return _engine("podman", setup)
    except InvalidConfig:
        if shutil.which("podman") is None or os.geteuid() == 0:
            raise
    return _podman_commands(setup)


def _podman_commands(setup: RuntimeSetup) -> ImageSetup:
    return _command(podman.find, setup)


IMAGE_SETUPS: Mapping[str, ImageSetupFactory] = MappingProxyType(
    {
        "docker": partial(_engine, "docker"),
        "podman": partial(_engine, "podman"),
        "apptainer": partial(_command, partial(apptainer.find, "apptainer")),
        "singularity": partial(_command, partial(apptainer.find, "singularity")),
        "enroot": partial(_command, enroot.find),
    }
)
"""Those that run images, the best first."""


def _tried(factory: ImageSetupFactory, setup: RuntimeSetup) -> Setup:
    images = factory(setup)
    if problem := _trial_problem(images, setup):
        text = f"container_runtime: {problem}, or set container_runtime: process in agent.yaml"
        raise InvalidConfig([text], what="agent options")
    return images


def _trial_problem(images: ImageSetup, setup: RuntimeSetup) -> str:
    if setup.trial_on is None:
        return ""
    problem = why_not(images, setup.trial_on, setup.options.work_dir)
    if not problem:
        return ""
    return f"{images.name} cannot start a container here: {problem}. Mend it (windlass doctor tries it again)"


SETUPS: Mapping[str, SetupFactory] = MappingProxyType(
    {
        "process": _process,
        **{
            name: partial(_tried, factory)
            for name, factory in {**IMAGE_SETUPS, "podman": _podman}.items()
        },
    }
)
AUTO = "auto"


def find_images(setup: RuntimeSetup) -> tuple[ImageSetup | None, tuple[str, ...]]:
    """The first engine that works here, and what is wrong with those that do not. Blocks.

    Where none can give the slots of this machine, the first that works for tasks without any.
    """
    refused: dict[str, ImageSetup] = {}
    for factory in (*IMAGE_SETUPS.values(), _podman_commands):
        with suppress(InvalidConfig):
            images = factory(setup)
            if not (problem := _trial_problem(images, setup)):
                return images, tuple(refused)
            refused[problem] = images
    node = setup.trial_on
    if node is not None and node.slots:
        plain = replace(setup, trial_on=replace(node, slots=(), gpus=()))
        for images in refused.values():
            if not _trial_problem(images, plain):
                return images, tuple(refused)
    return None, tuple(refused)


def _auto(setup: RuntimeSetup) -> Setup:
    """Processes, and a container for a task that asks for an image, by the first engine that works here."""
    images, problems = find_images(setup)
    plain = _process(setup, problems)
    return plain if images is None else ByImage(plain, images)


def open_runtime(
    name: str, setup: RuntimeSetup, setups: Mapping[str, SetupFactory] = SETUPS
) -> Runtime:
    """Raises InvalidConfig for a name that is not there, or does not work on this machine."""
    factory = _auto if name == AUTO else setups.get(name)
    if factory is None:
        names = ", ".join([AUTO, *setups])
        raise InvalidConfig(
            [f'container_runtime: "{name}" is not available, write one of: {names}'],
            what="agent options",
        )
    options = setup.options
    gib = options.task_log_gib
    return ProcessRuntime(
        factory(setup),
        instance_id=options.instance_id,
        lifeline_fd=setup.lifeline_fd,
        orphan_ttl=options.orphan_ttl,
        log_bytes=None if gib is None else int(gib * 2**30),
    )
