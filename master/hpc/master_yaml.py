"""master.yaml of a private master: written once for people to read and change. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import yaml

from master.hpc.plan import PlannedPool, SitePlan
from windlass.base.formats.durations import format_duration
from windlass.base.formats.plurals import counted

_QUEUE_KEY = {"slurm": "partition", "pbs": "queue"}
_ARGUMENTS_KEY = {"slurm": "sbatch_args", "pbs": "pbsbatch_args"}
_TITLE = {"slurm": "Slurm", "pbs": "PBS"}
_EXAMPLE = {"slurm": '["--exclude=badnode"]', "pbs": '["-l place=scatter"]'}


def master_yaml(plan: SitePlan, port: int) -> str:
    """Raises ValueError for a plan without a shared folder."""
    if plan.shared is None:
        raise ValueError("no shared folder")
    return "\n".join(_lines(plan, port, plan.shared.path)) + "\n"


def _lines(plan: SitePlan, port: int, shared: str) -> Iterator[str]:
    title = _TITLE[plan.system]
    yield from (
        f"# The master.yaml of your private master on {title}, written by `windlass hpc up`.",
        "# It is yours: change it, and run `windlass hpc up --restart`, which never overwrites it.",
        "# All keys: docs/reference/master.md. Check it: windlass master config --config-file FILE",
        "",
        "# Compute nodes reach the master at this address, by HTTPS with a certificate of its own that they pin.",
        f"host: {_text(plan.address)}",
        f"port: {port}",
        "security:",
        "  tls: {self_signed: true}",
        "",
        "# Where all nodes see it.",
        "checkpoint_storage:",
        "  type: shared_fs",
        f"  host_path: {_text(f'{shared}/checkpoints')}",
        "",
        "resource_manager:",
        "  type: agent",
        f"  default_compute_resource_pool: {_text(plan.default_pool)}",
        f"  default_aux_resource_pool: {_text(plan.aux_pool)}   # for work without slots",
        "",
        f"# One pool for each {_QUEUE_KEY[plan.system]}: a task there is a job of its own, submitted as you.",
        "resource_pools:",
    )
    for pool in plan.pools:
        yield from _pool(plan, pool, shared)
    for name, why in sorted(plan.refused.items()):
        yield f"  # {name}: left out, {why}"


def _pool(plan: SitePlan, pool: PlannedPool, shared: str) -> Iterator[str]:
    what = f"{pool.slots_per_node} {'GPUs' if pool.is_gpu else 'CPUs'}"
    yield f"  - pool_name: {_text(pool.name)}        # {counted(pool.queue.nodes, 'node')} of {what}; {_limits(pool)}"
    yield "    provider:"
    yield f"      type: {plan.system}"
    yield f"      {_QUEUE_KEY[plan.system]}: {_text(pool.name)}"
    yield f"      job_storage_root: {_text(f'{shared}/jobs')}"
    yield f"      python: {_text(plan.python)}     # has Windlass, and is seen by all nodes"
    if plan.path:
        yield f"      path: {_text(plan.path)}"
    if plan.account is not None and plan.account_is_given:
        yield f"      account: {_text(plan.account.name)}"
    elif plan.account is not None:
        yield f"      # account: {plan.account.name}          # your default"
    if plan.system == "slurm" and plan.account is not None and plan.account.qos:
        yield f"      # qos: one of {', '.join(plan.account.qos)}"
    if not pool.is_gpu:
        yield f"      slots_per_node: {pool.slots_per_node}        # a slot is a CPU here"
    if pool.cpus_per_slot is not None:
        yield f"      cpus_per_slot: {pool.cpus_per_slot}         # the GPUs' share of a node"
    if pool.memory_mib_per_slot is not None:
        yield f"      memory_per_slot: {pool.memory_mib_per_slot}MiB"
    if pool.walltime_s is None:
        usual = _duration(pool.queue.default_walltime_s or 0)
        yield f"      # walltime: {usual}      # the site's default; trials go on in the next job"
    else:
        yield f"      walltime: {_duration(pool.walltime_s)}      # of each job; trials go on in the next one"
    yield f"      max_queued: {plan.max_queued}        # jobs that may wait at the site"
    yield f"      # {_ARGUMENTS_KEY[plan.system]}: {_EXAMPLE[plan.system]}"
    yield "      # prologue: [module load cuda]      # shell before every task"
    yield "      # job_prologue: [module load apptainer]      # shell in every job, before our agent"


def _limits(pool: PlannedPool) -> str:
    most = pool.queue.max_walltime_s
    return "no time limit" if most is None else f"jobs of at most {_duration(most)}"


def _duration(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


def _text(value: str) -> str:
    """With quotes only where YAML would read something else. JSON strings are YAML."""
    try:
        is_plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        is_plain = False
    return value if is_plain else json.dumps(value)
