"""Slurm by its own commands, as their user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from provisioner.batch.base import (
    SUBMIT_LIMIT_S,
    ForeignJob,
    JobPhase,
    JobReport,
    JobSpec,
    NoAnswer,
    SiteFacts,
    array_of,
)
from provisioner.batch.commands import Commands, FinishedCommand
from provisioner.batch.slurm.accounts import FORMAT, accounts_of
from provisioner.batch.slurm.arguments import sbatch_line
from provisioner.batch.slurm.partitions import nodes_of, partitions_of, queues_of
from provisioner.batch.slurm.states import has_no_answer, phase_of, refusal_of, report
from provisioner.batch.slurm.text import (
    QUEUE_FORMAT,
    SACCT_FORMAT,
    SQUEUE_FORMAT,
    JobLine,
    named,
    queue_lines,
    sacct_lines,
    scontrol_job,
    settings,
    squeue_lines,
)
from windlass.base.errors import BatchSystemError

HISTORY = "now-7days"
"""How far back accounting is asked. Its own default is midnight."""
SETTINGS_EVERY = 60
"""Looks at the site: about once an hour."""
_AT_ONCE = 500
"""Names or ids on one command line."""
_NO_ACCOUNTING = ("accounting storage is disabled", "not running a supported accounting_storage")
_NOT_KNOWN = "Invalid job id specified"
_NO_SUCH_TASK = re.compile(r"Job \d+_\d+ not found")
"""Of a job of an array that is known: it was cancelled before it started, or is over for long."""
MOST_TASKS = 100
MAX_ARRAY_SIZE = 1001
"""Where it is not configured otherwise."""


class SlurmSystem:
    """Implements `provisioner.batch.base.BatchSystem`."""

    name = "slurm"

    def __init__(self, commands: Commands, *, of: SlurmSystem | None = None) -> None:
        """`of`: the same site as its master sees it, for `commands` of another user."""
        self._commands = commands
        self._of = of
        self._has_accounting = True
        self._settings: Mapping[str, str] = {}
        self._accounts: Mapping[str, frozenset[str]] | None = None
        self._looks = 0

    @property
    def most_tasks(self) -> int:
        told = self._settings.get("MaxArraySize", "")
        return max(1, min(MOST_TASKS, int(told) if told.isdigit() else MAX_ARRAY_SIZE))

    async def site(self) -> SiteFacts:
        if self._looks % SETTINGS_EVERY == 0:
            self._settings = settings(await self._ask("scontrol", "show", "config"))
            self._accounts = await self.my_accounts()
        elif self._accounts is not None and not self._accounts:
            self._accounts = await self.my_accounts()
        partitions, nodes, version = await asyncio.gather(
            self._ask("scontrol", "show", "partition", "-o"),
            self._ask("scontrol", "show", "node", "-o"),
            self._ask("sinfo", "--version"),
        )
        self._looks += 1
        found = nodes_of(nodes)
        return SiteFacts(
            version=version.strip().rpartition(" ")[2],
            queues=queues_of(partitions_of(partitions), found),
            nodes=frozenset(node.name for node in found),
            accounts=self._accounts,
        )

    async def my_accounts(self) -> Mapping[str, frozenset[str]] | None:
        """Where only they are taken, and accounting tells."""
        enforced = (self._of or self)._settings.get("AccountingStorageEnforce", "")
        if "associations" not in enforced:
            return None
        me = await self._commands.run(["id", "-un"])
        words = ("-nP", "show", "assoc", f"user={me.out.strip()}", f"format={FORMAT}")
        said = await self._commands.run(["sacctmgr", *words])
        if me.code or said.code:
            return None
        return accounts_of(said.out, qos_counts="qos" in enforced)

    async def submit(self, job: JobSpec) -> str:
        if (self._of or self)._settings.get("TrackWCKey", "No") == "No":
            job = replace(job, project="")
        done = await self._commands.run(sbatch_line(job), stdin=job.script, limit_s=SUBMIT_LIMIT_S)
        if done.code == 0 and (id_ := re.match(r"\d+", done.out.strip())):
            return id_.group()
        is_refusal = done.code > 0 and done.err.strip()  # not where a signal ended it
        if not is_refusal or has_no_answer(done.err):
            raise NoAnswer(f"sbatch: {done.last}")
        raise refusal_of(done.err)

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        """Anybody may give a job a name of ours."""
        found: dict[str, JobReport] = {}
        for some in _chunks(sorted(set(map(array_of, names)))):
            text = await self._ask(
                *("squeue", "-h", "-r", "-t", "all", "--me"),
                *("-o", SQUEUE_FORMAT),
                f"--name={some}",
            )
            found |= by_name(squeue_lines(text))
        return {name: job for name, job in found.items() if name in names}

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        text = await self._ask("squeue", "-h", "-r", "-t", "all", "--me", "-o", SQUEUE_FORMAT)
        mine = [line for line in squeue_lines(text) if line.name.startswith(prefix)]
        return tuple(by_name(mine).values())

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        where = (f"--partition={queue}",) if queue else ()
        text = await self._ask("squeue", "-h", *where, "-o", QUEUE_FORMAT)
        return await asyncio.to_thread(lambda: tuple(queue_lines(text)))

    async def look_up(self, job_id: str) -> JobReport | None:
        """The controller keeps the exit code as it was; accounting folds it to seven bits."""
        done = await self._commands.run(["scontrol", "show", "job", "-o", job_id])
        line = scontrol_job(done.out) if done.code == 0 else None
        if line is None and _NOT_KNOWN not in done.err and not _NO_SUCH_TASK.match(done.out):
            raise NoAnswer(f"scontrol: {done.last}")
        if line is None or "CANCELLED" in line.state:
            line = await self._remembered(job_id) or line
        if line is None:
            return None
        # Those of an array that wait are one record.
        return replace(report(line), job_id=job_id, name=named(job_id, array_of(line.name)))

    async def cancel(self, job_ids: Collection[str]) -> None:
        for some in _chunks(sorted(job_ids), " "):
            done = await self._commands.run(["scancel", *some.split(" ")])
            if done.code and _NOT_KNOWN not in done.err:
                raise (NoAnswer if _is_down(done) else BatchSystemError)(f"scancel: {done.last}")

    async def signal(self, job_id: str, signal: str) -> None:
        done = await self._commands.run(["scancel", "--full", f"--signal={signal}", job_id])
        if done.code and _NOT_KNOWN not in done.err:
            raise (NoAnswer if _is_down(done) else BatchSystemError)(f"scancel: {done.last}")

    async def _remembered(self, job_id: str) -> JobLine | None:
        """How it ended, by accounting, where there is any; the last run counts."""
        if not self._has_accounting:
            return None
        words = ("-n", "-P", "-X", "--duplicates", "-S", HISTORY, "-j", job_id, "-o", SACCT_FORMAT)
        done = await self._commands.run(["sacct", *words])
        if any(sign in done.err for sign in _NO_ACCOUNTING):
            self._has_accounting = False
            return None
        lines = [line for line in sacct_lines(done.out) if line.job_id == job_id]
        return lines[-1] if done.code == 0 and lines and is_over(lines[-1]) else None

    async def _ask(self, *words: str) -> str:
        """Whatever goes wrong, nothing is known then."""
        done = await self._commands.run(words)
        if done.code:
            raise NoAnswer(f"{words[0]}: {done.last}")
        return done.out


def by_name(lines: Iterator[JobLine] | Sequence[JobLine]) -> dict[str, JobReport]:
    """Of several jobs of one name the one that is not over; else the newest."""
    found: dict[str, JobReport] = {}
    for line in lines:
        new, old = report(line), found.get(line.name)
        if old is None or _weight(new) > _weight(old):
            found[line.name] = new
    return found


def is_over(line: JobLine) -> bool:
    return phase_of(line.state) is JobPhase.ENDED


def _weight(job: JobReport) -> tuple[bool, int]:
    digits = re.match(r"\d+", job.job_id)
    return job.phase is not JobPhase.ENDED, int(digits.group()) if digits else 0


def _is_down(done: FinishedCommand) -> bool:
    return has_no_answer(done.err)


def _chunks(words: Sequence[str], separator: str = ",") -> Iterator[str]:
    for start in range(0, len(words), _AT_ONCE):
        yield separator.join(words[start : start + _AT_ONCE])
