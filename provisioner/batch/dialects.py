"""What the two kinds of batch system call the same things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from provisioner.batch.base import SiteFacts
from provisioner.batch.pbs import arguments as pbs
from provisioner.batch.slurm import arguments as slurm
from provisioner.batch.slurm.accounts import account_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    name: str
    queue: str
    """What it calls a queue."""
    section: str
    """Of a configuration, and the type of its provider."""
    arguments_key: str
    time_option: str
    problems: Callable[[Sequence[str]], list[str]]
    """Why arguments are not taken."""
    wanted_walltime_s: Callable[[Sequence[str]], float | None]
    account_problems: Callable[[Sequence[str], SiteFacts], Iterable[str]]
    """Why the site would refuse the account of a job."""
    joins_labels: str
    """Between labels that become one project."""


DIALECTS = {
    "slurm": Dialect(
        name="Slurm",
        queue="partition",
        section="slurm",
        arguments_key="sbatch_args",
        time_option="--time",
        problems=slurm.problems,
        wanted_walltime_s=slurm.wanted_walltime_s,
        account_problems=account_problems,
        joins_labels=",",
    ),
    "pbs": Dialect(
        name="PBS",
        queue="queue",
        section="pbs",
        arguments_key="pbsbatch_args",
        time_option="-l walltime",
        problems=pbs.problems,
        wanted_walltime_s=pbs.wanted_walltime_s,
        account_problems=lambda arguments, site: (),
        joins_labels="_",
    ),
}
