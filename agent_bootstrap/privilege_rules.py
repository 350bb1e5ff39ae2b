"""Which capabilities and devices a container may be given: asked by the master at submission, by the agent later.

The master's rules travel with the task (`ContainerOptions.privileges`); an agent may have narrower ones (agent.yaml).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from pydantic import BaseModel, ConfigDict

ALL = "ALL"


class Privileges(BaseModel):
    """The rules of one side, master or agent."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    file: str = "master.yaml"
    """Where its operator writes `allowed_capabilities` and `allowed_devices`."""
    capabilities: tuple[str, ...] | None = ()
    """None: this side has no rule of its own."""
    devices: tuple[str, ...] | None = ()
    """Paths, with what is below them."""


def plain(capability: str) -> str:
    """SYS_PTRACE for CAP_SYS_PTRACE and sys_ptrace."""
    return capability.strip().upper().removeprefix("CAP_")


def capability_problems(wanted: Iterable[str], rules: Privileges) -> Iterator[tuple[int, str]]:
    """(number in the list, why not, as the rest of a sentence that begins with the name). Pure."""
    if rules.capabilities is None:
        return
    allowed = set(map(plain, rules.capabilities))
    for number, name in enumerate(wanted):
        if plain(name) not in allowed and ALL not in allowed:
            yield number, _not_in("allowed_capabilities", rules.file, rules.capabilities)


def device_problems(wanted: Iterable[str], rules: Privileges) -> Iterator[tuple[int, str]]:
    """The same. Links are followed, as this machine has them."""
    if rules.devices is None:
        return
    allowed = [os.path.realpath(path) for path in rules.devices]
    for number, path in enumerate(wanted):
        if not (_is_in(os.path.normpath(path), rules.devices) and _is_in(_real(path), allowed)):
            yield number, _not_in("allowed_devices", rules.file, rules.devices)


def _not_in(key: str, file: str, allowed: Iterable[str]) -> str:
    return f"is not in {key} of {file}: {', '.join(allowed) or 'nothing'}; leave it out, or ask the operator to add it"


def _real(path: str) -> str:
    return os.path.realpath(path) if path.startswith("/") else path


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
