"""A Slurm of the tests' own, a PBS that replays what was recorded, and with `make test-pbs` that of this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.batch.sites import BatchSite, live_pbs_site, pbs_site, slurm_site
from tests.pbs import live_queue, running_pbs
from tests.slurm import Slurm, require_slurm, running_slurm


@pytest.fixture(scope="session")
def slurm_of_contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm()
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    with running_slurm(folder) as slurm:
        yield slurm


@pytest.fixture(params=["slurm", "pbs"] if live_queue() is None else ["live pbs"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BatchSite]:
    """With no job in it."""
    if request.param == "slurm":
        slurm = request.getfixturevalue("slurm_of_contract")
        yield slurm_site(slurm)
        slurm.settle()
        return
    if request.param == "live pbs":
        yield live_pbs_site()
        return
    with running_pbs(tmp_path_factory.mktemp("pbs")) as pbs:
        yield pbs_site(pbs)
        assert pbs.unrecorded == []
