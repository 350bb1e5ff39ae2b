"""Wheels out of what is installed here: of ourselves, also from a checkout, and of what an agent needs."""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from windlass.base.errors import InvalidArgument
from windlass.base.packages import DISTRIBUTION, PACKAGES

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Of every file in a wheel: the same content is the same wheel."""
_NOT_IN_WHEELS = frozenset({"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "WHEEL"})
_OURS = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    """Its file name."""
    content: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:8]


def own_wheel() -> Wheel:
    """Of this very installation. Raises InvalidArgument if it does not hold all of its packages."""
    found = distribution(DISTRIBUTION)
    missing = [name for name in PACKAGES if not (_OURS / name).is_dir()]
    if missing:
        raise InvalidArgument(f"this installation lacks {', '.join(missing)}: install it again")
    files = {str(path.relative_to(_OURS)): path for path in _sources()}
    return _wheel(found, files | _metadata(found))


def wheels_of_agents() -> Iterator[Wheel]:
    """Of us and of all that an agent needs, as installed here. Raises InvalidArgument for what is not."""
    yield own_wheel()
    for name in sorted(_needed(DISTRIBUTION, "agent")):
        found = distribution(name)
        files: dict[str, Path] = {}
        for path in found.files or ():
            inside = ".." not in path.parts and not path.is_absolute()
            if inside and "__pycache__" not in path.parts and ".dist-info" not in path.parts[0]:
                files[str(path)] = Path(str(path.locate()))
        yield _wheel(found, files | _metadata(found))


def wheels_in(folder: Path) -> tuple[Wheel, ...]:
    """Raises InvalidArgument."""
    if not folder.is_dir():
        raise InvalidArgument(f"--wheels {folder}: there is no such folder")
    found = tuple(Wheel(path.name, path.read_bytes()) for path in sorted(folder.glob("*.whl")))
    if not found:
        raise InvalidArgument(
            f"--wheels {folder} holds no wheels: make them with `windlass agent wheels {folder}`"
        )
    return found


def _sources() -> Iterator[Path]:
    for name in PACKAGES:
        for path in sorted((_OURS / name).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _metadata(found: Distribution) -> dict[str, Path]:
    """What describes the distribution, without what described this installation of it."""
    files: dict[str, Path] = {}
    for path in found.files or ():
        in_info = path.parts[0].endswith(".dist-info")
        if in_info and path.name not in _NOT_IN_WHEELS and not path.name.startswith("uv_"):
            files[str(path)] = Path(str(path.locate()))
    return files


def _wheel(found: Distribution, sources: Mapping[str, Path]) -> Wheel:
    """`sources`: name in the wheel -> file."""
    tags = [
        line.partition(":")[2].strip()
        for line in (found.read_text("WHEEL") or "").splitlines()
        if line.startswith("Tag:")
    ]
    files = {name: path.read_bytes() for name, path in sources.items()}
    programs = {name for name, path in sources.items() if path.stat().st_mode & stat.S_IXUSR}
    info = next(name.partition("/")[0] for name in files if ".dist-info/" in name)
    pure = all(tag.endswith("-none-any") for tag in tags)
    files[f"{info}/WHEEL"] = "\n".join(
        [
            "Wheel-Version: 1.0",
            "Generator: windlass",
            f"Root-Is-Purelib: {str(pure).lower()}",
            *(f"Tag: {tag}" for tag in tags),
            "",
        ]
    ).encode()
    record = [f"{name},{_hash(content)},{len(content)}" for name, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    stem = info.removesuffix(".dist-info")
    return Wheel(f"{stem}-{_joined(tags)}.whl", packed.getvalue())


def _joined(tags: Iterable[str]) -> str:
    """One tag for the file name out of many: cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64"""
    parts = zip(*(tag.split("-") for tag in tags), strict=True)
    return "-".join(".".join(dict.fromkeys(part)) for part in parts)


def _hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"sha256={digest}"


def _needed(name: str, extra: str = "") -> set[str]:
    """The names of all that it requires here, without itself. Raises InvalidArgument for what is not installed."""
    from importlib.metadata import PackageNotFoundError

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: set[str] = set()
    waiting = [(name, extra)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            requires = distribution(each[0]).requires or []
        except PackageNotFoundError:
            raise InvalidArgument(
                f"{each[0]} is not installed here, and an agent needs it: pip install '{DISTRIBUTION}[agent]'"
            ) from None
        for requirement in map(Requirement, requires):
            if requirement.marker is None or requirement.marker.evaluate({"extra": each[1]}):
                needed = canonicalize_name(requirement.name)
                found.add(needed)
                waiting += [(needed, more) for more in ("", *requirement.extras)]
    return found - {canonicalize_name(DISTRIBUTION)}
