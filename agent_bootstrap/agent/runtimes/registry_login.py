"""Which login an image is pulled with."""

from __future__ import annotations

from agent_bootstrap.agent.runtimes.engine.image_names import same_registry
from agent_bootstrap.agent.runtimes.task_lines import Say
from agent_bootstrap.protocol import Login


def login_for(registry: str, login: Login | None, say: Say) -> Login | None:
    """The task's own, if it is for that registry; else its log says that it is not used."""
    if login is None or not login.server or same_registry(login.server, registry):
        return login
    say(f"registry_auth is for {login.server}, but the image is at {registry}: not used", "WARNING")
    return None
