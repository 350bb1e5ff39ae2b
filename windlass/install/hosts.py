"""Which machines: `[user@]host[:port]`, as words or as lines of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from windlass.base.errors import InvalidArgument

_HOST = re.compile(
    r"(?:(?P<user>[^@\s\[\]:]+)@)?(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^@\s\[\]:]+))(?::(?P<port>\d{1,5}))?"
)
MAX_HOSTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """One machine, as it was written."""

    spec: str
    name: str
    user: str | None = None
    port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Keys of agent.yaml for this machine alone."""


def parse_host(text: str, settings: Mapping[str, str] | None = None) -> SshHost:
    """Raises InvalidArgument."""
    found = _HOST.fullmatch(text)
    port = int(found["port"]) if found is not None and found["port"] else None
    if found is None or (port is not None and not 1 <= port <= 65535):
        raise InvalidArgument(f'"{text}" is not a machine: write user@host or user@host:port')
    name = found["v6"] or found["name"]
    if name.startswith("-") or (found["user"] or "").startswith("-"):
        raise InvalidArgument(f'"{text}" is not a machine: it begins with a dash')
    return SshHost(spec=text, name=name, user=found["user"], port=port, settings=settings or {})


def read_hosts(words: Sequence[str], file: Path | None) -> tuple[SshHost, ...]:
    """In order, each once. Lines of the file may add `key=value` words for agent.yaml. Raises InvalidArgument."""
    found = [parse_host(word) for word in words]
    if file is not None:
        try:
            lines = file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            said = error.strerror if isinstance(error, OSError) else "is not text"
            raise InvalidArgument(f"--hosts-file {file}: {said}") from None
        found += list(_parsed(lines, file))
    if not found:
        raise InvalidArgument("which machines? give user@host..., or --hosts-file")
    if len(found) > MAX_HOSTS:
        raise InvalidArgument(f"{len(found)} machines: at most {MAX_HOSTS} in one call")
    twice = {host.spec for host in found if sum(h.spec == host.spec for h in found) > 1}
    if twice:
        raise InvalidArgument(f"named twice: {', '.join(sorted(twice))}")
    return tuple(found)


def _parsed(lines: Iterable[str], file: Path) -> Iterable[SshHost]:
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        settings: dict[str, str] = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not key or not equals:
                raise InvalidArgument(f'{file} line {number}: "{word}" is not key=value')
            settings[key] = value
        try:
            yield parse_host(words[0], settings)
        except InvalidArgument as error:
            raise InvalidArgument(f"{file} line {number}: {error.message}") from None
