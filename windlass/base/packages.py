"""The top-level packages of this distribution, and whether Python finds them or a user's file of the same name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from windlass.base.errors import WindlassError

VERSION = "0.1.0"
DISTRIBUTION = "windlass-cluster"
"""What `pip install` calls us: the name `windlass` on the package index belongs to another project."""
PACKAGES = ("windlass", "master", "provisioner", "rm_backends", "agent_bootstrap")
_HOME = Path(__file__).resolve().parents[2]


class ShadowedPackage(WindlassError):
    """A file or folder on Python's search path has the name of one of our packages and comes before it."""

    code = "shadowed_package"


def shadowed(names: Iterable[str] = PACKAGES) -> dict[str, Path]:
    """The packages that would not be imported from this distribution, and what would be imported instead."""
    found = {name: _location(name) for name in names}
    return {name: at for name, at in found.items() if at and at.resolve().parent != _HOME}


def refuse_shadowed(names: Iterable[str] = PACKAGES) -> None:
    """Raises ShadowedPackage if Python would import something else under one of our names."""
    for name, at in shadowed(names).items():
        raise ShadowedPackage(shadowing_text(name, at))


def shadowing_text(name: str, at: Path) -> str:
    return (
        f"{at} hides the package '{name}' of {DISTRIBUTION}: rename it, "
        f"or take {at.parent} off PYTHONPATH and run from another directory"
    )


def _location(name: str) -> Path | None:
    """The file of a module, or the folder of a package."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin) if spec.origin else None
