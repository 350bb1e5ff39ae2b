"""Names of images as an engine takes them. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.protocol import ExitFailure

DOCKER_HUB = "docker.io"
HUB_NAMES = frozenset({"index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
FILES = ("/", "docker-archive:", "oci-archive:", "oci:")
OTHERS = ("oras://", "library://", "shub://")


def image_name(name: str) -> str:
    """Without `docker://`. Raises StartRefused for what only Apptainer takes."""
    name = name.removeprefix("docker://")
    if name.startswith((*FILES, *OTHERS)):
        raise StartRefused(
            ExitFailure.TASK_ERROR,
            f"image {name}: Docker and Podman run images of registries only; name one, "
            "or use a pool whose agents run Apptainer",
        )
    return name


def registry_of(name: str) -> str:
    """What comes before the first slash, if it is a host."""
    first, slash, _ = name.partition("/")
    is_host = slash and (first == "localhost" or set(first) & set(".:"))
    return _plain(first) if is_host else DOCKER_HUB


def same_registry(server: str, registry: str) -> bool:
    return _plain(server) == _plain(registry)


def _plain(server: str) -> str:
    """The host and port of `https://index.docker.io/v1/` and the like; Docker's has many names."""
    parts = urlsplit(server if "//" in server else f"//{server}")
    host = parts.netloc.rpartition("@")[2].lower()
    return DOCKER_HUB if host in HUB_NAMES else host
