"""One Slurm for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm import Slurm, require_slurm, running_slurm


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm()
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    with running_slurm(folder) as slurm:
        yield slurm


@pytest.fixture
def slurm(site: Slurm) -> Iterator[Slurm]:
    """With no job in it."""
    yield site
    site.settle()
