"""What is right and wrong with a site for us, in words: each problem with its way out. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from master.core.scheduler.end_times import LEAST_WALLTIME_S
from master.hpc.plan import SitePlan
from master.hpc.site.facts import Facts, Folder
from windlass.base.checks import Check, CheckStatus
from windlass.base.formats.durations import format_duration
from windlass.base.formats.plurals import counted
from windlass.base.network import is_loopback

LITTLE_BYTES = 5 * 1024**3
"""Checkpoints need disk space."""
TRIED = {"slurm": (22, 5), "pbs": (23, 6)}
"""The oldest releases on which tests run, or that recordings are of."""
_TITLES = {"slurm": "Slurm", "pbs": "PBS"}
_INSTALL = "python3 -m venv {0}/venv && {0}/venv/bin/pip install 'windlass-cluster[hpc]'"


def findings(facts: Facts, plan: SitePlan, *, as_job: bool = False) -> list[Check]:
    """Those that failed stop `windlass hpc up`. `as_job`: the master does not run on this machine."""
    here = [] if as_job else [_data(facts, plan), _address(facts), *_processes(facts)]
    return [
        _system(facts),
        *_queues(facts, plan),
        *_accounts(facts, plan),
        *_limits(facts, plan),
        *_shared(facts, plan),
        *here,
        _python(facts),
        _isolation(facts),
    ]


def _failed(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=CheckStatus.FAILED, found=found, advice=advice)


def _warning(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=CheckStatus.WARNING, found=found, advice=advice)


def _system(facts: Facts) -> Check:
    name = "batch system"
    if not facts.system:
        return _failed(
            name,
            f"neither sbatch nor qsub is on PATH of {facts.host}",
            "run this on a login node (or with --ssh user@login), load the site's module first, "
            "or give the folder of the commands with --path",
        )
    title = _TITLES[facts.system]
    if facts.system_problem:
        return _failed(
            name,
            f"{title} does not answer: {facts.system_problem}",
            "ask the site whether its scheduler is up, and try again",
        )
    found = f"{title} {facts.site.version}".strip()
    if (release := _release(facts.site.version)) and release < TRIED[facts.system]:
        tried = ".".join(f"{part:02}" for part in TRIED[facts.system])
        return _warning(
            name,
            f"{found} is older than what Windlass was tried with ({tried})",
            "see what works with `windlass hpc check --probe`",
        )
    return Check(name=name, found=found)


def _release(version: str) -> tuple[int, ...]:
    """`22.05.8`, `2021.1.2.20210714` (also 21.1). Empty: it cannot be read."""
    found = re.match(r"(?:20(?=\d\d\.))?(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


def _queues(facts: Facts, plan: SitePlan) -> Iterator[Check]:
    if not facts.system or facts.system_problem:
        return
    kind = "partition" if facts.system == "slurm" else "queue"
    for pool in plan.pools:
        slots = f"{counted(pool.queue.nodes, 'node')} of {pool.slots_per_node}"
        limit = pool.queue.max_walltime_s
        most = "" if limit is None else f", at most {format_duration(timedelta(seconds=limit))}"
        found = f"{slots} {'GPUs' if pool.is_gpu else 'CPUs'}, {pool.queue.idle_nodes} idle{most}"
        given = pool.walltime_s or pool.queue.default_walltime_s
        if given is not None and given < LEAST_WALLTIME_S:
            yield _warning(
                f"{kind} {pool.name}",
                f"{found}; a job gets {format_duration(timedelta(seconds=given))}",
                f"give jobs at least {format_duration(timedelta(seconds=LEAST_WALLTIME_S))} (walltime in master.yaml): "
                "work cannot start, save a checkpoint and leave in less, and what does not end in time gets nowhere",
            )
            continue
        yield Check(name=f"{kind} {pool.name}", found=found)
    left_out = "; ".join(f"{name}: {why}" for name, why in sorted(plan.refused.items()))
    if not plan.pools:
        yield _failed(
            f"{kind}s",
            f"no {kind} takes your jobs ({left_out or f'the site shows no {kind}'})",
            f"ask the site for an account or group that may use one, and try `{_try(facts)}`",
        )
    elif left_out:
        yield Check(name=f"other {kind}s", found=left_out)


def _try(facts: Facts) -> str:
    return "sbatch --wrap hostname" if facts.system == "slurm" else "qsub -- /bin/hostname"


def _accounts(facts: Facts, plan: SitePlan) -> Iterator[Check]:
    names = [account.name for account in facts.accounts]
    if facts.site.accounts is not None and not facts.site.accounts:
        yield _failed(
            "account",
            f"{facts.user} has no account, and the site takes no jobs without one",
            f"ask the site for one (sacctmgr show assoc user={facts.user} lists them)",
        )
    elif plan.account_is_given and names and plan.account and plan.account.name not in names:
        yield _failed(
            "account",
            f"{plan.account.name} is not an account of {facts.user}",
            f"give one of {', '.join(dict.fromkeys(names))}",
        )
    elif plan.account is not None:
        others = [name for name in dict.fromkeys(names) if name != plan.account.name]
        rest = f"; also {', '.join(others)} (--account)" if others else ""
        yield Check(name="account", found=f"{plan.account.name}{rest}")


def _limits(facts: Facts, plan: SitePlan) -> Iterator[Check]:
    """Of the account that pays, and of the QOS that its jobs may have. Work over them waits, and says so."""
    paying = plan.account
    if paying is None:
        return
    told = [f"account {paying.name}: {', '.join(paying.limits)}"] if paying.limits else []
    told += [
        f"QOS {name}: {', '.join(facts.qos_limits[name])}"
        for name in paying.qos
        if name in facts.qos_limits
    ]
    if told:
        yield Check(name="limits", found="; ".join(told))


def _shared(facts: Facts, plan: SitePlan) -> Iterator[Check]:
    name, folder = "shared folder", plan.shared
    if folder is None:
        tried = "; ".join(_why_not_shared(one) for one in facts.shared)
        yield _failed(
            name,
            f"no folder that compute nodes see can be written: {tried}",
            "give one on the shared file system with --dir, or free some space there",
        )
        return
    where = f"{folder.path} ({folder.origin}, {folder.file_system})"
    if not folder.is_network and not facts.is_only_machine:
        yield _warning(
            name,
            f"{where} looks like a disk of this machine alone",
            "jobs start only on nodes that see it: try with `windlass hpc check --probe`, or give another --dir",
        )
    elif folder.free_bytes is not None and folder.free_bytes < LITTLE_BYTES:
        yield _warning(
            name,
            f"{where} has only {folder.free_bytes // 1024**2} MiB left",
            "checkpoints need disk space: free some, or give another --dir",
        )
    else:
        yield Check(name=name, found=where)
    if folder.others_enter:
        yield _warning(
            f"{name}: access",
            f"others may look into {folder.path}: master.yaml and checkpoints are there",
            f"if they should not: chmod go-rwx {folder.path}",
        )
    if folder.origin == "$SCRATCH":
        yield _warning(
            f"{name}: age",
            f"{folder.path} is scratch space, where sites delete old files",
            "copy checkpoints that you want to keep (det checkpoint download), or give another --dir",
        )


def _why_not_shared(folder: Folder) -> str:
    if folder.problem:
        return folder.problem
    if folder.other_owner:
        return f"{folder.path} may be written by others: chmod go-w, or remove it"
    return f"{folder.path} ({folder.file_system or 'unknown'}) is a disk of this machine alone"


def _data(facts: Facts, plan: SitePlan) -> Check:
    name, folder = "database", plan.data
    if folder is None:
        tried = "; ".join(_why_not_data(one) for one in facts.local)
        return _failed(
            name,
            f"no local disk is usable for the database: {tried}",
            "give a folder on a local disk of this machine with --data-dir, or use --as-job",
        )
    where = f"{folder.path} ({folder.file_system})"
    if folder.is_network:
        return _warning(
            name,
            f"{where} is a network file system, whose locks work now",
            "a local disk is safer: run one master at a time on it, and make backups (windlass master backup)",
        )
    if folder.is_memory:
        return _warning(
            name,
            f"{where} is in memory: a reboot of {facts.host} loses experiments, not checkpoints",
            "give a folder on a local disk with --data-dir",
        )
    return Check(name=name, found=f"{where}, a local disk of {facts.host}")


def _why_not_data(folder: Folder) -> str:
    if folder.problem:
        return folder.problem
    if folder.other_owner:
        return f"{folder.path} belongs to another user, or others may write to it"
    if not folder.has_locks:
        return f"{folder.path} ({folder.file_system}) has no file locks"
    return f"{folder.path} ({folder.file_system}) is a network file system"


def _address(facts: Facts) -> Check:
    name = "way to the master"
    if not facts.address:
        return _failed(
            name,
            f"no address of this machine was found ({facts.address_problem})",
            "give the address of the interface that compute nodes reach with --host (ip addr)",
        )
    if facts.address_problem:
        return _failed(
            name,
            f"{facts.address} is no address of {facts.host} ({facts.address_problem})",
            "give the address of the interface that compute nodes reach with --host (ip addr)",
        )
    if is_loopback(facts.address) and not facts.is_only_machine:
        return _warning(
            name,
            f"{facts.host} knows itself and its nodes as {facts.address} only, where nodes do not reach it",
            "give the address of the interface that compute nodes reach with --host (ip addr)",
        )
    return Check(name=name, found=f"nodes call {facts.address}; `--probe` tries it from a node")


def _python(facts: Facts) -> Check:
    name, folder = "Python", facts.python_folder
    if folder is not None and not folder.is_network and not facts.is_only_machine:
        there = "DIR on the shared file system"
        return _warning(
            name,
            f"{facts.python} is on a disk of this machine ({folder.file_system}): nodes may not see it",
            f"make the environment in {there}: {_INSTALL.format('DIR')}; or see that `--probe` succeeds",
        )
    return Check(name=name, found=facts.python)


def _isolation(facts: Facts) -> Check:
    """Nodes of a cluster are mostly set up alike; `--probe` asks them."""
    name = "isolation of tasks"
    images = ", ".join(sorted(facts.runtimes))
    if facts.isolation:
        return Check(name=name, found=f"{facts.isolation}; images: {images or 'no runtime here'}")
    return _warning(
        name,
        f"none on {facts.host} (kernel {facts.kernel}): {facts.isolation_problem}",
        "training code that uses windlass.core runs all the same; the harness of the package determined needs "
        + (
            f"an image (environment.image; {images} is installed)"
            if images
            else "user namespaces or Apptainer: ask the site for one of them"
        ),
    )


def _processes(facts: Facts) -> Iterator[Check]:
    if facts.ends_processes:
        yield _warning(
            "long processes",
            facts.ends_processes,
            "run the master as a batch job with `windlass hpc up --as-job`"
            + ("; or: loginctl enable-linger" if "KillUser" in facts.ends_processes else ""),
        )
