"""A Slurm of the tests' own, a PBS that replays what was recorded, and with `make test-pbs` that of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from provisioner.batch.commands import Commands
from provisioner.batch.ssh import SshCommands
from tests.contract.batch.sites import (
    BatchSite,
    live_pbs_site,
    pbs_site,
    rest_site,
    shared,
    slurm_site,
)
from tests.pbs import live_queue, running_pbs
from tests.slurm import PATH, Slurm, require_slurm, running_slurm
from tests.slurmrestd import Slurmrestd, require_slurmrestd, running_slurmrestd
from tests.sshd import MISSING, SSHD, login_node

SITES = (
    pytest.param("slurm", marks=pytest.mark.slow),
    pytest.param("slurm shared", marks=pytest.mark.slow),
    "pbs",
    "newer pbs",
    pytest.param("slurm over ssh", marks=pytest.mark.slow),
    pytest.param("pbs over ssh", marks=pytest.mark.slow),
    pytest.param("slurmrestd over http", marks=pytest.mark.slow),
    pytest.param("slurmrestd and slurmdbd over http", marks=pytest.mark.slow),
    pytest.param("slurmrestd over unix", marks=pytest.mark.slow),
    pytest.param("slurmrestd over inetd", marks=pytest.mark.slow),
    pytest.param("slurmrestd over inetd over ssh", marks=pytest.mark.slow),
)


@pytest.fixture(scope="session")
def slurm_of_contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm()
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    with running_slurm(folder) as slurm:
        yield slurm


@pytest.fixture(scope="session")
def slurmrestd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurmrestd]:
    require_slurm()
    require_slurmrestd()
    folder = tmp_path_factory.mktemp("rest")
    folder.chmod(0o755)
    with running_slurm(folder, jwt=True) as slurm, running_slurmrestd(slurm) as rest:
        yield rest


@pytest.fixture(scope="session")
def slurmrestd_and_slurmdbd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurmrestd]:
    """It also serves accounting."""
    require_slurm(accounting=True)
    require_slurmrestd()
    folder = tmp_path_factory.mktemp("dbrest")
    folder.chmod(0o755)
    with running_slurm(folder, jwt=True, accounting=True) as slurm, running_slurmrestd(slurm) as it:
        yield it


@pytest.fixture(params=SITES if live_queue() is None else ["live pbs"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BatchSite]:
    """With no job in it."""
    name, _, over_ssh = str(request.param).partition(" over ")
    way, _, login = over_ssh.partition(" over ")
    if name == "live pbs":
        yield live_pbs_site()
    elif name.startswith("slurmrestd"):
        rest = request.getfixturevalue(name.replace(" ", "_"))
        environment = rest.slurm.environment
        with over(request, tmp_path_factory, login, **environment) as commands:
            yield rest_site(rest, way, tmp_path_factory.mktemp("token"), commands)
        rest.slurm.settle()
    elif name == "slurm":
        slurm = request.getfixturevalue("slurm_of_contract")
        with over(request, tmp_path_factory, over_ssh, **slurm.environment) as commands:
            yield slurm_site(slurm, commands)
        slurm.settle()
    elif name == "slurm shared":
        slurm = request.getfixturevalue("slurm_of_contract")
        yield shared(slurm_site(slurm))
        slurm.settle()
    else:
        marks = ("first-only",) if name == "newer pbs" else ()
        with running_pbs(tmp_path_factory.mktemp("pbs"), *marks) as pbs:
            with over(request, tmp_path_factory, over_ssh, PATH=f"{pbs.path}:{PATH}") as commands:
                yield pbs_site(pbs, commands)
            assert pbs.unrecorded == []


@contextmanager
def over(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    is_ssh: str,
    **environment: str,
) -> Iterator[Callable[[], Commands] | None]:
    """A login node of the test's own, where these variables are set."""
    if not is_ssh:
        yield None
        return
    if SSHD is None:
        pytest.skip(MISSING)
    with login_node(tmp_path_factory.mktemp("login"), environment) as login:
        yield lambda: SshCommands(login.node())
