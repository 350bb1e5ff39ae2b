"""`windlass hpc check --probe`: a short job in each queue says what its nodes have. What it says, in words, is pure."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import shutil
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agent_bootstrap.agent.batch.node_probe import NodeReport
from agent_bootstrap.channels.streams import connected
from agent_bootstrap.channels.tickets import NOTICE
from master.hpc.plan import PlannedPool, SitePlan
from master.wiring.batch.keys import ALL_CHANNELS
from provisioner.batch.base import (
    SCRIPT_NAME,
    BatchSystem,
    JobPhase,
    JobRefused,
    JobReport,
    JobSpec,
    NoAnswer,
)
from provisioner.batch.disks import LocalDisk
from provisioner.batch.pipes import LocalPipes
from provisioner.batch.relay_keeper import RelayKeeper
from windlass.base.checks import Check, CheckStatus
from windlass.base.errors import BatchSystemError
from windlass.base.packages import VERSION

LOOK_S = 1.0
WALLTIME_S = 300.0
VISIBLE_AFTER_S = 60.0
"""A network file system may show what a node wrote so much later."""
LITTLE_BYTES = 1024**3
RELAY_S = 10.0
"""For its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What became of the job in one queue."""

    pool: PlannedPool
    report: NodeReport | None = None
    problem: str = ""
    """Why there is no report."""
    waits: bool = False
    """It had not started when we stopped waiting."""


def probe_findings(probed: Probed) -> Iterator[Check]:
    name, report = probed.pool.name, probed.report
    if report is None:
        yield _no_report(probed)
        return
    yield Check(
        name=f"{name}: node",
        found=f"{report.node}: kernel {report.kernel}, Python {report.python}, images: "
        f"{', '.join(report.runtimes) or 'no runtime'}",
    )
    if report.windlass != VERSION:
        yield _bad(
            f"{name}: version",
            f"nodes have Windlass {report.windlass}, this is {VERSION}",
            "install the same one: both use the Python that master.yaml names",
        )
    if probed.pool.is_gpu:
        yield _gpus(name, report)
    yield _way(name, report)
    yield _isolation(name, report)
    yield _scratch(name, report)


def _no_report(probed: Probed) -> Check:
    name = f"{probed.pool.name}: probe"
    if probed.waits:
        return _warning(
            name,
            f"its job has not started: {probed.problem}",
            "try again with a longer --probe-timeout, or when the queue is shorter",
        )
    return _bad(
        name,
        probed.problem,
        "the folder (--dir) and the Python of master.yaml must be seen by nodes under the same path; "
        "`python3 -m venv` in a shared folder makes such a Python",
    )


def _gpus(name: str, report: NodeReport) -> Check:
    notes = "; ".join(report.gpu_notes)
    if not report.gpus:
        return _bad(
            f"{name}: GPUs",
            f"a job that asked for 1 GPU sees none on {report.node} ({notes or 'no driver'})",
            "look with nvidia-smi in a job of your own, and ask the site",
        )
    names = ", ".join(sorted(set(filter(None, report.gpus)))) or "no driver names it"
    return Check(name=f"{name}: GPUs", found=f"{len(report.gpus)} of 1: {names}")


def _way(name: str, report: NodeReport) -> Check:
    good = [way for way, problem in report.ways.items() if not problem]
    bad = "; ".join(f"{way}: {problem}" for way, problem in report.ways.items() if problem)
    if not good:
        return _bad(
            f"{name}: way to the master",
            f"{report.node} does not reach it ({bad})",
            "give another address of this machine with --host (ip addr), or run the master on a compute node with "
            "`up --as-job`; what each way needs: docs/hpc/networks.md",
        )
    found = f"by {', '.join(good)}" + (f" (not {bad})" if bad else "")
    return Check(name=f"{name}: way to the master", found=found)


def _isolation(name: str, report: NodeReport) -> Check:
    images = ", ".join(report.runtimes)
    if report.isolation:
        return Check(name=f"{name}: isolation", found=report.isolation)
    found = f"none on {report.node}: {report.isolation_problem}"
    advice = (
        "code with windlass.core runs all the same; the harness of the package determined needs "
    )
    if images:
        return _warning(
            f"{name}: isolation", found, f"{advice}an image (environment.image, by {images})"
        )
    return _bad(
        f"{name}: isolation",
        f"{found}; and no container runtime is there",
        f"{advice}a container: ask the site for Apptainer or for user namespaces "
        "(sysctl user.max_user_namespaces), or load its module in a job and name its folder in `path` of master.yaml",
    )


def _scratch(name: str, report: NodeReport) -> Check:
    if report.scratch_problem:
        return _bad(
            f"{name}: scratch",
            f"{report.scratch} of {report.node} cannot be written: {report.scratch_problem}",
            "name another folder on a disk of the node in `scratch` of master.yaml, such as /local/scratch",
        )
    free = (report.scratch_free_bytes or 0) // 1024**2
    if (report.scratch_free_bytes or 0) < LITTLE_BYTES:
        return _warning(
            f"{name}: scratch",
            f"{report.scratch} of {report.node} has {free} MiB left",
            "name another folder on a disk of the node in `scratch` of master.yaml, such as /local/scratch",
        )
    return Check(name=f"{name}: scratch", found=f"{report.scratch}: {free} MiB free")


def _bad(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=CheckStatus.FAILED, found=found, advice=advice)


def _warning(name: str, found: str, advice: str) -> Check:
    return Check(name=name, status=CheckStatus.WARNING, found=found, advice=advice)


def probe_script(
    directory: Path, python: str, host: str, port: int, ways: Sequence[str] = ("direct",)
) -> str:
    where = shlex.quote(str(directory))
    words = [
        python,
        "-P",
        "-m",
        "agent_bootstrap.agent.batch.node_probe",
        f"{directory}/report.json",
    ]
    return (
        "#!/bin/sh\n"
        f'cd {where} || {{ echo "this node does not see "{where} >&2; exit 1; }}\n'
        f"exec {shlex.join([*words, host, str(port), ','.join(ways)])}\n"
    )


async def probe(
    system: BatchSystem, plan: SitePlan, *, limit_s: float, port: int | None
) -> list[Probed]:
    """All queues at once. `port`: where a master listens; None: we listen. Leaves no job and no file."""
    if plan.shared is None:
        return []
    root = Path(plan.shared.path) / f"probe-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        if port is None:
            server = await asyncio.start_server(lambda _, writer: writer.close(), plan.address, 0)
            await stack.enter_async_context(server)
            port = int(server.sockets[0].getsockname()[1])
        await stack.enter_async_context(_relay(plan, root, port))
        probes = (_one(system, plan, pool, root, port, limit_s) for pool in plan.pools)
        return await asyncio.gather(*probes)


@asynccontextmanager
async def _relay(plan: SitePlan, root: Path, port: int) -> AsyncIterator[None]:
    """As the master would have one for its jobs."""
    keeper = RelayKeeper(
        LocalPipes(path=plan.path),
        python=plan.python,
        root=str(root),
        dial=lambda _: connected(plan.address, port),
    )
    running = asyncio.create_task(keeper.run())
    try:
        with suppress(TimeoutError):  # then nodes say that there is none
            async with asyncio.timeout(RELAY_S):
                while not await asyncio.to_thread((root / NOTICE).exists):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _one(
    system: BatchSystem, plan: SitePlan, pool: PlannedPool, root: Path, port: int, limit_s: float
) -> Probed:
    name = f"{root.name}-{pool.name}"
    directory = root / pool.name
    ways = ALL_CHANNELS[plan.system]
    script = probe_script(directory, plan.python, plan.address, port, ways)
    pay = {"slurm": f"--account={plan.payer}", "pbs": f"-A {plan.payer}"}[plan.system]
    job = JobSpec(
        name=name,
        queue=pool.queue.name,
        nodes=1,
        gpus_per_node=1 if pool.is_gpu else 0,
        cpus_per_node=1,
        walltime_s=min(WALLTIME_S, pool.queue.max_walltime_s or WALLTIME_S),
        arguments=(pay,) if plan.payer else (),
        directory=directory,
        script=script,
    )
    try:
        told = json.dumps({"agent": {"join_token": secrets.token_hex(16)}}).encode()
        await asyncio.to_thread(LocalDisk().write, directory / "nodes" / "0" / "host.json", told)
        await asyncio.to_thread(LocalDisk().write, directory / SCRIPT_NAME, script.encode())
        job_id = await system.submit(job)
    except (JobRefused, NoAnswer) as error:
        return Probed(pool=pool, problem=f"the site refused its job: {error.message}")
    except OSError as error:
        return Probed(pool=pool, problem=f"{directory} cannot be written: {error.strerror}")
    try:
        return await _outcome(system, pool, directory, name, limit_s)
    finally:
        with suppress(BatchSystemError):
            await system.cancel([job_id])


async def _outcome(
    system: BatchSystem, pool: PlannedPool, directory: Path, name: str, limit_s: float
) -> Probed:
    began = time.monotonic()
    ended: float | None = None
    last: JobReport | None = None
    while True:
        if (report := await asyncio.to_thread(_read, directory)) is not None:
            return Probed(pool=pool, report=report)
        with suppress(NoAnswer):
            last = (await system.poll([name])).get(name, last)
            if ended is None and last is not None and last.phase is JobPhase.ENDED:
                ended = time.monotonic()
        now = time.monotonic()
        if ended is not None and (said := _said(directory, last)) and now > ended + LOOK_S:
            return Probed(pool=pool, problem=said)
        if ended is not None and now > ended + VISIBLE_AFTER_S:
            return Probed(pool=pool, problem="its job ended, and nothing of it is seen in --dir")
        if ended is None and now > began + limit_s:
            why = "it does not end" if last is None else last.words or last.reason or last.state
            starts = last is not None and last.phase is JobPhase.QUEUED
            return Probed(pool=pool, problem=why, waits=starts)
        await asyncio.sleep(LOOK_S)


def _read(directory: Path) -> NodeReport | None:
    try:
        return NodeReport.model_validate_json((directory / "report.json").read_bytes())
    except (OSError, ValidationError):
        return None


def _said(directory: Path, last: JobReport | None) -> str:
    """What its script said last."""
    files = sorted(directory.glob("batch*.log"))
    try:
        lines = files[-1].read_text(errors="replace").strip().splitlines() if files else []
    except OSError:
        lines = []
    how = "" if last is None else last.state
    return f"its job ended ({how}): {lines[-1].strip()}" if lines else ""
