"""Names of container images, as users write them: what is meant, or why nothing can be. Pure.

python:3.11                          docker.io/library/python, tag 3.11
registry.example:5000/team/net@sha256:...
docker://nvcr.io/nvidia/pytorch:24.07-py3        the same as without docker://
oras://registry.example/net:1        library://... shub://...: Apptainer pulls them
/images/net.sif, /images/net         a file or an unpacked folder on the nodes
docker-archive:/images/net.tar       oci-archive: oci: also files on the nodes
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
EXAMPLES = (
    'write a name such as "python:3.11", "registry.example/team/net:1" or "docker://team/net:1", '
    "or the absolute path of an image on the nodes"
)
MAX_CHARS = 4096
MAX_NAME_CHARS = 255
FILE_TRANSPORTS = ("docker-archive", "oci-archive", "oci")
REMOTE_TRANSPORTS = ("docker", "oras", "library", "shub")

_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+(?=:[0-9])|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
_REGISTRY = re.compile(rf"({_HOST})/")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


class BadImageName(ValueError):
    """Says why, as the rest of a sentence that begins with the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """One image. Of a file, `transport` and `path` are set; of all others, the rest."""

    transport: str = "docker"
    """docker, oras, library, shub; path, docker-archive, oci-archive, oci."""
    registry: str = ""
    repository: str = ""
    tag: str = ""
    digest: str = ""
    path: str = ""

    @property
    def is_file(self) -> bool:
        """On the nodes; nothing is pulled."""
        return bool(self.path)

    @property
    def name(self) -> str:
        """In full, without the transport: registry/repository:tag, or with @digest instead of the tag."""
        if self.is_file:
            return self.path
        place = "/".join(part for part in (self.registry, self.repository) if part)
        return f"{place}@{self.digest}" if self.digest else f"{place}:{self.tag}"

    @property
    def url(self) -> str:
        """With its transport; the path alone of a plain file or folder."""
        if self.transport == "path":
            return self.path
        return f"{self.transport}:{'' if self.is_file else '//'}{self.name}"


def parse_image(text: str) -> ImageReference:
    """Raises BadImageName."""
    if not text.strip():
        raise BadImageName("is empty")
    if len(text) > MAX_CHARS:
        raise BadImageName(f"has {len(text)} characters, more than {MAX_CHARS}")
    if any(character.isspace() or not character.isprintable() for character in text):
        raise BadImageName("holds a space or a control character")
    if text.startswith("/"):
        return _file("path", text)
    transport, colon, rest = text.partition(":")
    if colon and transport in FILE_TRANSPORTS:
        return _file(transport, rest)
    if "://" not in text:
        return _remote("docker", text)
    transport, _, rest = text.partition("://")
    if transport not in REMOTE_TRANSPORTS:
        known = ", ".join(f"{name}://" for name in REMOTE_TRANSPORTS)
        raise BadImageName(f'begins with "{transport}://", which is none of {known}')
    return _remote(transport, rest)


def _file(transport: str, path: str) -> ImageReference:
    if not path.startswith("/"):
        raise BadImageName("names a file: its path must be absolute")
    if "/../" in f"{path}/":
        raise BadImageName('names a file: its path must be without ".."')
    return ImageReference(transport=transport, path=path)


def _remote(transport: str, name: str) -> ImageReference:
    name, at, digest = name.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise BadImageName('has no digest after the "@": sha256: and 64 hexadecimal digits')
    if name.startswith((".", "~")):
        raise BadImageName("names a file: its path must be absolute")
    registry = match[1] if (match := _REGISTRY.match(name)) else ""
    repository, colon, tag = name[len(registry) + bool(registry) :].partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise BadImageName(f'has no tag after the ":": "{tag}"')
    if not _REPOSITORY.fullmatch(repository):
        raise BadImageName(_why_no_repository(repository))
    if len(name) > MAX_NAME_CHARS:
        raise BadImageName(f"has {len(name)} characters, more than {MAX_NAME_CHARS}")
    if transport == "docker" and not registry:
        registry = DEFAULT_REGISTRY
        repository = repository if "/" in repository else f"library/{repository}"
    return ImageReference(
        transport=transport,
        registry=registry,
        repository=repository,
        tag=tag or ("" if digest else DEFAULT_TAG),
        digest=digest,
    )


def _why_no_repository(repository: str) -> str:
    if not repository:
        return "names no image, only a registry or a tag"
    if _REPOSITORY.fullmatch(repository.lower()):
        return f'must be in lower case: "{repository.lower()}"'
    return f'holds what no name of an image may: "{repository}"'
