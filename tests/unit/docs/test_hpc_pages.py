"""The pages on Slurm and PBS: every master.yaml that they show is taken as it is, without a warning."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.config.load import load

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs/hpc").glob("*.md"))
_BLOCK = re.compile(r"^( *)```(?:yaml)?\n(.*?)^ *```", re.S | re.M)
_HERE = re.compile(r"<<'END'\n(.*?)^END$", re.S | re.M)
_ROOT = re.compile(r"^(?:resource_pools|resource_manager|checkpoint_storage|security):", re.M)


def samples() -> Iterator[tuple[str, str]]:
    """Page and text."""
    for page in PAGES:
        for _, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            text = textwrap.dedent(block)
            for one in _HERE.findall(text) or [text]:
                if _ROOT.search(one) and "[Service]" not in one:
                    yield page.name, one


SAMPLES = list(samples())


def test_pages_have_some() -> None:
    shown = {page for page, _ in SAMPLES}
    assert shown >= {"slurm.md", "pbs.md", "ssh.md", "rest.md", "nodes.md", "sysadmin.md"}


@pytest.mark.parametrize(
    ("page", "text"), SAMPLES, ids=lambda one: one if one[-3:] == ".md" else ""
)
def test_a_sample_is_taken_as_it_is(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text(text)
    config = load(file)
    assert config.warnings == ()


def test_pyslurm_is_an_extra_of_its_own_and_in_no_lock() -> None:
    """It is built against the Slurm of a site, whose release it must be, and its licence is the GPL."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert extras["slurm"] == ["pyslurm"]
    others = [line for name, lines in extras.items() if name != "slurm" for line in lines]
    assert not [line for line in others if re.search(r"\bslurm\b|pyslurm", line)]
    for lock in ROOT.glob("requirements*.lock"):
        assert "pyslurm" not in lock.read_text(), lock
