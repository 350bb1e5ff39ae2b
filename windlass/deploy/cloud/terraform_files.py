"""Where our Terraform files are, and copying them into the folder of a cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

_BESIDE = Path(__file__).parent / "terraform"
"""In an installation; a checkout has them at its top."""
_CHECKOUT = Path(__file__).parents[3] / "terraform"


def modules_of(cloud: str) -> Path:
    return (_BESIDE if _BESIDE.is_dir() else _CHECKOUT) / cloud


def copy_modules(modules: Path, folder: Path) -> None:
    """Replaces those of another release; state, variables and plug-ins stay."""
    for path in sorted(modules.glob("*.tf")):
        shutil.copyfile(path, folder / path.name)
    shutil.rmtree(folder / "modules", ignore_errors=True)
    if (modules / "modules").is_dir():
        shutil.copytree(
            modules / "modules", folder / "modules", ignore=shutil.ignore_patterns("tests", ".*")
        )
