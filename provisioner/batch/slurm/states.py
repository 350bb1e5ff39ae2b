"""What Slurm's words mean: states of jobs, reasons to wait, refusals. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from master.core.reasons import ReasonKind
from provisioner.batch.base import EndCause, JobPhase, JobRefused, JobReport
from provisioner.batch.slurm.text import NOT_SET, JobLine

_PHASES = {
    "PENDING": JobPhase.QUEUED,
    "REQUEUED": JobPhase.QUEUED,
    "REQUEUE_HOLD": JobPhase.QUEUED,
    "REQUEUE_FED": JobPhase.QUEUED,
    "SPECIAL_EXIT": JobPhase.QUEUED,
    "CONFIGURING": JobPhase.STARTING,
    "RUNNING": JobPhase.RUNNING,
    "SIGNALING": JobPhase.RUNNING,
    "STAGE_OUT": JobPhase.RUNNING,
    "RESIZING": JobPhase.RUNNING,
    "EXPEDITING": JobPhase.RUNNING,
    "SUSPENDED": JobPhase.PAUSED,
    "STOPPED": JobPhase.PAUSED,
    "COMPLETING": JobPhase.ENDING,
}
_CAUSES = {
    "COMPLETED": EndCause.OK,
    "FAILED": EndCause.FAILED,
    "TIMEOUT": EndCause.TIMEOUT,
    "DEADLINE": EndCause.TIMEOUT,
    "CANCELLED": EndCause.CANCELLED,
    "REVOKED": EndCause.CANCELLED,
    "NODE_FAIL": EndCause.NODE_FAILED,
    "BOOT_FAIL": EndCause.NODE_FAILED,
    "OUT_OF_MEMORY": EndCause.OUT_OF_MEMORY,
    "PREEMPTED": EndCause.PREEMPTED,
    "LAUNCH_FAILED": EndCause.LAUNCH_FAILED,
    "RECONFIG_FAIL": EndCause.LAUNCH_FAILED,
}
LAUNCH_FAILURE = (0, 53)
"""The exit code of a job whose script could not be started, for one because its log cannot be written."""

_WORDS = {
    "Priority": "jobs of a higher priority come first",
    "Resources": "no nodes of that shape are free",
    "None": "the scheduler has not looked at it yet",
    "BeginTime": "it may not start before a time",
    "Dependency": "it waits for another job",
    "Licenses": "no licence is free",
    "Reservation": "it waits for its reservation",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "PartitionTimeLimit": "its time limit is over that of the partition",
    "PartitionNodeLimit": "it asks for more nodes than the partition gives to one job",
    "PartitionConfig": "it asks for more than the partition gives to one job",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "JobHeldUser": "held: `scontrol release` starts it",
    "JobHeldAdmin": "held by an administrator of the site",
    "BadConstraints": "no node can ever be what it asks for",
    "DependencyNeverSatisfied": "it waits for a job that failed",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QOS may not be used in the partition",
    "launch failed requeued held": "its nodes could not be started, and the site holds it",
    "job requeued in held state": "it was put back into the queue, and is held there",
}
_HELD = (
    "JobHeld",
    "launch failed requeued held",
    "job requeued in held state",
    "DependencyNeverSatisfied",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
    "AccountNotAllowed",
    "PartitionConfig",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
)
_NEVER = {
    "PartitionTimeLimit": "give a shorter --time",
    "InvalidAccount": "give one of yours with --account",
    "InvalidQOS": "give one of yours with --qos",
    "BadConstraints": "correct --constraint, or what else it asks of its nodes",
    "DependencyNeverSatisfied": "correct --dependency",
}
"""Reasons that do not pass by themselves, and the way out. PartitionNodeLimit is none: nodes may just be down; nor
AccountNotAllowed and QOSNotAllowed: partitions are restricted for maintenance."""
_PER_JOB = re.compile(r"\b(QOS|Assoc)(?:Max(\w+)PerJob(?:Limit)?|Min(\w+?)(?:NotSatisfied)?)\b")
"""Limits on the size of one job: nothing that ends elsewhere makes it smaller."""
_NO_NODES = ("Resources", "ReqNodeNotAvail", "PartitionDown", "PartitionInactive", "Nodes required")
_OWNERS = {"QOS": "the QOS", "Assoc": "the account"}
_SHARES = {"PerUser": " per user", "PerAccount": " per account"}
_LIMITED = (
    ("Submit", "jobs that are submitted"),
    ("Jobs", "running jobs"),
    ("GRES", "GPUs"),
    ("Cpu", "CPUs"),
    ("Node", "nodes"),
    ("Mem", "memory"),
    ("Wall", "time"),
    ("Billing", "billing units"),
)
_LIMITS = ("QOS", "Assoc", "MaxGRES", "MaxNodePerAccount", "MaxMemPer", "MaxTRES")


def report(line: JobLine, *, ended_by: tuple[int, int] | None = None) -> JobReport:
    """One job in our words. `ended_by`: the exit code, where `line` does not have it."""
    phase = phase_of(line.state)
    reason = "" if line.reason in NOT_SET and phase is not JobPhase.QUEUED else line.reason
    code = line.exit_code or ended_by
    cause = cause_of(line.state, code) if phase is JobPhase.ENDED else None
    waits = phase is JobPhase.QUEUED
    return JobReport(
        job_id=line.job_id,
        name=line.name,
        phase=phase,
        state=line.state,
        kind=kind_of(reason) if waits else ReasonKind.LAUNCHING,
        reason=reason,
        words=words_of(reason) if waits else "",
        never=way_out_of(reason) if waits else "",
        starts_at=line.start,
        ends_at=line.end,
        nodes=line.nodes,
        account=line.account,
        cause=cause,
        exit_code=None if code is None or cause is None else _exit(code),
    )


def phase_of(state: str) -> JobPhase:
    """A state that no release we know of has counts as running: it must not end anything."""
    if state in _CAUSES:
        return JobPhase.ENDED
    return _PHASES.get(state, JobPhase.RUNNING)


def cause_of(state: str, code: tuple[int, int] | None) -> EndCause:
    if state == "FAILED" and code == LAUNCH_FAILURE:
        return EndCause.LAUNCH_FAILED
    return _CAUSES.get(state, EndCause.UNKNOWN)


def kind_of(reason: str) -> ReasonKind:
    """Why a job waits at the site, as the pools and the rules of falling back count it."""
    if reason.startswith(_LIMITS):
        return ReasonKind.QUOTA
    if reason.startswith(_HELD) or "not permitted" in reason or reason.startswith(_NO_NODES):
        return ReasonKind.NO_CAPACITY
    if reason == "Priority":
        return ReasonKind.NO_CAPACITY
    return ReasonKind.QUEUED


def way_out_of(reason: str) -> str:
    """Of what makes a job wait for ever; empty: it may start some time."""
    if reason in _NEVER:
        return _NEVER[reason]
    found = _PER_JOB.search(reason)
    if found is None:
        return ""
    _, most, least = found.groups()
    if most is None:
        return f"ask for more {_limited(least) or least}"
    return "give a shorter --time" if "Wall" in most else f"ask for fewer {_limited(most) or most}"


def words_of(reason: str) -> str:
    """In plain words; empty where Slurm's own are as plain."""
    if (limit := _PER_JOB.fullmatch(reason)) is not None:
        owner, most, least = limit.groups()
        if most is None:
            return f"it asks for fewer {_limited(least) or least} than {_OWNERS[owner]} takes"
        return f"it asks for more {_limited(most) or most} than {_OWNERS[owner]} gives to one job"
    if reason in NOT_SET:
        return _WORDS["None"]
    if reason in _WORDS:
        return _WORDS[reason]
    found = next((text for key, text in _WORDS.items() if reason.startswith(f"{key},")), None)
    if found is not None:
        return found
    return _limit_words(reason)


def _limit_words(reason: str) -> str:
    """`QOSMaxJobsPerUserLimit`, `AssocGrpCPUMinutesLimit` and their like; empty if it is none of these."""
    whose = next((name for key, name in _OWNERS.items() if reason.startswith(key)), None)
    if whose is None:
        return ""
    what = _limited(reason)
    if not what:
        return f"a limit of {whose} is reached"
    share = next((name for key, name in _SHARES.items() if key in reason), "")
    return f"{whose} has reached its limit of {what}{share}"


def _limited(reason: str) -> str:
    """Of what there is a limit; empty: of something else."""
    what = next((name for key, name in _LIMITED if key.lower() in reason.lower()), "")
    return f"{what.removesuffix('s')} minutes" if what and "minutes" in reason.lower() else what


@dataclass(frozen=True, slots=True)
class _Refusal:
    text: str
    kind: ReasonKind
    hint: str
    passing: bool = False
    final: bool = True


_REFUSALS = (
    _Refusal("Invalid partition name", ReasonKind.NO_SUCH_AGENT, "sinfo -s lists the partitions"),
    _Refusal("invalid partition specified", ReasonKind.NO_SUCH_AGENT, "sinfo -s lists them"),
    _Refusal(
        "Invalid account or account/partition", ReasonKind.QUOTA, "give one of yours with --account"
    ),
    _Refusal("Invalid qos", ReasonKind.QUOTA, "give one of yours with --qos"),
    _Refusal(
        "Requested node configuration is not available",
        ReasonKind.NO_SUCH_AGENT,
        "no node of the partition is what the job asks for",
    ),
    _Refusal(
        "Requested time limit is invalid",
        ReasonKind.NO_SUCH_AGENT,
        "give a shorter one with --time",
    ),
    _Refusal("Node count specification invalid", ReasonKind.NO_SUCH_AGENT, "ask for fewer nodes"),
    _Refusal(
        "More processors requested than permitted", ReasonKind.NO_SUCH_AGENT, "ask for fewer CPUs"
    ),
    _Refusal("Invalid feature specification", ReasonKind.NO_SUCH_AGENT, "correct --constraint"),
    _Refusal("Invalid generic resource", ReasonKind.NO_SUCH_AGENT, "correct --gres or gpu_type"),
    _Refusal("reservation is invalid", ReasonKind.NO_SUCH_AGENT, "correct --reservation"),
    _Refusal(
        "reservation not usable", ReasonKind.NO_SUCH_AGENT, "correct --reservation", final=False
    ),
    _Refusal("dependency problem", ReasonKind.NO_SUCH_AGENT, "correct --dependency"),
    _Refusal("Invalid node name", ReasonKind.NO_SUCH_AGENT, "correct --nodelist or --exclude"),
    _Refusal("Invalid license", ReasonKind.NO_SUCH_AGENT, "correct --licenses"),
    _Refusal("WallDuration", ReasonKind.QUOTA, "give a shorter --time"),
    _Refusal(
        "MaxSubmit",
        ReasonKind.QUOTA,
        "it is submitted again when others have ended",
        passing=True,
        final=False,
    ),
    _Refusal(
        "Invalid job array specification",
        ReasonKind.QUOTA,
        "MaxArraySize of the site is smaller",
        passing=True,
        final=False,
    ),
    _Refusal(
        "Job violates accounting/QOS policy",
        ReasonKind.QUOTA,
        "see sacctmgr show assoc",
        final=False,
    ),
)
_NO_ANSWER = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Connection refused",
    "Communication connection failure",
    "Slurm backup controller in standby mode",
    "Slurm temporarily unable to accept job",
    "Resource temporarily unavailable",
)


def has_no_answer(text: str) -> bool:
    """Whether a command failed because the controller could not be asked."""
    return any(sign in text for sign in _NO_ANSWER)


def refusal_of(text: str) -> JobRefused:
    """What sbatch said, with the way out."""
    said = "; ".join(
        line.removeprefix("sbatch: error: ").strip() for line in text.splitlines() if line.strip()
    )
    found = next((one for one in _REFUSALS if one.text in said), None)
    if found is None:
        said = said or "sbatch failed without a word"
        return JobRefused(
            f"{said} (see slurm.sbatch_args)", kind=ReasonKind.NO_SUCH_AGENT, passing=False
        )
    way_out, final = found.hint, found.final
    if found.kind is ReasonKind.QUOTA and (limit := way_out_of(said)):
        way_out, final = limit, True
    return JobRefused(
        f"{said} ({way_out})", kind=found.kind, passing=found.passing and not final, final=final
    )


def _exit(code: tuple[int, int]) -> int:
    number, signal = code
    return 128 + signal if signal and not number else number
