"""What the configuration of each kind of interactive task has of its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import model_validator

from master.core.expconf.interactive import (
    Entrypoint,
    IdleTimeout,
    InteractiveConfig,
    NotebookIdleType,
    TaskConfig,
    TaskResources,
)
from master.core.expconf.models.experiment import DEFAULT_PREEMPTION_TIMEOUT_S
from master.core.expconf.models.schema import Items, NonNegative
from master.core.expconf.reading import ClusterDefaults
from windlass.base.formats.durations import format_duration
from windlass.base.no_effect import NoEffect


class CommandConfig(InteractiveConfig):
    """A command, complete and frozen. `to_json` is what the REST API shows as the command's `config`."""

    noun: ClassVar[str] = "command"
    title: ClassVar[str] = "Command"


class ShellConfig(InteractiveConfig):
    """A shell: sshd on a node, which `det shell open` leads to."""

    noun: ClassVar[str] = "shell"
    title: ClassVar[str] = "Shell"

    entrypoint: Annotated[Entrypoint | None, NoEffect("a shell runs sshd")] = None
    """One file may serve commands too."""
    idle_timeout: Annotated[IdleTimeout | None, NoEffect("a shell runs until it is killed")] = None
    """One file may serve notebooks too."""


class NotebookConfig(InteractiveConfig):
    """A notebook: JupyterLab on a node, which the master's proxy leads to."""

    noun: ClassVar[str] = "notebook"
    title: ClassVar[str] = "JupyterLab"

    entrypoint: Annotated[Entrypoint | None, NoEffect("a notebook runs JupyterLab")] = None
    """One file may serve commands too."""
    idle_timeout: IdleTimeout | None = None
    """Ended after so long without use. None: `notebook_timeout` of master.yaml; 0s: never."""
    notebook_idle_type: NotebookIdleType = "kernels_or_terminals"
    """When it counts as unused: without kernels and terminals, without connections to kernels, or without activity."""

    @classmethod
    def defaults(cls, cluster: ClusterDefaults) -> dict[str, Any]:
        return _idle_after(cluster.notebook_timeout_s)


class TensorboardResources(TaskResources):
    """What the TensorBoard gets, and its place in the queue."""

    slots: Annotated[int, NoEffect("a TensorBoard runs on CPUs")] = 0
    """One file may serve other tasks too."""


class TensorboardConfig(InteractiveConfig):
    """A TensorBoard over the files of experiments, which the master's proxy leads to."""

    noun: ClassVar[str] = "TensorBoard"
    title: ClassVar[str] = "TensorBoard"
    may_be_described: ClassVar[bool] = False

    description: Annotated[str, NoEffect("a TensorBoard is named by three words")]
    """One file may serve other tasks too."""

    entrypoint: Annotated[Entrypoint | None, NoEffect("a TensorBoard runs TensorBoard")] = None
    """One file may serve commands too."""
    resources: TensorboardResources = TensorboardResources()  # pyright: ignore[reportIncompatibleVariableOverride]
    """What it gets, and its place in the queue."""
    idle_timeout: IdleTimeout | None = None
    """Ended after so long without use. None: `tensorboard_timeout` of master.yaml; 0s: never."""
    tensorboard_args: Items[str] = ()
    """Further arguments of the program."""

    @model_validator(mode="before")
    @classmethod
    def _on_cpus(cls, document: Any) -> Any:
        """Whatever is asked for: it holds no slot."""
        resources = document.get("resources") if isinstance(document, dict) else None
        if not isinstance(resources, dict):
            return document
        return {**document, "resources": {**resources, "slots": 0}}

    @classmethod
    def defaults(cls, cluster: ClusterDefaults) -> dict[str, Any]:
        return _idle_after(cluster.tensorboard_timeout_s)


class GenericResources(TaskResources):
    """What the task gets, and its place in the queue."""

    is_single_node: bool = True
    """false: its slots may be on several agents, with one process of the program on each."""


class GenericConfig(TaskConfig):
    """A generic task: a program that may be paused, go on later, and have tasks below it."""

    noun: ClassVar[str] = "generic task"
    title: ClassVar[str] = "Generic Task"

    entrypoint: Entrypoint  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    """One string is run by `/bin/sh -c`, several are the argument vector."""
    resources: GenericResources = GenericResources()  # pyright: ignore[reportIncompatibleVariableOverride]
    """What it gets, and its place in the queue."""
    preemption_timeout: NonNegative = DEFAULT_PREEMPTION_TIMEOUT_S
    """Seconds that a task which asks whether to leave gets to do so. One that does not ask is killed at once."""

    @property
    def leaves_within_s(self) -> int:
        return self.preemption_timeout

    @classmethod
    def name_of(cls, task_id: str) -> str:
        return f"{cls.title} {task_id}"

    @classmethod
    def defaults(cls, cluster: ClusterDefaults) -> dict[str, Any]:
        timeout = cluster.task_container_defaults.get("preemption_timeout")
        return {} if timeout is None else {"preemption_timeout": timeout}


def _idle_after(seconds: int | None) -> dict[str, Any]:
    return {} if not seconds else {"idle_timeout": format_duration(timedelta(seconds=seconds))}
