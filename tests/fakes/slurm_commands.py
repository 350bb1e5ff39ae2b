"""Slurm's commands in memory, in the words of 22.05 (`tests/transcripts/slurm`). Its jobs do nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from provisioner.batch.commands import COMMAND_LIMIT_S, FinishedCommand

DOWN = "Unable to contact slurm controller (connect failure)\n"
LIMIT = (
    "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy "
    "(job submit limit, user's size and/or time limits)\n"
)
PARTITION = (
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=00:30:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED "
    "MaxTime=2-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-8] State=UP TotalCPUs=128 TotalNodes=8\n"
)
NODE = (
    "NodeName=n{number} Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUEfctv=16 CPUTot=16 CPULoad=0.10 "
    "Gres=gpu:fake:{gpus} NodeAddr=127.0.0.1 NodeHostName=n{number} RealMemory=16000 AllocMem=0 State=IDLE "
    "Partitions=gpu \n"
)


@dataclass
class Job:
    id: int
    name: str
    nodes: int
    limit_s: float
    state: str = "PENDING"
    reason: str = "Resources"
    start: float | None = None
    end: float | None = None
    had_nodes: bool = False
    exclude: str = ""
    """As it was asked for; it gets the first nodes all the same, as with a system that cannot be told."""
    is_ours: bool = True
    """Else another user's."""
    array: int = 0
    """The id of the array that it is one of; its number there."""
    number: int = 0

    @property
    def key(self) -> str:
        return f"{self.array}_{self.number}" if self.array else str(self.id)

    @property
    def is_over(self) -> bool:
        return self.state not in ("PENDING", "RUNNING")

    def run(self, now: float) -> None:
        self.state, self.reason, self.had_nodes = "RUNNING", "None", True
        self.start, self.end = now, now + self.limit_s

    def finish(self, state: str, now: float) -> None:
        if not self.is_over:
            self.state, self.reason = state, "None"
            self.start, self.end = self.start or now, now


@dataclass
class FakeSlurm:
    """Implements `Commands`. Jobs start at once, unless they are held back."""

    gpus: int = 2
    jobs: dict[int, Job] = field(default_factory=dict)
    holds_back: bool = False
    denies_cancel: bool = False
    refusal: str = ""
    lost_replies: int = 0
    """So many submissions are carried out, and not answered."""
    down: dict[str, int] = field(default_factory=dict)
    """Command -> how often it does not reach the controller; -1: always."""
    hangs: set[str] = field(default_factory=set)
    hung: asyncio.Event = field(default_factory=asyncio.Event)
    """Some command hangs."""
    calls: list[str] = field(default_factory=list)
    submitted: int = 0
    """Jobs, those of arrays included."""
    room: int | None = None
    """So many jobs that are not over a user may have; those of an array count."""

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        name = words[0]
        self.calls.append(name)
        await asyncio.sleep(0)
        if name in self.hangs:
            self.hung.set()
            await asyncio.Event().wait()
        if self.down.get(name, 0):
            self.down[name] -= 1
            code = 8 if name == "scancel" else 1
            return FinishedCommand(code, "", f"{name}: error: {DOWN}")
        match list(words):
            case ["sbatch", *options]:
                return self._sbatch(options, stdin)
            case ["squeue", *options]:
                return self._squeue(options)
            case ["scancel", *ids] if self.denies_cancel:
                return FinishedCommand(
                    1, "", f"scancel: error: Kill job error on job id {ids[0]}: Access denied\n"
                )
            case ["scancel", *ids]:
                for id_ in ids:  # without a word for those that are over or unknown
                    if (job := self._of(id_)) is not None:
                        self._cancel(job)
                return FinishedCommand(0)
            case ["scontrol", "show", "job", "-o", id_]:
                return self._show(id_)
            case ["scontrol", "show", "partition", "-o"]:
                return FinishedCommand(0, PARTITION)
            case ["scontrol", "show", "node", "-o"]:
                return FinishedCommand(
                    0, "".join(NODE.format(number=n, gpus=self.gpus) for n in range(1, 9))
                )
            case ["scontrol", "show", "config"]:
                return FinishedCommand(0, "AccountingStorageEnforce = none\nTrackWCKey = No\n")
            case ["sinfo", "--version"]:
                return FinishedCommand(0, "slurm-wlm 22.05.8\n")
            case ["sacct", *_]:
                return FinishedCommand(1, "", "Slurm accounting storage is disabled\n")
        raise AssertionError(f"not recorded: {words}")

    def deliver(self) -> None:
        for job in self.jobs.values():
            if job.state == "PENDING":
                job.run(time.time())

    def named(self, name: str) -> Job:
        """Of an array: with its number behind a dot."""
        name, _, number = name.partition(".")
        return next(
            job
            for job in self.jobs.values()
            if job.name == name and (not number or job.number == int(number))
        )

    def _of(self, key: str) -> Job | None:
        return next((job for job in self.jobs.values() if job.key == key), None)

    def _cancel(self, job: Job) -> None:
        """A job of an array that has not started is not known any more then, if others are left."""
        others = [one for one in self.jobs.values() if one.array == job.array and one is not job]
        if job.array and job.state == "PENDING" and not all(one.is_over for one in others):
            del self.jobs[job.id]
        job.finish("CANCELLED", time.time())

    def _sbatch(self, options: Sequence[str], script: str) -> FinishedCommand:
        assert script.startswith("#!/bin/sh\n")
        if self.refusal:
            return FinishedCommand(1, "", self.refusal)
        given = dict(option[2:].partition("=")[::2] for option in options)
        hours, minutes, seconds = map(int, given["time"].split(":"))
        last = given.get("array", "").rpartition("-")[2]
        tasks = int(last) + 1 if last else 1
        living = sum(not job.is_over for job in self.jobs.values())
        if self.room is not None and living + tasks > self.room:
            return FinishedCommand(1, "", LIMIT)
        id_ = max(self.submitted, *self.jobs, 0) + 1
        self.submitted += tasks
        for number in range(tasks):
            job = Job(
                id=id_ + number,
                name=given["job-name"],
                nodes=int(given["nodes"]),
                limit_s=hours * 3600.0 + minutes * 60 + seconds,
                exclude=given.get("exclude", ""),
                array=id_ if last else 0,
                number=number,
            )
            self.jobs[job.id] = job
            if not self.holds_back:
                job.run(time.time())
        if self.lost_replies:
            self.lost_replies -= 1
            return FinishedCommand(
                1, "", "sbatch: error: Batch job submission failed: Socket timed out on\n"
            )
        return FinishedCommand(0, f"{id_}\n")

    def _squeue(self, options: Sequence[str]) -> FinishedCommand:
        arrays = any(job.array for job in self.jobs.values())
        assert "-r" in options or not arrays, "jobs of an array that wait would be one line"
        names = next((o[7:].split(",") for o in options if o.startswith("--name=")), None)
        shown = [
            job
            for job in self.jobs.values()
            if (job.is_ours or "--me" not in options) and (names is None or job.name in names)
        ]
        return FinishedCommand(0, "".join(_line(job) for job in shown))

    def _show(self, key: str) -> FinishedCommand:
        job, array = self._of(key), key.partition("_")[0]
        if job is None and any(str(one.array) == array for one in self.jobs.values()):
            return FinishedCommand(1, f"Job {key} not found\n")
        if job is None:
            return FinishedCommand(1, "", "slurm_load_jobs error: Invalid job id specified\n")
        task = f"ArrayJobId={job.array} ArrayTaskId={job.number} " if job.array else ""
        code = "0:9" if job.state == "CANCELLED" and job.had_nodes else "0:0"
        times = f"StartTime={_time(job.start, 'Unknown')} EndTime={_time(job.end, 'Unknown')}"
        return FinishedCommand(
            0,
            f"JobId={job.id} {task}JobName={job.name} UserId=alice(2001) GroupId=alice(2001) MCS_label=N/A "
            f"JobState={job.state} Reason={job.reason} Requeue=0 Restarts=0 ExitCode={code} {times} "
            f"Partition=gpu NodeList={_nodes(job, '(null)')} NumNodes={job.nodes}\n",
        )


def _line(job: Job) -> str:
    words = (job.key, job.state, _time(job.start, "N/A"), _time(job.end, "N/A"), _nodes(job, ""))
    return "|".join(map(str, (*words, job.nodes, job.reason, job.name))) + "\n"


def _nodes(job: Job, none: str) -> str:
    if not job.had_nodes:
        return none
    return "n1" if job.nodes == 1 else f"n[1-{job.nodes}]"


def _time(at: float | None, none: str) -> str:
    return none if at is None else str(int(at))
