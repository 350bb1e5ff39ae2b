"""Pulling images: with which login, and why one cannot be had (ours first, then what the program said)."""

from __future__ import annotations

from collections.abc import Sequence

from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.engine.image_names import same_registry
from agent_bootstrap.agent.runtimes.task_lines import Say
from agent_bootstrap.protocol import ExitFailure, RegistryCredentials

FULL_DISK = ("no space left", "disk quota exceeded")
REFUSED = ("unauthorized", "authentication required", "denied", "forbidden", "invalid username")
UNKNOWN = ("not found", "manifest unknown", "does not exist", "no such image", "name unknown")
LASTING = (*REFUSED, *UNKNOWN, *FULL_DISK)
"""A pull that is tried again at once would end the same."""


def pull_refused(reference: str, problem: str, *, with_login: bool) -> StartRefused:
    if says(problem, FULL_DISK):
        text = f"image {reference} cannot be pulled: the disk of the agent's machine is full ({problem})"
        return StartRefused(ExitFailure.ABORTED, text)
    if says(problem, REFUSED):
        advice = (
            "check registry_auth"
            if with_login
            else "set environment.registry_auth if it is private"
        )
        text = f"the registry refused image {reference}: {advice}, and check the name ({problem})"
        return StartRefused(ExitFailure.TASK_ERROR, text)
    if says(problem, UNKNOWN):
        text = f"image {reference} does not exist: check the name and the tag ({problem})"
        return StartRefused(ExitFailure.TASK_ERROR, text)
    text = f"image {reference} cannot be pulled: {problem}"
    return StartRefused(ExitFailure.TASK_ERROR, text)


def says(problem: str, words: Sequence[str]) -> bool:
    return any(word in problem.lower() for word in words)


def login_for(
    registry: str, login: RegistryCredentials | None, say: Say
) -> RegistryCredentials | None:
    """The task's own, if it is for that registry; else its log says that it is not used."""
    if login is None or not login.server or same_registry(login.server, registry):
        return login
    say(f"registry_auth is for {login.server}, but the image is at {registry}: not used", "WARNING")
    return None
