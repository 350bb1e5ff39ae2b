"""What PBS's words mean: states of jobs, exit codes, comments, refusals. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    EndCause,
    ForeignJob,
    JobPhase,
    JobRefused,
    JobReport,
)
from provisioner.batch.pbs.text import Record, duration_s, hosts, number, seconds

_PHASES = {
    "Q": JobPhase.QUEUED,
    "H": JobPhase.QUEUED,
    "W": JobPhase.QUEUED,
    "T": JobPhase.QUEUED,
    "M": JobPhase.QUEUED,
    "R": JobPhase.RUNNING,
    "B": JobPhase.RUNNING,
    "S": JobPhase.PAUSED,
    "U": JobPhase.PAUSED,
    "E": JobPhase.ENDING,
    "F": JobPhase.ENDED,
    "X": JobPhase.ENDED,
}
_PRERUN = "41"
"""Substate of a job whose nodes are being prepared."""
_DELETED = "91"
_CAUSES = {
    0: EndCause.OK,
    -29: EndCause.TIMEOUT,
    -28: EndCause.TIMEOUT,
    -27: EndCause.OUT_OF_MEMORY,
    -26: EndCause.OUT_OF_MEMORY,
    -20: EndCause.NODE_FAILED,
    -14: EndCause.NODE_FAILED,
    **dict.fromkeys((-11, -12, -15, -16, -17, -18), EndCause.PREEMPTED),
    **dict.fromkeys((*range(-10, 0), -21, -22, -30), EndCause.LAUNCH_FAILED),
}
"""By Exit_status, where it is not the program's."""
GAVE_UP = "too many failed attempts to run"
"""What PBS says of a job that it holds for good: no node can start it."""

NEVER = "Can Never Run"
"""Of a job for which no nodes are up that could hold it: it stays, and starts when there are some."""
_LESS = (
    ("resource: mem ", "ask for less memory (memory_per_slot of the pool, or mem in -l select)"),
    ("resource: ncpus ", "ask for fewer CPUs (cpus_per_slot of the pool)"),
    ("resource: ngpus ", "ask for fewer GPUs on a node (slots_per_node)"),
    ("total nodes", "ask for fewer nodes (fewer slots, or more slots_per_node)"),
)
"""The way out, by what there is too little of."""
_WORDS = (
    ("Queue not started", "the queue is stopped"),
    ("Insufficient amount of resource", "no nodes of that shape are free"),
    ("Not enough free nodes available", "no nodes of that shape are free"),
    ("Not enough total nodes available", "the site has fewer nodes than it asks for"),
    ("running job limit", "a limit on running jobs is reached"),
    ("limit", "a limit of the queue or of the site is reached"),
    ("conflict with reservation", "it would run into a reservation"),
    ("Job held by", "held: `qrls` starts it"),
    ("top job", "jobs of a higher priority come first"),
)
_NO_NODES = ("Insufficient amount", "Not enough", "Queue not started", "top job")
_HOLDS = {
    "u": "held: `qrls` starts it",
    "o": "held by an operator of the site",
    "s": "held by the site",
}


def report(job_id: str, record: Record) -> JobReport:
    """One job in our words."""
    state, substate = record.get("job_state", ""), record.get("substate", "")
    comment = record.get("comment", "")
    phase = phase_of(state, substate)
    if state == "H" and GAVE_UP in comment:
        phase = JobPhase.ENDED
    waits, over = phase is JobPhase.QUEUED, phase is JobPhase.ENDED
    status = number(record.get("Exit_status", ""))
    started = seconds(record.get("stime", ""))
    return JobReport(
        job_id=job_id,
        name=record.get("Job_Name", ""),
        phase=phase,
        state=state,
        kind=kind_of(comment) if waits else ReasonKind.LAUNCHING,
        reason=comment if waits else "",
        words=words_of(comment, record.get("Hold_Types", "n")) if waits else "",
        starts_at=seconds(record.get("estimated.start_time", "")) if waits else started,
        ends_at=_end(record, started, over=over),
        nodes=() if waits else hosts(record.get("exec_host", "")),
        account=record.get("Account_Name", ""),
        cause=cause_of(status, substate, comment) if over else None,
        exit_code=_exit_code(status) if over else None,
    )


def foreign(job_id: str, record: Record) -> ForeignJob:
    return ForeignJob(
        system="pbs",
        job_id=job_id,
        name=record.get("Job_Name", ""),
        user=record.get("Job_Owner", "").partition("@")[0],
        waits=phase_of(record.get("job_state", "")) is JobPhase.QUEUED,
        nodes=number(record.get("Resource_List.nodect", "")) or 0,
        submitted=seconds(record.get("ctime", "")),
    )


def phase_of(state: str, substate: str = "") -> JobPhase:
    """A state that no release we know of has counts as running: it must not end anything."""
    if state == "R" and substate == _PRERUN:
        return JobPhase.STARTING
    return _PHASES.get(state, JobPhase.RUNNING)


def cause_of(status: int | None, substate: str, comment: str) -> EndCause:
    """`status` is Exit_status; that of a deleted job says nothing, and a job that never ran has none."""
    if substate == _DELETED or "terminated by" in comment:
        by_site = "terminated by Scheduler@" in comment
        return EndCause.PREEMPTED if by_site else EndCause.CANCELLED
    if status is None or GAVE_UP in comment:
        return EndCause.LAUNCH_FAILED
    if status > 0:
        return EndCause.FAILED
    return _CAUSES.get(status, EndCause.UNKNOWN)


def kind_of(comment: str) -> ReasonKind:
    """Why a job waits at the site, as the pools and the rules of falling back count it."""
    if NEVER in comment:
        return ReasonKind.NO_SUCH_AGENT
    if any(sign in comment for sign in _NO_NODES) or comment.startswith("Job held"):
        return ReasonKind.NO_CAPACITY
    return ReasonKind.QUOTA if "limit" in comment else ReasonKind.QUEUED


def words_of(comment: str, holds: str = "n") -> str:
    """In plain words; empty where PBS's own are as plain."""
    for letter, text in _HOLDS.items():
        if letter in holds:
            return text
    if not comment:
        return "the scheduler has not looked at it yet"
    if NEVER in comment:
        less = next((text for sign, text in _LESS if sign in comment), "correct -l select")
        return f"no nodes that are up can hold it: {less}; if some that can are down, it starts when they are back"
    return next((text for sign, text in _WORDS if sign in comment), "")


@dataclass(frozen=True, slots=True)
class _Refusal:
    code: int
    """What qsub exits with: the error's number, modulo 256."""
    text: str
    """What it prints, for where another server numbers differently."""
    kind: ReasonKind
    hint: str
    passing: bool = False
    unsure: bool = False
    """Neither passing nor final: a server whose directory of users is away says it of everybody."""


_REFUSALS = (
    _Refusal(170, "Unknown queue", ReasonKind.NO_SUCH_AGENT, "qstat -Q lists the queues"),
    _Refusal(173, "Queue is not enabled", ReasonKind.NO_CAPACITY, "use another queue", True),
    _Refusal(159, "Unauthorized Request", ReasonKind.QUOTA, "this user may not use that queue"),
    _Refusal(187, "Unknown resource", ReasonKind.NO_SUCH_AGENT, "correct the -l arguments"),
    _Refusal(
        188,
        "violates queue and/or server resource limits",
        ReasonKind.NO_SUCH_AGENT,
        "ask for less, or for a shorter -l walltime: qstat -Qf shows the limits",
    ),
    _Refusal(
        38,
        "would exceed",
        ReasonKind.QUOTA,
        "it is submitted again when others have ended",
        True,
    ),
    _Refusal(
        166,
        "Illegal attribute or resource value",
        ReasonKind.NO_SUCH_AGENT,
        "correct the -l arguments",
    ),
    _Refusal(5, "cannot be used with", ReasonKind.NO_SUCH_AGENT, "put it into -l select"),
    _Refusal(197, "Bad GID", ReasonKind.QUOTA, "correct -W group_list", unsure=True),
    _Refusal(
        175,
        "Bad UID",
        ReasonKind.QUOTA,
        "PBS takes no jobs of this user, and none of root",
        unsure=True,
    ),
    _Refusal(2, "usage:", ReasonKind.NO_SUCH_AGENT, "correct pbs.pbsbatch_args"),
)
_NO_ANSWER_CODES = frozenset({162, 160, 255, 127})
_NO_ANSWER = ("cannot connect to server", "Couldn't connect", "Connection refused", "timed out")


def has_no_answer(code: int, text: str) -> bool:
    """Whether a command failed because the server could not be asked."""
    return code in _NO_ANSWER_CODES or any(sign in text for sign in _NO_ANSWER)


def refusal_of(code: int, text: str) -> JobRefused:
    """What qsub said, with the way out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((re.sub(r"^qsub:\s*", "", line) for line in lines), "")
    found = next((one for one in _REFUSALS if one.text in text), None)
    found = found or next((one for one in _REFUSALS if one.code == code), None)
    said = said or f"qsub failed with exit code {code}"
    if found is None:
        return JobRefused(
            f"{said} (see pbs.pbsbatch_args)", kind=ReasonKind.NO_SUCH_AGENT, passing=False
        )
    return JobRefused(
        f"{said} ({found.hint})",
        kind=found.kind,
        passing=found.passing,
        final=found.text in text and not found.passing and not found.unsure,
    )


def _end(record: Record, started: float | None, *, over: bool) -> float | None:
    if over:
        return seconds(record.get("obittime", "")) or seconds(record.get("mtime", ""))
    limit = duration_s(record.get("Resource_List.walltime", ""))
    return None if started is None or limit is None else started + limit


def _exit_code(status: int | None) -> int | None:
    """As a shell would have it: 128 + n for a signal, which PBS adds to 256. None: not the program's."""
    if status is None or status < 0:
        return None
    return 128 + status - 256 if status > 256 else status
