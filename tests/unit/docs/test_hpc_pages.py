"""The pages on Slurm and PBS: every master.yaml that they show is taken as it is, without a warning."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.config.load import load

PAGES = sorted((Path(__file__).parents[3] / "docs/hpc").glob("*.md"))
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
